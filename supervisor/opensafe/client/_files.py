"""Files of one sandbox: `client.files(session_id, sandbox_id)`, one method an operation.

Each operation is one call of the tool of its name, judged and recorded. A no is Denied, a parked call
ReviewPending, and what the guest could not do a FileError. Content is bytes or a file of this host, which is read
twice: once for its digest, which policy is told, and once to be sent. call_id makes an operation safe to repeat;
without one each is a call of its own.
"""

from __future__ import annotations  # the asynchronous stubs exist for the type checker only

import asyncio
import hashlib
import pathlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any, BinaryIO, Final

import grpc
import msgspec

from opensafe._proto.v1 import files_pb2, files_pb2_grpc
from opensafe.errors import InvalidArgument, OpenSafeError, Unavailable
from opensafe.model.files import INLINE_MAX

from . import _trace
from ._failures import Answer, ask, stream

#: Bytes in one message.
CHUNK: Final = 256 * 1024

Content = bytes | pathlib.Path

_TYPES: Final = {
    files_pb2.FILE_TYPE_REGULAR: "file",
    files_pb2.FILE_TYPE_DIRECTORY: "directory",
    files_pb2.FILE_TYPE_SYMLINK: "symlink",
    files_pb2.FILE_TYPE_FIFO: "fifo",
    files_pb2.FILE_TYPE_SOCKET: "socket",
    files_pb2.FILE_TYPE_CHARACTER_DEVICE: "character device",
    files_pb2.FILE_TYPE_BLOCK_DEVICE: "block device",
}
_PREFIX: Final = "FILE_CHANGE_KIND_"


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A name in a sandbox. type: file, directory, symlink, fifo, socket, character device, block device.

    Name and target are bytes, since they need not be UTF-8; target is a symlink's, from `stat`.
    """

    name: bytes
    type: str
    size: int
    mode: int
    mtime_unix_ns: int
    target: bytes = b""

    @property
    def filename(self) -> str:
        """The name as text; bytes that are no UTF-8 are surrogates, as `os.fsdecode` makes them."""
        return self.name.decode("utf-8", "surrogateescape")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a directory, in the order of the names' bytes. next_cursor is empty on the last page."""

    entries: tuple[FileInfo, ...]
    next_cursor: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a watched directory.

    kind: watching, created, deleted, written, modified, attributes, moved_from, moved_to, overflow (events were lost),
    not_watched (too many directories), gone. cookie: the same for both halves of a move.
    """

    kind: str
    path: bytes
    directory: bool
    cookie: int = 0


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """What a tree left out. reason: special, held (by policy), link, denied, unreadable, exists, deep, changed."""

    path: bytes
    reason: str


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """All that a tree left out: the first thousand, and how many there are."""

    items: tuple[LeftOut, ...] = ()
    count: int = 0


class Files:
    """See the module. All methods belong to the event loop of the client they come from."""

    def __init__(self, channel: grpc.aio.Channel, socket: pathlib.Path, session_id: str, sandbox_id: str) -> None:
        self._stub: files_pb2_grpc.FilesServiceAsyncStub = files_pb2_grpc.FilesServiceStub(channel)
        self._socket = socket
        self._place = (session_id, sandbox_id)
        #: Wait for a reviewer's verdict instead of raising ReviewPending.
        self.wait_for_review = False

    # Content

    async def read(
        self, path: str, *, offset: int = 0, length: int = 0, call_id: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """The file's bytes in pieces; `length` 0 is to the end. Leaving early? Close it with `contextlib.aclosing`."""
        request = files_pb2.ReadFileRequest(call=self._call(call_id), path=path, offset=offset, length=length)
        with stream(self._stub.ReadFile(request, metadata=_trace.metadata()), self._socket) as answers:
            async for answer in answers:
                if answer.WhichOneof("event") == "data":
                    yield answer.data

    async def read_bytes(self, path: str, *, offset: int = 0, length: int = 0, call_id: str = "") -> bytes:
        """All of them at once."""
        return b"".join([data async for data in self.read(path, offset=offset, length=length, call_id=call_id)])

    async def write(
        self,
        path: str,
        content: Content,
        *,
        mode: int = 0o644,
        offset: int | None = None,
        truncate: bool = False,
        owner: str = "",
        call_id: str = "",
    ) -> None:
        """Replace the file as a whole, or with `offset` write into it; `truncate` ends it behind the content.

        owner: the user of the image, by name or number, as whom to write the whole file, and whose it is then.
        """
        size, digest = await _measure(content)
        start = files_pb2.WriteFileStart(
            call=self._call(call_id),
            path=path,
            mode=mode,
            size=size,
            sha256=digest,
            truncate=truncate,
            owner=owner,
        )
        if offset is not None:
            start.offset = offset
        call = self._stub.WriteFile(metadata=_trace.metadata())
        first = files_pb2.WriteFileRequest(start=start)
        pieces = (files_pb2.WriteFileRequest(data=data) async for data in _pieces(content))
        await self._send(call, first, pieces, judged_first=size > INLINE_MAX)

    # Names

    async def list(self, path: str, *, page_size: int = 0, cursor: str = "", call_id: str = "") -> Page:
        """One page of a directory, of at most 10,000 entries (default: 1,000)."""
        request = files_pb2.ListDirectoryRequest(
            call=self._call(call_id), path=path, page_size=page_size, cursor=cursor
        )
        answer = await self._ask(self._stub.ListDirectory(request, metadata=_trace.metadata()))
        return Page(entries=tuple(_info(entry) for entry in answer.entries), next_cursor=answer.next_cursor)

    async def entries(self, path: str, *, page_size: int = 0) -> AsyncIterator[FileInfo]:
        """All entries, page by page."""
        cursor = ""
        while True:
            page = await self.list(path, page_size=page_size, cursor=cursor)
            for entry in page.entries:
                yield entry
            cursor = page.next_cursor
            if not cursor:
                return

    async def stat(self, path: str, *, call_id: str = "") -> FileInfo:
        """The name itself: a symlink is described and not followed."""
        request = files_pb2.StatFileRequest(call=self._call(call_id), path=path)
        return _info((await self._ask(self._stub.StatFile(request, metadata=_trace.metadata()))).info)

    async def remove(self, path: str, *, recursive: bool = False, max_entries: int = 0, call_id: str = "") -> None:
        """A file, a link, an empty directory; with `recursive` a tree of at most `max_entries` (default: 100,000)."""
        request = files_pb2.RemoveFileRequest(
            call=self._call(call_id), path=path, recursive=recursive, max_entries=max_entries
        )
        await self._ask(self._stub.RemoveFile(request, metadata=_trace.metadata()))

    async def move(self, path: str, to: str, *, replace: bool = False, call_id: str = "") -> None:
        """Rename within one file system."""
        request = files_pb2.MoveFileRequest(call=self._call(call_id), path=path, to=to, replace=replace)
        await self._ask(self._stub.MoveFile(request, metadata=_trace.metadata()))

    async def mkdir(
        self, path: str, *, mode: int = 0o755, parents: bool = False, owner: str = "", call_id: str = ""
    ) -> None:
        """Make a directory; with `parents` one that is there already is as good. owner: as for `write`."""
        request = files_pb2.MakeDirectoryRequest(
            call=self._call(call_id), path=path, mode=mode, parents=parents, owner=owner
        )
        await self._ask(self._stub.MakeDirectory(request, metadata=_trace.metadata()))

    async def watch(self, path: str, *, recursive: bool = False, call_id: str = "") -> AsyncGenerator[Change, None]:
        """Changes as they happen, the first being `watching`. Close it with `contextlib.aclosing` to end the watch."""
        request = files_pb2.WatchDirectoryRequest(call=self._call(call_id), path=path, recursive=recursive)
        with stream(self._stub.WatchDirectory(request, metadata=_trace.metadata()), self._socket) as answers:
            async for answer in answers:
                if answer.WhichOneof("event") == "change":
                    change = answer.change
                    kind = files_pb2.FileChangeKind.Name(change.kind).removeprefix(_PREFIX).lower()
                    yield Change(kind=kind, path=change.path, directory=change.directory, cookie=change.cookie)

    # Trees

    async def download(self, path: str, take: Callable[[bytes], Awaitable[object]], *, call_id: str = "") -> Left:
        """A tar archive of a directory's content, or of one file; `take` gets it in pieces."""
        request = files_pb2.DownloadTreeRequest(call=self._call(call_id), path=path)
        left: Left | None = None
        with stream(self._stub.DownloadTree(request, metadata=_trace.metadata()), self._socket) as answers:
            async for answer in answers:
                match answer.WhichOneof("event"):
                    case "data":
                        await take(answer.data)
                    case "done":
                        left = _left(answer.done)
        return self._complete(left)

    async def upload(self, path: str, archive: AsyncIterable[bytes], *, owner: str = "", call_id: str = "") -> Left:
        """Unpack a tar archive (pax or GNU, not compressed) into a directory, which is made where it is missing.

        owner: as for `write`, of all that is unpacked.
        """
        call = self._stub.UploadTree(metadata=_trace.metadata())
        start = files_pb2.UploadTreeStart(call=self._call(call_id), path=path, owner=owner)
        pieces = (files_pb2.UploadTreeRequest(data=data) async for data in _split(archive))
        answer = await self._send(call, files_pb2.UploadTreeRequest(start=start), pieces, judged_first=True)
        return _left(answer.done)

    # Parts

    def _call(self, call_id: str) -> files_pb2.FileCall:
        session_id, sandbox_id = self._place
        return files_pb2.FileCall(
            session_id=session_id,
            sandbox_id=sandbox_id,
            call_id=call_id or f"file-{secrets.token_hex(8)}",
            wait_for_review=self.wait_for_review,
        )

    async def _ask(self, call: Awaitable[Answer]) -> Answer:
        return await ask(call, self._socket)

    async def _send(self, call: Any, first: Any, pieces: AsyncIterator[Any], *, judged_first: bool) -> Any:  # noqa: ANN401 - calls of whatever messages
        """Send all of it while answers come; the last one, which is `done`.

        judged_first: the daemon judges the first message alone. To send more of what it refuses would cost its reason,
        whose place a failing write takes.
        """
        judged = asyncio.Event()
        if not judged_first:
            judged.set()
        feeding = asyncio.create_task(_feed(call, first, pieces, judged), name="opensafe-content")
        last: Any = None
        try:
            with stream(call, self._socket) as answers:
                async for answer in answers:
                    judged.set()
                    last = answer
        except asyncio.CancelledError:
            if feeding.done() and not feeding.cancelled():
                feeding.result()  # the content could not be had, and that ended the call
            raise
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
        return self._complete(last if last is not None and last.WhichOneof("event") == "done" else None)

    def _complete(self, answer: Answer | None) -> Answer:
        if answer is None:
            raise Unavailable(
                f"the daemon at {self._socket} ended the stream early",
                remedy="Repeat with the same call_id: it runs at most once.",
            )
        return answer


