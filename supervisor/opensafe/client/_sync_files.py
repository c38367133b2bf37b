"""The files of a sandbox for synchronous programs: AsyncSandboxFiles behind a Portal."""

import os
import pathlib
from collections.abc import Iterator

from opensafe.model.files import DOWNLOAD_BYTES

from ._async_files import AsyncSandboxFiles
from ._files import Change, FileInfo, Left
from ._portal import Portal


class SandboxFiles:
    """See AsyncSandboxFiles: paths are absolute or relative to /workspace."""

    def __init__(self, portal: Portal, files: AsyncSandboxFiles) -> None:
        self._portal = portal
        self._files = files

    def read(self, path: str) -> str:
        """A file's text. Raises InvalidArgument where it is no UTF-8."""
        return self._portal.call(self._files.read(path))

    def read_bytes(self, path: str, *, offset: int = 0, length: int = 0) -> bytes:
        """A file's bytes, or a range of them; `length` 0 is to the end."""
        return self._portal.call(self._files.read_bytes(path, offset=offset, length=length))

    def write(
        self,
        path: str,
        content: str | bytes | pathlib.Path,
        *,
        mode: int = 0o644,
        owner: str = "",
        in_place: bool = False,
    ) -> None:
        """Replace or make a file as a whole. content: text (as UTF-8), bytes, or a file of this host.

        in_place: one that is there stays the same file, with its mode, and has to be writable.
        """
        self._portal.call(self._files.write(path, content, mode=mode, owner=owner, in_place=in_place))

    def list(self, path: str = ".") -> list[FileInfo]:
        """All entries of a directory, in the order of their names' bytes."""
        return self._portal.call(self._files.list(path))

    def stat(self, path: str) -> FileInfo:
        """The name itself: a symlink is described and not followed."""
        return self._portal.call(self._files.stat(path))

    def exists(self, path: str) -> bool:
        """Whether there is such a name."""
        return self._portal.call(self._files.exists(path))

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link, an empty directory, or with `recursive` a tree."""
        self._portal.call(self._files.remove(path, recursive=recursive))

    def move(self, path: str, to: str, *, replace: bool = False) -> None:
        """Rename within one file system."""
        self._portal.call(self._files.move(path, to, replace=replace))

    def mkdir(self, path: str, *, parents: bool = False, mode: int = 0o755, owner: str = "") -> None:
        """Make a directory; with `parents` one that is there already is as good."""
        self._portal.call(self._files.mkdir(path, parents=parents, mode=mode, owner=owner))

    def watch(self, path: str, *, recursive: bool = False) -> Iterator[Change]:
        """Changes as they happen, the first being `watching`. Close the iterator to end the watch."""
        changes = self._files.watch(path, recursive=recursive)

        async def following() -> Change | None:
            return await anext(changes, None)

        try:
            while (change := self._portal.call(following())) is not None:
                yield change
        finally:
            self._portal.call(changes.aclose())

    def upload(self, source: str | os.PathLike[str], target: str, *, owner: str = "") -> Left:
        """Copy a file of this host to `target`, or a directory's content into it; what was left out, and why."""
        return self._portal.call(self._files.upload(source, target, owner=owner))

    def download(
        self,
        source: str,
        target: str | os.PathLike[str],
        *,
        with_auto_run: bool = False,
        size_limit: int = DOWNLOAD_BYTES,
    ) -> Left:
        """Copy a file of the sandbox to `target`, or a directory's content into it; what was left out, with the reason.

        It is unpacked as if an enemy had made it. with_auto_run: also what this host would run by itself. size_limit:
        bytes that are taken, beyond which it is LimitExceeded.
        """
        return self._portal.call(
            self._files.download(source, target, with_auto_run=with_auto_run, size_limit=size_limit)
        )
