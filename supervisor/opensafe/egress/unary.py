"""A gRPC server for one method that answers in the turn of the loop that reads: HTTP/2 (RFC 9113) as far as it needs.

A guest waits for each answer, and a general server spends several times what judging takes on threads and tasks. A
socket that serves a single method needs nothing of what a request's headers say, so they are passed over, and there are
no tables for them. The peer may be under an attacker's control: what is not to the letter ends its connection, and what
it can make this process keep is bounded.
"""

import asyncio
import os
import pathlib
import socket
import struct
from collections.abc import Callable
from typing import Final

import structlog

#: The answer to a message, found without waiting; seconds for which the loop may have been too busy to read it.
Answer = Callable[[bytes, float], bytes]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Of a frame: upper and lower part of its payload's length, kind, flags, stream. Of a gRPC message: compressed, length.
_HEAD: Final = struct.Struct("!HBBBI")
_MESSAGE: Final = struct.Struct("!BI")
_SETTING: Final = struct.Struct("!HI")
_NUMBER: Final = struct.Struct("!I")
_DATA, _HEADERS, _PRIORITY, _RESET, _SETTINGS, _PUSH, _PING, _GO_AWAY, _WINDOW, _CONTINUATION = range(10)
_END_STREAM = _ACK = 0x1
_END_HEADERS, _PADDED = 0x4, 0x8
_MAX_STREAMS, _INITIAL_WINDOW = 3, 4
_INTERNAL, _REFUSED = 2, 7
_NUMBER_MAX: Final = 0x7FFFFFFF
#: The least that a peer may set as largest payload, and what it is before anybody sets it.
_FRAME: Final = 16384
_WINDOW_BEFORE: Final = 65535

#: Requests at a time, bytes of one with all headers of a guest's (32 KiB in Envoy), and of all that are not whole.
_STREAMS: Final = 1024
_REQUEST: Final = 1 << 20
_REQUESTS: Final = 1 << 24
#: Bytes of answers that the peer does not take.
_UNSENT: Final = 1 << 22
#: How often the loop is looked at.
_TICK_S: Final = 0.2

#: HPACK (RFC 7541) by the static table alone: `:status: 200`, `content-type: application/grpc`; `grpc-status: 0`.
_BEGIN: Final = b"\x88\x0f\x10\x10application/grpc"
_END: Final = b"\x00\x0bgrpc-status\x010"

_log = structlog.get_logger()


