"""The warden's side of protocol.py: one connection per child process, requests served concurrently.

Every refusal is a typed Failed. An exception that nobody foresaw is logged here and told the peer as INTERNAL in
fixed words, so that nothing of the warden's inside reaches a front under an attacker's control.
"""

import asyncio
import errno
import logging
import socket
from typing import Final, Protocol

import msgspec

from ..errors import LimitExceeded, OpenSafeError, WardenRefused
from . import protocol, wire

_log = logging.getLogger(__name__)

_STREAMS: Final = 3
_decoder = msgspec.msgpack.Decoder(protocol.Request)
_encoder = msgspec.msgpack.Encoder()

#: What the egress helper may ask.
HELPER: Final = frozenset(
    {
        protocol.Cut,
        protocol.Dial,
        protocol.ListEndpoints,
        protocol.NextLook,
        protocol.NextStep,
        protocol.OpenGateway,
        protocol.Report,
        protocol.Status,
        protocol.Vet,
    }
)
#: What the front may ask.
FRONT: Final = frozenset(
    {
        protocol.AskHelper,
        protocol.AwaitBundle,
        protocol.AwaitLost,
        protocol.CreateSandbox,
        protocol.DeleteSandbox,
        protocol.FindImage,
        protocol.FindUser,
        protocol.Kill,
        protocol.ListSandboxes,
        protocol.LookOut,
        protocol.NextBreach,
        protocol.NextConnections,
        protocol.NextSegment,
        protocol.PauseSandbox,
        protocol.Resize,
        protocol.ResumeSandbox,
        protocol.Serving,
        protocol.Signal,
        protocol.Start,
        protocol.Status,
    }
)


class Operations(Protocol):
    """What the requests do: warden.py."""

    def passed(self, answer: protocol.Answer) -> tuple[int, ...]:
        """The descriptors that go with the answer, the caller's to close."""

    async def answer(self, request: protocol.Request, descriptors: list[int]) -> protocol.Answer:
        """The answer. Raises OpenSafeError. The descriptors stay the caller's."""

    async def ended(self, start: protocol.Start) -> protocol.Ended:
        """The end of what this request has started, when it is there."""


class Connection:
    """One peer. `run` returns when the connection has ended and nothing it asked for is under way."""

    def __init__(self, end: socket.socket, operations: Operations, allowed: frozenset[type]) -> None:
        self._channel = wire.Channel(end)
        self._operations = operations
        self._allowed = allowed
        #: What is under way, and whether it may be given up: it may have no end.
        self._pending: dict[asyncio.Task[None], bool] = {}
        self._ended = False

    async def run(self) -> None:
        """Serve until the peer is gone or sends what no peer of ours sends."""
        try:
            while True:
                await self._accept(await self._channel.receive())
        except wire.ConnectionEndedError as end:
            _log.info("connection to a child ended: %s", end)
        finally:
            self._ended = True
            # A start or a creation is never left half done; what waits may have no end.
            for task, endless in self._pending.items():
                if endless:
                    task.cancel()
            await asyncio.gather(*self._pending, return_exceptions=True)
            self._channel.close()

    async def _accept(self, packet: wire.Packet) -> None:
        try:
            request = _decoder.decode(packet.data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            packet.close()
            raise wire.ConnectionEndedError(f"not a request: {error}") from error
        if packet.short:
            await self._answer(_failed(request.request, _no_descriptors()))
            return
        if len(packet.descriptors) != (_STREAMS if isinstance(request, protocol.Start) else 0):
            packet.close()
            raise wire.ConnectionEndedError(f"{type(request).__name__} with {len(packet.descriptors)} descriptors")
        if len(self._pending) >= protocol.MAX_PENDING:
            packet.close()
            await self._answer(
                _failed(
                    request.request,
                    LimitExceeded("too many requests under way", value=len(self._pending), limit=protocol.MAX_PENDING),
                )
            )
            return
        task = asyncio.create_task(self._serve(request, packet))
        self._pending[task] = isinstance(request, protocol.WAITING)
        task.add_done_callback(self._pending.pop)

    async def _serve(self, request: protocol.Request, packet: wire.Packet) -> None:
        answer = await self._operate(request, packet)
        await self._answer(answer)
        task = asyncio.current_task()
        if isinstance(request, protocol.Start) and isinstance(answer, protocol.Started) and not self._ended:
            if task is not None:
                self._pending[task] = True
            await self._answer(await self._operations.ended(request))

    async def _operate(self, request: protocol.Request, packet: wire.Packet) -> protocol.Answer:
        try:
            if type(request) not in self._allowed:
                raise WardenRefused("this process may not ask for that", value=type(request).__name__)
            return await self._operations.answer(request, packet.descriptors)
        except OpenSafeError as error:
            return _failed(request.request, error)
        except Exception as error:  # noqa: BLE001 - the boundary: logged in full, told in fixed words
            _log.exception("%s failed", type(request).__name__)
            short = isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
            return _failed(
                request.request,
                _no_descriptors() if short else OpenSafeError("internal error in the warden; its log says more"),
            )
        finally:
            packet.close()

    async def _answer(self, answer: protocol.Answer) -> None:
        try:
            passed = self._operations.passed(answer)
        except OSError:
            answer, passed = _failed(answer.request, _no_descriptors()), ()
        try:
            await self._channel.send(_encoder.encode(answer), passed)
        except wire.ConnectionEndedError:
            # The reader sees the same and ends the connection.
            return
        finally:
            wire.close_all(passed)


def _no_descriptors() -> LimitExceeded:
    return LimitExceeded(
        "the warden has no descriptors left", remedy="Run less at once, or raise the daemon's limit of open files."
    )


def _failed(request: int, error: OpenSafeError) -> protocol.Failed:
    return protocol.Failed(
        request=request,
        reason=error.reason,
        message=error.message,
        value=error.value,
        limit=error.limit,
        remedy=error.remedy,
    )
