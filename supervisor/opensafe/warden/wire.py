"""Packets with file descriptors over a SOCK_SEQPACKET socketpair: the transport of protocol.py on both sides.

A peer may be under an attacker's control. A packet that is too large, or brings more descriptors than any request
has, ends the connection; whatever descriptors came with it are closed.
"""

import array
import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Final

from .protocol import MAX_PACKET
from .waiting import readable, settle

#: stdin, stdout, stderr of Start; four sockets of GatewayOpened.
MAX_DESCRIPTORS: Final = 4
_INT: Final = array.array("i").itemsize
_SO_SNDBUFFORCE: Final = 32


class ConnectionEndedError(Exception):
    """The peer is gone, or sent what no peer of ours sends."""


class Packet:
    """One packet received. `close` closes the descriptors that nobody has taken.

    short: descriptors came with it that this process had no room for. None of them is there then.
    """

    def __init__(self, data: bytes, descriptors: list[int], *, short: bool = False) -> None:
        self.data = data
        self.descriptors = descriptors
        self.short = short

    def take(self) -> tuple[int, ...]:
        """The descriptors, which are the caller's now."""
        taken, self.descriptors = tuple(self.descriptors), []
        return taken

    def close(self) -> None:
        """Close the descriptors."""
        close_all(self.descriptors)
        self.descriptors = []


def pair() -> tuple[socket.socket, socket.socket]:
    """A connected pair, each end of which takes packets of MAX_PACKET bytes. Needs root for the buffer size."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 2 * MAX_PACKET)
    return ends


def close_all(descriptors: Sequence[int]) -> None:
    """Close each."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


class Channel:
    """One end. One task receives; any number may send."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._buffer = bytearray(MAX_PACKET + 1)
        self._sending = asyncio.Lock()

    async def receive(self) -> Packet:
        """The next packet. Raises ConnectionEndedError."""
        while True:
            try:
                length, ancillary, flags, _ = self._end.recvmsg_into(
                    [self._buffer], socket.CMSG_SPACE((MAX_DESCRIPTORS + 1) * _INT), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                await readable(self._end.fileno())
                continue
            except OSError as error:
                raise ConnectionEndedError(str(error)) from error
            descriptors = _descriptors(ancillary)
            if flags & socket.MSG_TRUNC or len(descriptors) > MAX_DESCRIPTORS:
                close_all(descriptors)
                raise ConnectionEndedError("a packet is too large or brings too many descriptors")
            if length == 0:
                close_all(descriptors)
                raise ConnectionEndedError("closed by the peer")
            # There was room in the buffer for one more, so it was this process's table of files that was full.
            short = bool(flags & socket.MSG_CTRUNC)
            if short:
                close_all(descriptors)
                descriptors = []
            return Packet(bytes(memoryview(self._buffer)[:length]), descriptors, short=short)

    async def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one packet. Raises ConnectionEndedError."""
        async with self._sending:
            while True:
                try:
                    socket.send_fds(self._end, [data], list(descriptors))
                except BlockingIOError:
                    await _writable(self._end.fileno())
                    continue
                except OSError as error:
                    raise ConnectionEndedError(str(error)) from error
                return

    def close(self) -> None:
        """Close this end."""
        self._end.close()


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % _INT])
    return found.tolist()


async def _writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(descriptor, settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)
