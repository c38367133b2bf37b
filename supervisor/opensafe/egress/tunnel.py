"""Bytes between two connected sockets, in the loop that also answers checks and questions.

A turn of the loop moves at most one buffer of a tunnel and direction. What the receiver does not take is kept, and no
more is read until it has: the sender waits, as it would for the receiver itself. Each side may end its sending alone.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Final

#: Bytes of one direction that are held at most.
BUFFER: Final = 64 * 1024
_ABORT: Final = struct.pack("ii", 1, 0)


class Tunnel:
    """Moves bytes until both sides have ended, one of them fails, or `close`. Then both are closed, and `ended` called.

    sent: bytes that went from the guest to the world. received: the others. moved: the loop's time of the last.
    """

    def __init__(self, guest: socket.socket, world: socket.socket, ended: Callable[[], None]) -> None:
        """Both have to be connected and not blocking. `start` begins."""
        self._loop = asyncio.get_running_loop()
        self._sides = (guest, world)
        self._ended = ended
        self._out = _Way(self._loop, guest, world, self._step)
        self._back = _Way(self._loop, world, guest, self._step)
        self._over = False
        self.moved = self._loop.time()

    @property
    def sent(self) -> int:
        """See above."""
        return self._out.bytes

    @property
    def received(self) -> int:
        """See above."""
        return self._back.bytes

    def start(self) -> None:
        """Begin."""
        for one in self._sides:
            with contextlib.suppress(OSError):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._out.start()
        self._back.start()

    def close(self) -> None:
        """End it now: both sides see a reset. Idempotent."""
        self._finish(reset=True)

    def _step(self, failed: bool) -> None:
        """Something was moved, ended or failed."""
        self.moved = self._loop.time()
        if failed or (self._out.over and self._back.over):
            self._finish(reset=failed)

    def _finish(self, *, reset: bool) -> None:
        if self._over:
            return
        self._over = True
        self._out.stop()
        self._back.stop()
        for one in self._sides:
            (abort if reset else socket.socket.close)(one)
        self._ended()


class _Way:
    """One direction. bytes: that the target has taken. over: the source has ended, and the target was told."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        source: socket.socket,
        target: socket.socket,
        step: Callable[[bool], None],
    ) -> None:
        self._loop = loop
        self._source = source
        self._target = target
        self._step = step
        self._kept = memoryview(b"")
        self.bytes = 0
        self.over = False

    def start(self) -> None:
        self._loop.add_reader(self._source, self._read)

    def stop(self) -> None:
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._target)
        self._kept = memoryview(b"")

    def _read(self) -> None:
        try:
            data = self._source.recv(BUFFER)
            if not data:
                self._loop.remove_reader(self._source)
                self._target.shutdown(socket.SHUT_WR)
                self.over = True
                self._step(False)
                return
            self._kept = memoryview(data)
            self._send()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._step(True)
            return
        if self._kept:
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._target, self._write)
        self._step(False)

    def _write(self) -> None:
        try:
            self._send()
        except OSError:
            self._step(True)
            return
        if not self._kept:
            self._loop.remove_writer(self._target)
            self._loop.add_reader(self._source, self._read)
        self._step(False)

    def _send(self) -> None:
        """What the target takes of what is kept. Raises OSError, but not for a target that takes nothing now."""
        with contextlib.suppress(BlockingIOError, InterruptedError):
            taken = self._target.send(self._kept)
            self.bytes += taken
            self._kept = self._kept[taken:]


def abort(one: socket.socket) -> None:
    """Close it with a reset."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    one.close()
