"""One Exec stream: a call goes in or is attached to, events come out.

Reading and feeding standard input are independent, since a program may end without reading what it is sent; the
feeding task belongs to the stream and ends with it. A connection that is lost under a call that outlives it is made
again and the call attached to, never sent again; where standard input was streamed that can't be done, since nobody
knows how much of it arrived.
"""

from __future__ import annotations  # the asynchronous stub exists for the type checker only

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from typing import Any, Final, Self

import grpc
import msgspec

from opensafe._proto.v1 import exec_pb2, exec_pb2_grpc
from opensafe.errors import Conflict, InvalidArgument, Unavailable

from . import _exec_wire, _trace
from ._events import Decided, Ended, Event, Gap, Started, Stderr, Stdout
from ._failures import translate

#: Most bytes of standard input in one message; longer pieces are split.
STDIN_CHUNK: Final = 256 * 1024
#: How long a lost connection may stay lost, in seconds.
REATTACH_S: Final = 30.0
_REATTACH_PAUSE_S: Final = 0.1

Stdin = bytes | AsyncIterable[bytes] | None
_Stream = grpc.aio.StreamStreamCall[exec_pb2.ExecRequest, exec_pb2.ExecResponse]


def encode_arguments(arguments: Mapping[str, Any]) -> bytes:
    """A tool's arguments as the JSON object that goes on the wire. Raises InvalidArgument."""
    try:
        return msgspec.json.encode(dict(arguments))
    except (TypeError, ValueError) as error:  # UnicodeEncodeError, of a lone surrogate, is a ValueError
        raise InvalidArgument(f"the arguments are not JSON: {error}") from error


class Link(msgspec.Struct, frozen=True):
    """What a stream needs of its client."""

    channel: grpc.aio.Channel
    stub: exec_pb2_grpc.ExecServiceAsyncStub
    path: pathlib.Path


