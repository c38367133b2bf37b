"""A file over HTTPS that is kept only when its SHA-256 is the pinned one.

Two failures are kept apart: an unreachable host means "try the next source", a wrong checksum means stop.
"""

import hashlib
import urllib.error
import urllib.request
from pathlib import Path

from .runner import StepError

CONNECT_TIMEOUT_S = 5.0
MAX_BYTES = 512 << 20


class UnreachableError(Exception):
    """The file can't be fetched from here."""


def download(url: str, sha256: str, target: Path) -> Path:
    """Fetch `url` to `target` and return it.

    Raises UnreachableError when nothing answers within 5 s or the answer isn't the file, StepError when the file is
    another than the pinned one or larger than 512 MiB. Nothing is left at `target` then.
    """
    total = hashlib.sha256()
    size = 0
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S) as answer, target.open("wb") as file:  # noqa: S310 - the URL is a constant of pins.toml
            while chunk := answer.read(1 << 20):
                size += len(chunk)
                if size > MAX_BYTES:
                    break
                total.update(chunk)
                file.write(chunk)
    except (OSError, urllib.error.URLError) as error:
        target.unlink(missing_ok=True)
        raise UnreachableError(str(error)) from error
    if size > MAX_BYTES or total.hexdigest() != sha256:
        target.unlink()
        found = f"more than {MAX_BYTES} bytes" if size > MAX_BYTES else f"SHA-256 {total.hexdigest()}"
        why = f"{url} is not the pinned file: {found}, expected {sha256}"
        raise StepError(why, "do not use that file: compare both with what the project publishes")
    return target
