"""Putting a file in place whole or not at all: written beside it, synced, renamed over it."""

import os
import pathlib
import tempfile

from opensafe.errors import InvalidArgument


def replace(target: pathlib.Path, content: bytes) -> None:
    """Make `content` the file `target`, mode 0644. Raises InvalidArgument where it can't be written."""
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InvalidArgument(f"the file can't be written: {error.strerror}", value=target) from error