class BrokenError(Exception):
    """The peer sent what it must not."""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame (RFC 9113, 4.1)."""
    return _HEAD.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


_GREETING: Final = frame(
    _SETTINGS, 0, 0, _SETTING.pack(_MAX_STREAMS, _STREAMS) + _SETTING.pack(_INITIAL_WINDOW, _REQUEST)
) + frame(_WINDOW, 0, 0, _NUMBER.pack(_REQUESTS - _WINDOW_BEFORE))


class _Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, answer: Callable[[bytes], bytes], peers: "set[_Peer]") -> None:
        self._answer = answer
        self._peers = peers
        self._transport: asyncio.Transport
        self._greeted = False
        self._read = bytearray()
        #: Requests that are not answered yet, by stream, and the bytes of all of them.
        self._requests: dict[int, bytearray] = {}
        self._held = 0
        self._whole: list[int] = []
        self._last = 0
        #: The stream whose headers go on in the next frame, and whether its request ends with them.
        self._continued = 0
        self._ends = False
        #: Bytes of requests that are done with, of which the peer has not heard.
        self._done = 0
        #: Bytes that the peer takes: of one answer, and of all.
        self._each = self._window = _WINDOW_BEFORE
        self._answers: dict[int, bytes] = {}
        self._unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - that of a stream socket is one
        self._transport = transport
        self._peers.add(self)
        transport.write(_GREETING)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        self._peers.discard(self)

    def abort(self) -> None:
        """End it at once."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._read += data
        try:
            self._take_all()
            # What was given up meanwhile has no request left.
            for stream in self._whole:
                self._judge(stream)
            self._whole.clear()
            self._send()
        except (BrokenError, struct.error) as error:
            _log.error("a connection of Envoy's is ended", error=str(error))
            self.abort()

    def _take_all(self) -> None:
        """Every frame that is there."""
        read, at = self._read, 0
        if not self._greeted:
            if len(read) < len(_PREFACE) and _PREFACE.startswith(read):
                return
            if not read.startswith(_PREFACE):
                raise BrokenError("this is no HTTP/2")
            self._greeted, at = True, len(_PREFACE)
        while len(read) - at >= _HEAD.size:
            upper, lower, kind, flags, stream = _HEAD.unpack_from(read, at)
            begin = at + _HEAD.size
            end = begin + (upper << 8 | lower)
            if end - begin > _FRAME:
                raise BrokenError("a frame is too large")
            if end > len(read):
                break
            self._take(kind, flags, stream & _NUMBER_MAX, bytes(read[begin:end]))
            at = end
        del read[:at]

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._continued and (kind, stream) != (_CONTINUATION, self._continued):
            raise BrokenError("headers are interrupted")
        if kind == _HEADERS:
            self._begin(stream)
            self._go_on(stream, flags, ends=bool(flags & _END_STREAM))
        elif kind == _DATA:
            self._data(stream, flags, payload)
        elif kind == _WINDOW:
            self._widen(stream, *_NUMBER.unpack(payload))
        elif kind == _RESET:
            self._forget(stream)
        elif kind == _SETTINGS and not flags & _ACK:
            self._set(payload)
        elif kind == _PING and not flags & _ACK:
            self._transport.write(frame(_PING, _ACK, 0, payload[:8]))
        elif kind == _CONTINUATION:
            if not self._continued:
                raise BrokenError("no headers to go on with")
            self._go_on(stream, flags, ends=self._ends)
        elif kind == _PUSH:
            raise BrokenError("a client pushes nothing")

    def _begin(self, stream: int) -> None:
        if stream in self._requests:
            return  # trailers
        if stream <= self._last or not stream & 1:
            raise BrokenError("a stream out of its order")
        self._last = stream
        if len(self._requests) + len(self._answers) >= _STREAMS:
            self._transport.write(_reset(stream, _REFUSED))
        else:
            self._requests[stream] = bytearray()

    def _go_on(self, stream: int, flags: int, *, ends: bool) -> None:
        self._continued, self._ends = 0 if flags & _END_HEADERS else stream, ends
        if ends and not self._continued:
            self._whole.append(stream)

    def _data(self, stream: int, flags: int, payload: bytes) -> None:
        if not stream or stream > self._last:
            raise BrokenError("data of no stream")
        request = self._requests.get(stream)
        if request is None:  # it was given up here or there
            self._done += len(payload)
            return
        self._done += len(payload)
        if flags & _PADDED:
            if not payload or payload[0] >= len(payload):
                raise BrokenError("more padding than payload")
            payload = payload[1 : len(payload) - payload[0]]
        request += payload
        self._held += len(payload)
        self._done -= len(payload)
        if len(request) > _REQUEST or self._held > _REQUESTS:
            raise BrokenError("more than the windows let through")
        if flags & _END_STREAM:
            self._whole.append(stream)

    def _forget(self, stream: int) -> None:
        """Nobody waits for it."""
        request = self._requests.pop(stream, None)
        if request is not None:
            self._held -= len(request)
            self._done += len(request)
        self._unsent -= len(self._answers.pop(stream, b""))

    def _widen(self, stream: int, by: int) -> None:
        if not stream:
            self._window += by & _NUMBER_MAX
            if self._window > _NUMBER_MAX:
                raise BrokenError("a window is too wide")

    def _set(self, payload: bytes) -> None:
        for name, value in _SETTING.iter_unpack(payload):
            if name == _INITIAL_WINDOW:
                self._each = min(value, _NUMBER_MAX)
        self._transport.write(frame(_SETTINGS, _ACK, 0, b""))

    def _judge(self, stream: int) -> None:
        request = self._requests.get(stream)
        if request is None:
            return
        self._forget(stream)
        if len(request) < _MESSAGE.size:
            raise BrokenError("a request without a message")
        compressed, size = _MESSAGE.unpack_from(request)
        if compressed or size != len(request) - _MESSAGE.size:
            raise BrokenError("not one message as it is")
        answer = self._answer(bytes(request[_MESSAGE.size :]))
        self._answers[stream] = _MESSAGE.pack(0, len(answer)) + answer
        self._unsent += len(self._answers[stream])

    def _send(self) -> None:
        """What the peer has room for, in one write."""
        parts = []
        for stream, answer in tuple(self._answers.items()):
            if len(answer) > self._each:
                parts.append(_reset(stream, _INTERNAL))
            elif len(answer) > self._window:
                break
            else:
                self._window -= len(answer)
                parts.append(frame(_HEADERS, _END_HEADERS, stream, _BEGIN))
                parts += (frame(_DATA, 0, stream, answer[at : at + _FRAME]) for at in range(0, len(answer), _FRAME))
                parts.append(frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _END))
            self._forget(stream)
        if self._done >= _REQUEST:
            parts.append(frame(_WINDOW, 0, 0, _NUMBER.pack(self._done)))
            self._done = 0
        if parts:
            self._transport.write(b"".join(parts))
        if self._unsent + self._transport.get_write_buffer_size() > _UNSENT:
            raise BrokenError("answers are not taken")


def _reset(stream: int, code: int) -> bytes:
    return frame(_RESET, 0, stream, _NUMBER.pack(code))


class Server:
    """Serves `answer` on a unix socket. `start` binds, `stop` ends all connections at once."""

    def __init__(self, path: pathlib.Path, answer: Answer) -> None:
        self._path = path
        self._answer = answer
        self._peers: set[_Peer] = set()
        self._server: asyncio.Server | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._ticked = 0.0

    async def start(self, mode: int) -> None:
        """Bind, with that mode of the socket, and serve. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as made:
            mask = os.umask(0o777 & ~mode)
            try:
                made.bind(str(self._path))
            finally:
                os.umask(mask)
            self._look(loop)
            self._server = await loop.create_unix_server(lambda: _Peer(self._asked, self._peers), sock=made.dup())

    def stop(self) -> None:
        """End at once. Idempotent."""
        if self._server is not None:
            self._server.close()
        if self._tick is not None:
            self._tick.cancel()
        for peer in tuple(self._peers):
            peer.abort()
        self._path.unlink(missing_ok=True)

    def _asked(self, message: bytes) -> bytes:
        return self._answer(message, asyncio.get_running_loop().time() - self._ticked)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """What is read before this is called again has waited for no longer than since now."""
        self._ticked = loop.time()
        self._tick = loop.call_later(_TICK_S, self._look, loop)