class Call:
    """The events of one call, to be iterated once. `Ended` is the last, or an exception of opensafe.errors is raised.

    Close it (`contextlib.aclosing`) to leave early: what that means to the call is its `on_disconnect`.
    """

    def __init__(self, link: Link, first: exec_pb2.ExecRequest, *, stdin: Stdin = None, resumes: bool = False) -> None:
        """resumes: attach again where the connection is lost."""
        self._link = link
        self._stdin = stdin
        self._resumes = resumes and stdin is None
        self._background = first.start.background
        asked = first.start if first.HasField("start") else first.attach
        self._session_id, self._call_id = asked.session_id, asked.call_id
        self._offset = first.attach.offset
        self._wait_for_review = asked.wait_for_review
        self._seen: set[str] = set()  # verdicts and the start, which an attach hears again
        self._lost_at = 0.0
        self._stream: _Stream | None = None
        self._writing = asyncio.Lock()
        self._events = self._run(first)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """End the stream."""
        await self._events.aclose()

    async def send(self, data: bytes) -> None:
        """Standard input, where the call was started with it and this client does not stream it itself."""
        self._resumes = False
        for at in range(0, len(data), STDIN_CHUNK):
            await self._write(exec_pb2.ExecRequest(stdin=data[at : at + STDIN_CHUNK]))

    async def close_stdin(self) -> None:
        """End standard input."""
        await self._write(exec_pb2.ExecRequest(close_stdin=exec_pb2.CloseStdin()))

    async def resize(self, columns: int, rows: int) -> None:
        """Give the call's terminal another size; where it has none, the events end with InvalidArgument."""
        size = exec_pb2.TerminalSize(columns=columns, rows=rows)
        await self._write(exec_pb2.ExecRequest(resize=size))

    async def signal(self, number: int, *, whole_tree: bool = False) -> None:
        """Send a signal to the call's program, or to every process of the call. One that has ended gets none."""
        wanted = exec_pb2.SendSignal(signal=number, whole_tree=whole_tree)
        await self._write(exec_pb2.ExecRequest(signal=wanted))

    async def cancel(self) -> None:
        """End the call: its whole process tree is killed, and `Ended` says CANCELLED."""
        await self._write(exec_pb2.ExecRequest(cancel=exec_pb2.CancelCall()))

    async def _write(self, message: exec_pb2.ExecRequest) -> None:
        if self._stream is None:
            raise Conflict("the call's events are not being read", remedy="Send what belongs to it meanwhile.")
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # it ended; its events say how
            async with self._writing:  # gRPC takes one write at a time
                await self._stream.write(message)

    async def _run(self, first: exec_pb2.ExecRequest) -> AsyncGenerator[Event, None]:
        while True:
            try:
                async with contextlib.aclosing(self._once(first)) as events:
                    async for event in events:
                        self._lost_at = 0.0
                        if self._is_new(event):
                            yield event
                return
            except Unavailable as lost:
                if not (self._resumes and self._call_id and self._seen):
                    raise
                await self._reconnect(lost)
            place = exec_pb2.AttachCall(
                session_id=self._session_id,
                call_id=self._call_id,
                offset=self._offset,
                wait_for_review=self._wait_for_review,
            )
            first = exec_pb2.ExecRequest(attach=place)

    async def _once(self, first: exec_pb2.ExecRequest) -> AsyncGenerator[Event, None]:
        """One connection's events."""
        stream = self._stream = self._link.stub.Exec(metadata=_trace.metadata())
        feeder: asyncio.Task[None] | None = None
        ended = False
        try:
            await stream.write(first)
            # Iterate, don't read(): after a write that came too late, read() drops what the daemon had sent before.
            # Go on after the outcome: the daemon ends the stream, and leaving early would reach it as a cancel.
            async for message in stream:
                # Not before: where the call was refused, a write that fails takes the place of the daemon's reason.
                if self._stdin is not None and feeder is None:
                    feeder = asyncio.create_task(self._feed(stream, self._stdin), name="opensafe-stdin")
                event = _exec_wire.event(message)
                if event is None:
                    continue
                ended = isinstance(event, Ended) or (self._background and isinstance(event, Started))
                yield event
            if not ended:
                raise Unavailable(
                    f"the daemon at {self._link.path} ended the stream without an outcome",
                    remedy="Repeat with the same call_id: it runs at most once.",
                )
        except grpc.aio.AioRpcError as error:
            if not ended:  # the outcome is the last word, however the connection ends
                raise translate(error, self._link.path) from error
        finally:
            self._stream = None
            stream.cancel()
            if feeder is not None:
                feeder.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await feeder

    def _is_new(self, event: Event) -> bool:
        match event:
            case Stdout() | Stderr():
                self._offset = event.offset + len(event.data)
            case Gap():
                self._offset = event.end
            case Decided():
                return self._first_time(event.verdict.decision_id)
            case Started():
                self._call_id = event.call_id or self._call_id
                return self._first_time(event.exec_id)
        return True

    def _first_time(self, what: str) -> bool:
        known = what in self._seen
        self._seen.add(what)
        return not known

    async def _reconnect(self, lost: Unavailable) -> None:
        """Wait until the daemon is there again. Raises `lost` where it stays away."""
        self._lost_at = self._lost_at or asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._lost_at + REATTACH_S):
                await asyncio.sleep(_REATTACH_PAUSE_S)  # a daemon that answers, and says no, has no event to wait for
                await self._link.channel.channel_ready()
        except TimeoutError:
            raise lost from None

    async def _feed(self, stream: _Stream, stdin: bytes | AsyncIterable[bytes]) -> None:
        try:
            async for chunk in _pieces(stdin):
                for at in range(0, len(chunk), STDIN_CHUNK):
                    async with self._writing:
                        await stream.write(exec_pb2.ExecRequest(stdin=chunk[at : at + STDIN_CHUNK]))
            async with self._writing:
                await stream.write(exec_pb2.ExecRequest(close_stdin=exec_pb2.CloseStdin()))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the call ended first; the reader has its status
        except BaseException:
            stream.cancel()  # half an input must not look like a whole one
            raise


async def _pieces(stdin: bytes | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(stdin, bytes):
        yield stdin
    else:
        async for chunk in stdin:
            yield chunk
