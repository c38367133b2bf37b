"""A probe's own program in a sandbox's workspace: unpacked there, as what an operator brings.

Of what a session's calls write, policy reads what it does before it is run. What a tree brings is the workspace's own,
so that what is planted shows whether the sandbox holds, and not whether policy does.
"""

import io
import pathlib
import tarfile
from collections.abc import AsyncIterator

from opensafe.client import Files


async def plant(files: Files, path: str, data: bytes, *, mode: int = 0o644) -> None:
    """Put a file into the sandbox of `files`. Raises OpenSafeError where that is not allowed or fails."""
    place = pathlib.PurePosixPath(path)
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        member = tarfile.TarInfo(place.name)
        member.size, member.mode = len(data), mode
        archive.addfile(member, io.BytesIO(data))

    async def pieces() -> AsyncIterator[bytes]:
        yield held.getvalue()

    await files.upload(str(place.parent), pieces())
