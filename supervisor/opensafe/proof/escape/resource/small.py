"""File systems of the suite's own, which hold little: what fills one fills nothing of the host's."""

import contextlib
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Final

_MOUNT: Final = "/usr/bin/mount"
_UNMOUNT: Final = "/usr/bin/umount"


@contextlib.contextmanager
def mounted(place: pathlib.Path, **options: str) -> Iterator[None]:
    """One in memory at `place`, which is made, with options of tmpfs(5)."""
    place.mkdir()
    given = ",".join(f"{name}={value}" for name, value in options.items())
    subprocess.run([_MOUNT, "-t", "tmpfs", "-o", given, "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run([_UNMOUNT, place], check=True)
