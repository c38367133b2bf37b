"""Newline-delimited JSON-RPC over this process's standard input and output, with bounds on what a client can make grow.

The SDK's own transport keeps a line in memory however long it gets, starts a task for each message however many there
are, and does not answer what it can't parse. Here a line has a limit and is answered where its id can be told, and a
client that does not read its answers is not read from.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from opensafe.errors import InvalidArgument

from .server_place import Places

#: Bytes of one message.
MAX_MESSAGE: Final = 8 * 1024 * 1024
#: Requests that are not answered, and their bytes; while there are so many, nothing more is read.
MAX_UNANSWERED: Final = 64
MAX_UNANSWERED_BYTES: Final = 32 * 1024 * 1024
_CHUNK: Final = 64 * 1024
_HEAD: Final = 4096
#: A message's first members as long as they are plain values; what follows may hold an `id` of something else.
_SCALAR: Final = r'("(?:[^"\\]|\\.)*"|-?\d+)'
_MEMBER: Final = re.compile(rf'\s*"(jsonrpc|method|id)"\s*:\s*{_SCALAR}\s*,')

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


async def serve(server: Server[Places], source: int = 0, sink: int = 1) -> None:
    """Serve one client on two descriptors until the first ends. Raises InvalidArgument where one is a plain file."""
    async with _pipe(source, sink) as (reader, writer):
        incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        unanswered = Unanswered()
        reading = asyncio.create_task(_read(reader, incoming, write_stream.clone(), unanswered), name="mcp-stdin")
        writing = asyncio.create_task(_write(writer, outgoing, incoming, unanswered), name="mcp-stdout")
        try:
            await server.run(read_stream, write_stream, server.create_initialization_options())
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await asyncio.wait({writing}, timeout=1)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)


class Unanswered:
    """The requests that were read and have no answer yet, by id, with their sizes."""

    def __init__(self) -> None:
        self._sizes: dict[str | int, int] = {}
        self._room = asyncio.Event()
        self._room.set()

    async def add(self, message: types.JSONRPCMessage, size: int) -> bool:
        """Wait for room, then count a request; False for one under an id that is in use."""
        match message:
            case types.JSONRPCRequest(id=number):
                await self._room.wait()
                if number in self._sizes:
                    return False
                self._sizes[number] = size
            case types.JSONRPCNotification(method="notifications/cancelled", params={"requestId": str() | int() as it}):
                self._sizes.pop(it, None)  # it will have no answer
        self._look()
        return True

    def answered(self, message: types.JSONRPCMessage) -> None:
        """Count an answer."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._sizes.pop(message.id, None)
            self._look()

    def _look(self) -> None:
        if len(self._sizes) < MAX_UNANSWERED and sum(self._sizes.values()) < MAX_UNANSWERED_BYTES:
            self._room.set()
        else:
            self._room.clear()


async def lines(reader: asyncio.StreamReader, most: int = MAX_MESSAGE) -> AsyncIterator[tuple[bytes, bool]]:
    """Each line, and whether it is whole: of one beyond `most` bytes there is the beginning."""
    held = bytearray()
    long = False
    while chunk := await reader.read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            if not long and len(held) + len(part) <= most:
                yield bytes(held + part), True
            else:
                yield bytes((held + part)[:_HEAD]), False
            held.clear()
            long = False
        if long or len(held) + len(rest) > most:
            held, long = (held + rest)[:_HEAD], True
        else:
            held += rest


def id_of(head: bytes) -> str | int | None:
    """The id of the message that begins so, where it comes before all that could hold another."""
    text = head.decode("utf-8", "replace").lstrip()
    at = 1 if text.startswith("{") else len(text)
    while member := _MEMBER.match(text, at):
        if member[1] == "id":
            return int(member[2]) if member[2][0] != '"' else member[2][1:-1]
        at = member.end()
    return None


async def _read(
    reader: asyncio.StreamReader,
    incoming: Incoming,
    answers: MemoryObjectSendStream[SessionMessage],
    unanswered: Unanswered,
) -> None:
    async with incoming, answers:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session ended first
            async for line, whole in lines(reader):
                if not line.strip():
                    continue
                message = _parsed(line) if whole else _too_long(line)
                if isinstance(message, types.JSONRPCError):
                    await answers.send(SessionMessage(message))
                    continue
                if await unanswered.add(message, len(line)):
                    await incoming.send(SessionMessage(message))
                elif isinstance(message, types.JSONRPCRequest):
                    text = "a request under this id is under way. Use another id for each."
                    await answers.send(SessionMessage(_error(message.id, types.INVALID_REQUEST, text)))


async def _write(writer: asyncio.StreamWriter, outgoing: Outgoing, incoming: Incoming, unanswered: Unanswered) -> None:
    async with outgoing:
        try:
            async for item in outgoing:
                writer.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await writer.drain()
                unanswered.answered(item.message)
        except OSError:  # nobody reads any more, so nobody asks
            await incoming.aclose()


def _parsed(line: bytes) -> types.JSONRPCMessage:
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        broken = first["type"] == "json_invalid"
        return _error(
            id_of(line[:_HEAD]),
            types.PARSE_ERROR if broken else types.INVALID_REQUEST,
            f"{first['msg'][:200]}. Send one JSON-RPC 2.0 message a line.",
        )


def _too_long(head: bytes) -> types.JSONRPCError:
    text = f"the message is larger than {MAX_MESSAGE} bytes; nothing was executed. Send the content in parts."
    return _error(id_of(head), types.INVALID_REQUEST, text)


def _error(number: str | int | None, code: int, message: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=number, error=types.ErrorData(code=code, message=message))


@asynccontextmanager
async def _pipe(source: int, sink: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The two descriptors as streams, from copies: what else is printed goes to standard error."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    try:
        source_file, sink_file = os.fdopen(os.dup(source), "rb", 0), os.fdopen(os.dup(sink), "wb", 0)
        read_transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source_file)
        write_transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sink_file)
    except ValueError as error:
        raise InvalidArgument(
            "standard input and output are no pipes",
            remedy="Let an MCP client start `opensafe mcp serve`, or use --http.",
        ) from error
    os.dup2(2, sink)
    writer = asyncio.StreamWriter(write_transport, protocol, None, loop)
    try:
        yield reader, writer
    finally:
        read_transport.close()
        write_transport.close()