async def _feed(call: Any, first: Any, pieces: AsyncIterator[Any], judged: asyncio.Event) -> None:  # noqa: ANN401 - a call of whatever messages
    try:
        await call.write(first)
        await judged.wait()
        async for piece in pieces:
            await call.write(piece)
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return  # the call ended first; the reader has its status
    except BaseException:
        call.cancel()  # half a content must not look like a whole one
        raise


async def _measure(content: Content) -> tuple[int, str]:
    """Size and SHA-256."""
    if isinstance(content, bytes):
        return len(content), hashlib.sha256(content).hexdigest()
    digest, size = hashlib.sha256(), 0
    async for data in _pieces(content):
        digest.update(data)
        size += len(data)
    return size, digest.hexdigest()


async def _pieces(content: Content) -> AsyncIterator[bytes]:
    if isinstance(content, bytes):
        for at in range(0, len(content), CHUNK):
            yield content[at : at + CHUNK]
        return
    try:
        with content.open("rb") as file:
            while data := await asyncio.to_thread(_read, file):
                yield data
    except OSError as error:
        raise InvalidArgument(f"the file can't be read: {error.strerror}", value=content) from error


def _read(file: BinaryIO) -> bytes:
    return file.read(CHUNK)


async def _split(archive: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    async for data in archive:
        for at in range(0, len(data), CHUNK):
            yield data[at : at + CHUNK]


def _info(message: files_pb2.FileInfo) -> FileInfo:
    kind = _TYPES.get(message.type)
    if kind is None:
        raise OpenSafeError("the daemon answered with an unknown type of file", value=message.type)
    return FileInfo(
        name=message.name,
        type=kind,
        size=message.size,
        mode=message.mode,
        mtime_unix_ns=message.mtime_unix_ns,
        target=message.target,
    )


def _left(done: files_pb2.TreeDone) -> Left:
    items = tuple(LeftOut(path=item.path, reason=item.reason) for item in done.left_out)
    return Left(items=items, count=done.left_out_count)
