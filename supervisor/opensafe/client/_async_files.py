"""The files of a sandbox, for people: text and bytes, whole directories, a reviewer waited for.

Each operation has its call_id before it is sent, so that one that the daemon could not take is repeated; a stream or a
tree that has begun is not.
"""

from __future__ import annotations  # AsyncSession exists for the type checker only

import asyncio
import contextlib
import os
import pathlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opensafe.errors import FileNotFound, InvalidArgument, OpenSafeError, ReviewPending
from opensafe.model.files import DOWNLOAD_BYTES

from . import copying
from ._files import Change, FileInfo, Files, Left
from ._retry import Retry, repeating
from ._reviewing import reviewed
from ._run_options import fresh_id

if TYPE_CHECKING:
    from ._async_session import AsyncSession

Answer = TypeVar("Answer")
_PAGE: Final = 1000
#: For trees, of which a part may have arrived.
_ONCE: Final = Retry(attempts=1)


class AsyncSandboxFiles:
    """Paths are absolute or relative to /workspace. Raises Denied, ReviewPending, FileError and SandboxError."""

    def __init__(self, session: AsyncSession, sandbox_id: str) -> None:
        self._session = session
        self._sandbox_id = sandbox_id

    async def read(self, path: str) -> str:
        """A file's text. Raises InvalidArgument where it is no UTF-8."""
        content = await self.read_bytes(path)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidArgument("the file is no UTF-8", value=path, remedy="Use read_bytes.") from error

    async def read_bytes(self, path: str, *, offset: int = 0, length: int = 0) -> bytes:
        """A file's bytes, or a range of them; `length` 0 is to the end."""
        return await self._do(lambda files, call: files.read_bytes(path, offset=offset, length=length, call_id=call))

    async def write(
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
        data = bytes(content, "utf-8") if isinstance(content, str) else content
        offset = 0 if in_place else None
        await self._do(
            lambda files, call: files.write(
                path, data, mode=mode, offset=offset, truncate=in_place, owner=owner, call_id=call
            )
        )

    async def list(self, path: str = ".") -> list[FileInfo]:
        """All entries of a directory, in the order of their names' bytes."""
        found: list[FileInfo] = []
        cursor = ""
        while True:
            at = cursor
            page = await self._do(lambda files, call: files.list(path, page_size=_PAGE, cursor=at, call_id=call))  # noqa: B023 - awaited before the next round
            found += page.entries
            cursor = page.next_cursor
            if not cursor:
                return found

    async def stat(self, path: str) -> FileInfo:
        """The name itself: a symlink is described and not followed."""
        return await self._do(lambda files, call: files.stat(path, call_id=call))

    async def exists(self, path: str) -> bool:
        """Whether there is such a name."""
        try:
            await self.stat(path)
        except FileNotFound:
            return False
        return True

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link, an empty directory, or with `recursive` a tree."""
        await self._do(lambda files, call: files.remove(path, recursive=recursive, call_id=call))

    async def move(self, path: str, to: str, *, replace: bool = False) -> None:
        """Rename within one file system."""
        await self._do(lambda files, call: files.move(path, to, replace=replace, call_id=call))

    async def mkdir(self, path: str, *, parents: bool = False, mode: int = 0o755, owner: str = "") -> None:
        """Make a directory; with `parents` one that is there already is as good."""
        await self._do(lambda files, call: files.mkdir(path, mode=mode, parents=parents, owner=owner, call_id=call))

    async def watch(self, path: str, *, recursive: bool = False) -> AsyncGenerator[Change, None]:
        """Changes as they happen, the first being `watching`. Close it with `contextlib.aclosing` to end the watch."""
        async with contextlib.aclosing(self._open().watch(path, recursive=recursive)) as changes:
            async for change in changes:
                yield change

    async def upload(self, source: str | os.PathLike[str], target: str, *, owner: str = "") -> Left:
        """Copy a file of this host to `target`, or a directory's content into it; what was left out, and why."""
        path = os.fspath(source)
        send = copying.send_tree if await asyncio.to_thread(os.path.isdir, path) else copying.send_file
        copied = await self._do(lambda files, call: send(files, path, target, owner, call_id=call), _ONCE)
        return copied.left

    async def download(
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
        info = await self.stat(source)
        fetch = copying.fetch_tree if info.type == "directory" else copying.fetch_file
        to = os.fspath(target)
        copied = await self._do(
            lambda files, call: fetch(
                files, source, to, with_auto_run=with_auto_run, size_limit=size_limit, call_id=call
            ),
            _ONCE,
        )
        return copied.left

    def _open(self, *, waiting: bool = False) -> Files:
        files = self._session.client.files(self._session.session_id, self._sandbox_id)
        files.wait_for_review = waiting
        return files

    async def _do(
        self, operation: Callable[[Files, str], Coroutine[Any, Any, Answer]], retry: Retry | None = None
    ) -> Answer:
        call_id = fresh_id("file")
        try:
            return await self._through_review(operation, call_id, retry or self._session.defaults.retry)
        except OpenSafeError as error:
            error.call_id = call_id
            raise

    async def _through_review(
        self, operation: Callable[[Files, str], Coroutine[Any, Any, Answer]], call_id: str, retry: Retry
    ) -> Answer:
        defaults = self._session.defaults
        try:
            return await repeating(retry, lambda: operation(self._open(), call_id))
        except ReviewPending as parked:
            if defaults.wait_review is None:
                raise
            parked.call_id = call_id
            going = repeating(retry, lambda: operation(self._open(waiting=True), call_id))
            return await reviewed(going, parked, defaults.on_review, defaults.wait_review)
