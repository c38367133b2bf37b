"""JSON-RPC lines over any pair of byte streams, with bounds that the other side can't move.

The SDK's own transports keep a line in memory however long it gets, and take messages as fast as they come. A server
behind a proxy is hostile, so a line beyond the bound, or more messages than the rate, ends the connection with a
reason.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Final, Protocol

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from opensafe.errors import OpenSafeError

#: How many seconds' worth of messages may come at once.
BURST_S: Final = 4


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a server may make the proxy hold or wait for. start_s, call_s: seconds to answer to the start, to a call.

    listing_s: how old a list of tools may be before it is asked for again.
    """

    message_bytes: int = 4 << 20
    messages_per_s: int = 500
    pending: int = 32
    start_s: float = 30.0
    call_s: float = 120.0
    listing_s: float = 30.0


class Flooded(Exception):  # noqa: N818 - it says what happened; it never leaves the proxy
    """The other side sent more than it may."""


class Ending:
    """Why a connection is over: set once, by whoever sees it first."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.why = ""
        self.hostile = False

    def set(self, why: str, *, hostile: bool = False) -> None:
        """It is over."""
        if not self.over.is_set():
            self.why, self.hostile = why, hostile
            self.over.set()


class Lines:
    """Bytes, cut anywhere, to lines."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that `data` completes. Raises Flooded for one that is too long, also before it ends."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            line, start = bytes(self._rest), end + 1
            self._rest.clear()
            if line.strip():
                yield line
        self._add(data[start:])

    def _add(self, piece: bytes) -> None:
        if len(self._rest) + len(piece) > self._most:
            raise Flooded(f"a message of more than {self._most} bytes")
        self._rest += piece


class Rate:
    """So many messages a second; a burst of some seconds' worth is let through."""

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._left = float(per_s * BURST_S)
        self._since = asyncio.get_running_loop().time()

    def take(self) -> None:
        """One more. Raises Flooded."""
        now = asyncio.get_running_loop().time()
        self._left = min(self._per_s * BURST_S, self._left + (now - self._since) * self._per_s) - 1
        self._since = now
        if self._left < 0:
            raise Flooded(f"more than {self._per_s} messages a second")


class Pipe(Protocol):
    """Bytes to and from the other side."""

    def read(self) -> AsyncIterator[bytes]:
        """What comes, to its end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send all of it."""
        ...


Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception],
    MemoryObjectSendStream[SessionMessage],
]


@contextlib.asynccontextmanager
async def framed(pipe: Pipe, bounds: Bounds, ending: Ending) -> AsyncIterator[Streams]:
    """A transport of the SDK over `pipe`. However it ends, `ending` says why."""
    to_session, from_pipe = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_pipe, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        lines, rate = Lines(bounds.message_bytes), Rate(bounds.messages_per_s)
        async with to_session:
            try:
                async with contextlib.aclosing(pipe.read()) as pieces:  # type: ignore[type-var] # both are generators
                    async for piece in pieces:
                        for line in lines.feed(piece):
                            rate.take()
                            await to_session.send(_message(line))
                ending.set("it closed the connection")
            except Flooded as flood:
                ending.set(str(flood), hostile=True)
            except OpenSafeError as error:
                ending.set(str(error))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                ending.set("the session is over")

    async def transmit() -> None:
        async with from_session:
            try:
                async for message in from_session:
                    await pipe.write(
                        message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                    )
            except OSError as error:
                ending.set(f"it can't be written to: {error.strerror}")
                await to_session.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(transmit)
        try:
            yield from_pipe, to_pipe
        finally:
            tasks.cancel_scope.cancel()
            for stream in (to_session, from_pipe, to_pipe, from_session):
                stream.close()


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error
