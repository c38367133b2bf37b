"""Files of a sandbox, typed: each request becomes one call of the tool of its name, and its records become messages.

Nothing here touches a file. The work is done in the guest by a program that a verdict allowed; what it prints is read
by file_records.py as a stranger's bytes.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any, Final

from opensafe._proto.v1 import files_pb2, files_pb2_grpc
from opensafe.control.paging import page_size
from opensafe.errors import InvalidArgument
from opensafe.execution.run import Stdin
from opensafe.gate import Gate
from opensafe.model.calls import Principal
from opensafe.model.files import INLINE_MAX, MAX_PAGE, MAX_TREE_ENTRIES

from . import convert, file_records
from .exec_service import trace_carrier
from .file_run import FileRun, Wanted, begin

_PAGE: Final = 1000


class FilesService(files_pb2_grpc.FilesServiceServicer):
    """One principal's file operations; see files.proto."""

    def __init__(self, gate: Gate, principal: Principal) -> None:
        self._gate = gate
        self._principal = principal

    async def ReadFile(  # noqa: N802 - the name of the RPC
        self,
        request: files_pb2.ReadFileRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> AsyncIterator[files_pb2.ReadFileResponse]:
        """The file's bytes as they come."""
        arguments = {"path": request.path, **_given(offset=request.offset, length=request.length)}
        async with self._begin(Wanted(call=request.call, tool="Read", arguments=arguments), context) as run:
            yield files_pb2.ReadFileResponse(decided=convert.decision(run.verdict))
            async for data in run.output():
                yield files_pb2.ReadFileResponse(data=data)

    async def WriteFile(  # noqa: N802 - the name of the RPC
        self,
        request_iterator: AsyncIterator[files_pb2.WriteFileRequest],
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> AsyncIterator[files_pb2.WriteFileResponse]:
        """Small content goes into the call, larger content follows it."""
        first = await anext(request_iterator, files_pb2.WriteFileRequest())
        if first.WhichOneof("message") != "start":
            raise InvalidArgument("the first message must be `start`", remedy="Send WriteFileStart first.")
        start = first.start
        arguments = {"path": start.path, **_mode(start.mode), **_given(truncate=start.truncate, owner=start.owner)}
        if start.HasField("offset"):
            arguments["offset"] = start.offset
        content = _content(request_iterator, start.size)
        stdin = start.size > INLINE_MAX
        if stdin:
            arguments |= {"size": start.size, "sha256": start.sha256}
        else:
            whole = b"".join([data async for data in content])
            arguments["content_base64"] = base64.b64encode(whole).decode()
        wanted = Wanted(call=start.call, tool="Write", arguments=arguments, stdin=stdin)
        async with self._begin(wanted, context) as run:
            yield files_pb2.WriteFileResponse(decided=convert.decision(run.verdict))
            await _fed(run, content if stdin else None)
            yield files_pb2.WriteFileResponse(done=files_pb2.WriteFileDone())

    async def ListDirectory(  # noqa: N802 - the name of the RPC
        self,
        request: files_pb2.ListDirectoryRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> files_pb2.ListDirectoryResponse:
        """One page."""
        most = page_size(request.page_size, usual=_PAGE, most=MAX_PAGE)
        arguments = {"path": request.path, "max_entries": most, **_given(cursor=request.cursor)}
        async with self._begin(Wanted(call=request.call, tool="List", arguments=arguments), context) as run:
            *records, rest = (await run.whole()).split(b"\0")
            more = bool(records) and records[-1] == b"+"
            entries = [file_records.entry(record) for record in (records[:-1] if more else records)]
            if rest or len(entries) > most or (more and not entries):
                raise file_records.malformed(rest)
            return files_pb2.ListDirectoryResponse(
                decision=convert.decision(run.verdict),
                entries=entries,
                next_cursor=entries[-1].name.hex() if more else "",
            )

    async def StatFile(  # noqa: N802 - the name of the RPC
        self,
        request: files_pb2.StatFileRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> files_pb2.StatFileResponse:
        """One name."""
        wanted = Wanted(call=request.call, tool="Stat", arguments={"path": request.path})
        async with self._begin(wanted, context) as run:
            record, *target, rest = (await run.whole()).split(b"\0")
            info = file_records.entry(record, whole_path=True)
            link = info.type == files_pb2.FILE_TYPE_SYMLINK
            if rest or len(target) != link or any(len(text) > file_records.MAX_RECORD for text in target):
                raise file_records.malformed(rest)
            info.name = request.path.rstrip("/").rpartition("/")[2].encode()
            info.target = target[0] if link else b""
            return files_pb2.StatFileResponse(decision=convert.decision(run.verdict), info=info)

    async def RemoveFile(  # noqa: N802 - the name of the RPC
        self,
        request: files_pb2.RemoveFileRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> files_pb2.RemoveFileResponse:
        """A file, a link, a directory."""
        if not 0 <= request.max_entries <= MAX_TREE_ENTRIES:
            raise InvalidArgument(
                "max_entries is out of bounds", value=request.max_entries, limit=f"0 to {MAX_TREE_ENTRIES}"
            )
        given = _given(recursive=request.recursive, max_entries=request.max_entries)
        run = await self._done(request.call, "Remove", {"path": request.path, **given}, context)
        return files_pb2.RemoveFileResponse(decision=convert.decision(run.verdict))

    async def MoveFile(  # noqa: N802 - the name of the RPC
        self,
        request: files_pb2.MoveFileRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> files_pb2.MoveFileResponse:
        """A rename."""
        arguments = {"path": request.path, "to": request.to, **_given(replace=request.replace)}
        run = await self._done(request.call, "Move", arguments, context)
        return files_pb2.MoveFileResponse(decision=convert.decision(run.verdict))

    async def MakeDirectory(  # noqa: N802 - the name of the RPC
        self,
        request: files_pb2.MakeDirectoryRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> files_pb2.MakeDirectoryResponse:
        """A directory."""
        given = _given(parents=request.parents, owner=request.owner)
        arguments = {"path": request.path, **_mode(request.mode), **given}
        run = await self._done(request.call, "Mkdir", arguments, context)
        return files_pb2.MakeDirectoryResponse(decision=convert.decision(run.verdict))

    async def WatchDirectory(  # noqa: N802 - the name of the RPC
        self,
        request: files_pb2.WatchDirectoryRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> AsyncIterator[files_pb2.WatchDirectoryResponse]:
        """Changes as they happen."""
        arguments = {"path": request.path, **_given(recursive=request.recursive)}
        async with self._begin(Wanted(call=request.call, tool="Watch", arguments=arguments), context) as run:
            yield files_pb2.WatchDirectoryResponse(decided=convert.decision(run.verdict))
            records = file_records.Records()
            async for data in run.output():
                for record in records.feed(data):
                    yield files_pb2.WatchDirectoryResponse(change=file_records.change(record))
            records.end()

    async def DownloadTree(  # noqa: N802 - the name of the RPC
        self,
        request: files_pb2.DownloadTreeRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> AsyncIterator[files_pb2.DownloadTreeResponse]:
        """An archive, then what it lacks."""
        wanted = Wanted(call=request.call, tool="Download", arguments={"path": request.path})
        async with self._begin(wanted, context) as run:
            yield files_pb2.DownloadTreeResponse(decided=convert.decision(run.verdict))
            async for data in run.output():
                yield files_pb2.DownloadTreeResponse(data=data)
            yield files_pb2.DownloadTreeResponse(done=file_records.left_out(run.stderr))

    async def UploadTree(  # noqa: N802 - the name of the RPC
        self,
        request_iterator: AsyncIterator[files_pb2.UploadTreeRequest],
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> AsyncIterator[files_pb2.UploadTreeResponse]:
        """An archive in, what was left out back."""
        first = await anext(request_iterator, files_pb2.UploadTreeRequest())
        if first.WhichOneof("message") != "start":
            raise InvalidArgument("the first message must be `start`", remedy="Send UploadTreeStart first.")
        start = first.start
        arguments = {"path": start.path, **_given(owner=start.owner)}
        wanted = Wanted(call=start.call, tool="Upload", arguments=arguments, stdin=True)
        async with self._begin(wanted, context) as run:
            yield files_pb2.UploadTreeResponse(decided=convert.decision(run.verdict))
            await _fed(run, _archive(request_iterator))
            yield files_pb2.UploadTreeResponse(done=file_records.left_out(run.stderr))

    def _begin(self, wanted: Wanted, context: Any) -> Any:  # noqa: ANN401 - a context manager of a FileRun
        return begin(self._gate, self._principal, wanted, trace_carrier(context))

    async def _done(self, call: files_pb2.FileCall, tool: str, arguments: dict[str, Any], context: Any) -> FileRun:  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
        run: FileRun
        async with self._begin(Wanted(call=call, tool=tool, arguments=arguments), context) as run:
            await run.whole()
        return run


async def _fed(run: FileRun, content: AsyncIterator[bytes] | None) -> None:
    """Read the call to its end while `content` goes to its standard input."""
    if content is None:
        await run.whole()
        return
    feeding = asyncio.create_task(_feed(run.live.stdin, content), name="file-content")
    reading = asyncio.create_task(run.whole(), name="file-output")
    try:
        # Content that breaks the protocol ends the call; content that nobody reads any more does not hold it.
        await asyncio.wait((feeding, reading), return_when=asyncio.FIRST_COMPLETED)
        if feeding.done():
            feeding.result()
        await reading
    finally:
        feeding.cancel()
        reading.cancel()
        await asyncio.gather(feeding, reading, return_exceptions=True)


async def _feed(stdin: Stdin, content: AsyncIterator[bytes]) -> None:
    async for data in content:
        await stdin.put(data)
    await stdin.put(None)


async def _content(requests: AsyncIterator[files_pb2.WriteFileRequest], size: int) -> AsyncIterator[bytes]:
    """Exactly `size` bytes. Raises InvalidArgument where it is more or less."""
    if size < 0:
        raise InvalidArgument("start.size is negative", value=size)
    seen = 0
    async for request in requests:
        if request.WhichOneof("message") != "data":
            raise InvalidArgument("only `data` may follow `start`")
        seen += len(request.data)
        if seen > size:
            break
        yield request.data
    if seen != size:
        raise InvalidArgument(
            "the content is not as long as was said", value=f"{'more than ' if seen > size else ''}{seen} bytes",
            limit=f"{size} bytes", remedy="Send exactly start.size bytes, then end the stream.",
        )  # fmt: skip


async def _archive(requests: AsyncIterator[files_pb2.UploadTreeRequest]) -> AsyncIterator[bytes]:
    async for request in requests:
        if request.WhichOneof("message") != "data":
            raise InvalidArgument("only `data` may follow `start`")
        yield request.data


def _given(**values: int | str | bool) -> dict[str, Any]:
    """The arguments that are not left at their default."""
    return {name: value for name, value in values.items() if value}


def _mode(mode: int) -> dict[str, str]:
    if mode > 0o777:
        raise InvalidArgument("mode is out of bounds", value=oct(mode), limit="0777")
    return {"mode": f"{mode:04o}"} if mode else {}
