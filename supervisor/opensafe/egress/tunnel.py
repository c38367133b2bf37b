"""Bytes between two connected sockets, in the loop that also answers checks and questions.

All of them are in one epoll(7) of their own, of which the loop's turn takes a few events: however many are ready, the
turn stays short, and the kernel hands out those that are ready in turn. What a receiver does not take is kept, and no
more is read until it has: the sender waits, as it would for the receiver itself. Each side may end its sending alone.
"""

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import Callable
from typing import Final

#: Bytes of one direction that are held at most.
BUFFER: Final = 64 * 1024
#: Events of one turn, each of which moves one buffer at most.
_BATCH: Final = 16
_READ: Final = select.EPOLLIN
_WRITE: Final = select.EPOLLOUT
_BROKEN: Final = select.EPOLLERR | select.EPOLLHUP
_ABORT: Final = struct.pack("ii", 1, 0)


class Mover:
    """Moves the bytes of tunnels in the running loop until `close`, which is for when there are none."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll()
        self._ends: dict[int, _End] = {}
        self._loop.add_reader(self._epoll, self._turn)

    def close(self) -> None:
        """Idempotent."""
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll)
            self._epoll.close()

    def now(self) -> float:
        """The loop's time."""
        return self._loop.time()

    def watch(self, end: "_End", before: int, wanted: int) -> None:
        """Have an end told of these events instead of those before. Of none, not even that it is broken."""
        number = end.socket.fileno()
        if not wanted:
            del self._ends[number]
            self._epoll.unregister(number)
        elif before:
            self._epoll.modify(number, wanted)
        else:
            self._ends[number] = end
            self._epoll.register(number, wanted)

    def _turn(self) -> None:
        for number, events in self._epoll.poll(0, _BATCH):
            end = self._ends.get(number)
            if end is not None:  # an event before it may have ended it
                end.happened(events)


class Tunnel:
    """Moves bytes until both sides have ended, one of them fails, or `close`. Then both are closed, and `ended` called.

    sent: bytes that went from the guest to the world. received: the others. moved: the loop's time of the last.
    """

    def __init__(self, mover: Mover, guest: socket.socket, world: socket.socket, ended: Callable[[], None]) -> None:
        """Both have to be connected and not blocking. `start` begins."""
        self._mover = mover
        self._ended = ended
        self._guest = _End(mover, guest, self._step)
        self._world = _End(mover, world, self._step)
        self._over = False
        self.moved = mover.now()

    @property
    def sent(self) -> int:
        """See above."""
        return self._world.taken

    @property
    def received(self) -> int:
        """See above."""
        return self._guest.taken

    @property
    def held(self) -> int:
        """Bytes that wait for their receiver."""
        return len(self._guest.kept) + len(self._world.kept)

    def start(self) -> None:
        """Begin."""
        for end, other in ((self._guest, self._world), (self._world, self._guest)):
            with contextlib.suppress(OSError):
                end.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.join(other)

    def close(self) -> None:
        """End it now: both sides see a reset. Idempotent."""
        self._finish(reset=True)

    def _step(self, failed: bool) -> None:
        """Something was moved, ended or failed."""
        self.moved = self._mover.now()
        if failed or (self._guest.over and self._world.over):
            self._finish(reset=failed)

    def _finish(self, *, reset: bool) -> None:
        if self._over:
            return
        self._over = True
        for end in (self._guest, self._world):
            end.leave()
            (abort if reset else socket.socket.close)(end.socket)
        self._ended()


class _End:
    """One side. kept: what it has not taken yet. taken: bytes that it has. over: it sends no more, as was passed on."""

    def __init__(self, mover: Mover, end: socket.socket, step: Callable[[bool], None]) -> None:
        self._mover = mover
        self._step = step
        self._watched = 0
        self._other = self
        self.socket = end
        self.kept = memoryview(b"")
        self.taken = 0
        self.over = False

    def join(self, other: "_End") -> None:
        """Have what comes of this go to the other."""
        self._other = other
        self.settle()

    def leave(self) -> None:
        """Nothing more is to happen here."""
        self.over = True
        self.kept = memoryview(b"")
        self._watch(0)

    def settle(self) -> None:
        """Ask for what can be done now: to read while the other has taken all, and to write while this has not."""
        reads = _READ if not self.over and not self._other.kept else 0
        self._watch(reads | (_WRITE if self.kept else 0))

    def happened(self, events: int) -> None:
        """At least one of the events that were asked for, or it is broken, which reading and writing tell."""
        try:
            if events & (_WRITE | _BROKEN) and self.kept:
                self.give()
            elif self._watched & _READ:
                self._take()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._step(True)
            return
        self.settle()
        self._other.settle()
        self._step(False)

    def _take(self) -> None:
        """Read, and hand over. Raises OSError."""
        data = self.socket.recv(BUFFER)
        if data:
            self._other.kept = memoryview(data)
            self._other.give()
        else:
            self.over = True
            self._other.socket.shutdown(socket.SHUT_WR)

    def give(self) -> None:
        """Write what is kept, as far as it is taken. Raises OSError, but not where nothing is taken now."""
        with contextlib.suppress(BlockingIOError, InterruptedError):
            taken = self.socket.send(self.kept)
            self.taken += taken
            self.kept = self.kept[taken:]

    def _watch(self, wanted: int) -> None:
        if wanted != self._watched:
            self._mover.watch(self, self._watched, wanted)
            self._watched = wanted


def abort(one: socket.socket) -> None:
    """Close it with a reset."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    one.close()
