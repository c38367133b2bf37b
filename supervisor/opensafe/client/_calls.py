"""One Exec stream: the call goes in, events come out.

Reading and feeding standard input are independent, since a program may end without reading what it is sent; the
feeding task belongs to the stream and ends with it. Leaving the stream early cancels the call, and the daemon then
kills its process tree.
"""

from __future__ import annotations  # the asynchronous stub exists for the type checker only

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from typing import Any, Final

import grpc
import msgspec

from opensafe._proto.v1 import exec_pb2, exec_pb2_grpc
from opensafe.errors import InvalidArgument, Unavailable

from . import _wire
from ._events import CallResult, Decided, Ended, Event, Stderr, Stdout
from ._failures import translate

#: Most bytes of standard input in one message; longer pieces are split.
STDIN_CHUNK: Final = 256 * 1024

Stdin = bytes | AsyncIterable[bytes] | None
_Call = grpc.aio.StreamStreamCall[exec_pb2.ExecRequest, exec_pb2.ExecResponse]


def encode_arguments(arguments: Mapping[str, Any]) -> bytes:
    """A tool's arguments as the JSON object that goes on the wire. Raises InvalidArgument."""
    try:
        return msgspec.json.encode(dict(arguments))
    except (TypeError, ValueError) as error:  # UnicodeEncodeError, of a lone surrogate, is a ValueError
        raise InvalidArgument(f"the arguments are not JSON: {error}") from error


async def stream(
    stub: exec_pb2_grpc.ExecServiceAsyncStub, path: pathlib.Path, start: exec_pb2.StartCall, stdin: Stdin
) -> AsyncGenerator[Event, None]:
    """Run one call. `Ended` is the last event, or an exception of opensafe.errors is raised in its place."""
    call = stub.Exec()
    feeder: asyncio.Task[None] | None = None
    ended = False
    try:
        await call.write(exec_pb2.ExecRequest(start=start))
        if stdin is None:
            await call.done_writing()
        else:
            feeder = asyncio.create_task(_feed(call, stdin), name="opensafe-stdin")
        # Iterate, don't read(): after a write that came too late, read() drops what the daemon had sent before.
        # Go on after the outcome: the daemon ends the stream, and leaving early would reach it as a cancel.
        async for message in call:
            event = _wire.event(message)
            ended = isinstance(event, Ended)
            yield event
        if not ended:
            raise Unavailable(
                f"the daemon at {path} ended the stream without an outcome",
                remedy="Repeat with the same call_id: it runs at most once.",
            )
    except grpc.aio.AioRpcError as error:
        if not ended:  # the outcome is the last word, however the connection ends
            raise translate(error, path) from error
    finally:
        call.cancel()
        if feeder is not None:
            feeder.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await feeder


async def _feed(call: _Call, stdin: bytes | AsyncIterable[bytes]) -> None:
    try:
        async for chunk in _pieces(stdin):
            for at in range(0, len(chunk), STDIN_CHUNK):
                await call.write(exec_pb2.ExecRequest(stdin=chunk[at : at + STDIN_CHUNK]))
        await call.write(exec_pb2.ExecRequest(close_stdin=exec_pb2.CloseStdin()))
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return  # the call ended first; the reader has its status
    except BaseException:
        call.cancel()  # half an input must not look like a whole one
        raise


async def _pieces(stdin: bytes | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(stdin, bytes):
        yield stdin
    else:
        async for chunk in stdin:
            yield chunk


class Collector:
    """Folds events into a CallResult, keeping at most `limit` bytes of each stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._verdict: Decided | None = None
        self._kept = {Stdout: bytearray(), Stderr: bytearray()}
        self._seen = {Stdout: 0, Stderr: 0}

    def add(self, event: Event) -> CallResult | None:
        """Take one event; the result with the last. Raises Unavailable for an outcome without a verdict."""
        match event:
            case Stdout() | Stderr():
                kept = self._kept[type(event)]
                kept += event.data[: self._limit - len(kept)]
                self._seen[type(event)] += len(event.data)
            case Decided():
                self._verdict = event
            case Ended():
                if self._verdict is None:
                    raise Unavailable("the daemon reported an outcome without a verdict")
                stdout, stderr = bytes(self._kept[Stdout]), bytes(self._kept[Stderr])
                return CallResult(
                    verdict=self._verdict.verdict,
                    outcome=event.outcome,
                    stdout=stdout,
                    stderr=stderr,
                    stdout_dropped=self._seen[Stdout] - len(stdout),
                    stderr_dropped=self._seen[Stderr] - len(stderr),
                )
        return None
