"""Reads the reports of all sandboxes, in order, and says what must not go on.

A report leaves its socket only after it was judged and the finding is out: whatever ends this process, the next one
finds on the sockets exactly what nobody has judged. A report of a process that a start which is under way may own
waits in its socket until the warden has said which process the start became.

Nothing here waits: `turn` does what can be done now. Readers are woken once for many reports, because each wake-up
takes the processor from the programs that are watched.
"""

import array
import asyncio
import contextlib
import select
import signal
import socket
from typing import Final, Protocol

import msgspec

from opensafe.model.breach import Breach
from opensafe.warden import feed
from opensafe.warden.protocol import Counts
from opensafe.warden.waiting import readable

from .events import CLONE, EXEC, EXIT, MAX_REPORT, START, Event, MalformedReportError, parse
from .judge import Judge, in_words
from .tree import Running, TooManyProcessesError, Tree

#: How long reports may gather before they are read together. A breach is answered that much later.
_GATHER_S: Final = 0.02
#: Reports read of one sandbox before the next one's turn.
_BATCH: Final = 256
#: Rounds of a turn: what waited when it began is read in it, however much a sandbox adds meanwhile.
_ROUNDS: Final = 128
_CLONE_THREAD: Final = 0x10000
_SIGNAL_MASK: Final = 0x7F

_decode = msgspec.msgpack.Decoder(feed.Told).decode
_encode = msgspec.msgpack.Encoder().encode


class FeedEndedError(Exception):
    """The warden is gone, or sent what it never sends."""


class Callers(Protocol):
    """Who wants to know as well which calls live where: egress/callers.py, where sandboxes have a way out."""

    def watch(self, told: feed.Watch, /) -> None:
        """See feed.Watch; so for the others."""

    def expect(self, told: feed.Expect, /) -> None: ...
    def withdrawn(self, told: feed.Withdrawn, /) -> None: ...
    def left(self, told: feed.Left, /) -> None: ...
    def granted(self, told: feed.Granted, /) -> None: ...
    def renamed(self, told: feed.Renamed, /) -> None: ...
    def unwatch(self, told: feed.Unwatch, /) -> None: ...


class _Full(Exception):  # noqa: N818 - a reason to come back, not a fault
    """The warden has not read what it was told yet."""


class _Watched:
    """One sandbox. `waits`: its next report belongs to a start that is under way."""

    def __init__(self, told: feed.Watch, reports: socket.socket) -> None:
        self.sandbox_id = told.sandbox_id
        self.container = told.container
        self.template = told.template
        self.reports = reports
        self.tree = Tree()
        self.waits = False


class Watcher:
    """Owns the feed and its copies of the sockets; `close` closes them."""

    def __init__(self, connection: socket.socket, judge: Judge, callers: Callers | None = None) -> None:
        self._callers = callers
        connection.setblocking(False)
        self._feed = connection
        self._waiting = select.poll()
        self._waiting.register(connection.fileno(), select.POLLIN)
        self._fault: FeedEndedError | None = None
        self._judge = judge
        self._epoll = select.epoll()
        self._epoll.register(connection.fileno(), select.EPOLLIN)
        self._by_id: dict[str, _Watched] = {}
        self._by_socket: dict[int, _Watched] = {}
        self._buffer = bytearray(MAX_REPORT + 1)
        self._pings: list[int] = []
        self._reports = self._executions = self._refused = 0

    async def run(self) -> None:
        """Watch until the warden is gone, which is a FeedEndedError."""
        while True:
            await readable(self._epoll.fileno())
            await asyncio.sleep(_GATHER_S)
            self.turn()

    def hear(self) -> None:
        """What the warden has said so far, now: for who answers a guest, of whose start it spoke before."""
        if self._fault is None and self._waiting.poll(0):
            try:
                self._hear()
            except FeedEndedError as fault:  # the next turn is its end
                self._fault = fault

    def close(self) -> None:
        """Close everything. Idempotent."""
        for watched in tuple(self._by_id.values()):
            self._forget(watched)
        self._epoll.close()
        self._feed.close()

    def turn(self) -> None:
        """Do what can be done now. Raises FeedEndedError."""
        if self._fault is not None:
            raise self._fault
        with contextlib.suppress(_Full):  # what is left waits where it is
            for _ in range(_ROUNDS):
                ready = {descriptor for descriptor, _ in self._epoll.poll(0)}
                if self._feed.fileno() in ready:
                    self._hear()
                if not self._judge.judges:
                    break
                sandboxes = [self._by_socket[one] for one in ready if one in self._by_socket]
                for watched in sandboxes:
                    if self._knows(watched):
                        self._read(watched)
                if not ready:
                    break
            self._answer()

    def _hear(self) -> None:
        """All that the warden has said so far. It speaks of a start before the guest can."""
        while True:
            try:
                data, ancillary, flags, _ = self._feed.recvmsg(
                    feed.MAX_PACKET + 1, socket.CMSG_SPACE(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError as error:
                raise FeedEndedError(str(error)) from error
            sockets = array.array("i")
            for _, _, passed in ancillary:
                sockets.frombytes(passed)
            if not data or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise FeedEndedError("closed by the warden" if not data else "a packet is too large")
            try:
                self._take(_decode(data), sockets.tolist())
            except msgspec.DecodeError as error:
                raise FeedEndedError(f"not the warden's: {error}") from error

    def _take(self, told: feed.Told, sockets: list[int]) -> None:
        if self._callers is not None:
            _pass_on(self._callers, told)
        match told:
            case feed.Watch():
                reports = socket.socket(fileno=sockets[0])
                reports.setblocking(False)
                watched = _Watched(told, reports)
                watched.tree.restore(told.calls, told.processes)
                self._by_id[told.sandbox_id] = self._by_socket[reports.fileno()] = watched
                self._epoll.register(reports.fileno(), select.EPOLLIN)
            case feed.Ping():
                self._pings.append(told.number)
            case feed.Unwatch():
                if told.sandbox_id in self._by_id:
                    self._forget(self._by_id[told.sandbox_id])
            case feed.Renamed():
                if told.sandbox_id in self._by_id:
                    watched = self._by_id[told.to] = self._by_id.pop(told.sandbox_id)
                    watched.sandbox_id = told.to
            case feed.Left() | feed.Granted():
                pass  # its last reports may still wait, so the tree keeps it
            case _ if told.sandbox_id in self._by_id:
                watched = self._by_id[told.sandbox_id]
                match told:
                    case feed.Expect():
                        watched.tree.expect(told.call)
                    case feed.Bound():
                        watched.tree.bind(told.exec_id, told.pid)
                    case feed.Withdrawn():
                        watched.tree.withdraw(told.exec_id)
                if watched.waits and not isinstance(told, feed.Expect):
                    watched.waits = False
                    self._epoll.modify(watched.reports.fileno(), select.EPOLLIN)
            case _:
                pass  # of a sandbox that is being ended

    def _answer(self) -> None:
        """All that waited when the warden asked is read."""
        if self._pings and self._judge.judges:
            for watched in self._by_id.values():
                watched.tree.settled()
        while self._pings:
            self._say(feed.Pong(number=self._pings[0], judges=self._judge.judges, counts=self.counts))
            self._pings.pop(0)

    @property
    def counts(self) -> Counts:
        """What was read so far."""
        return Counts(reports=self._reports, executions=self._executions, refused=self._refused)

    def _say(self, said: feed.Said) -> None:
        try:
            self._feed.send(_encode(said))
        except BlockingIOError:
            raise _Full from None
        except OSError as error:
            raise FeedEndedError(str(error)) from error

    def _read(self, watched: _Watched) -> None:
        """Judge what waits of one sandbox, up to a batch."""
        for _ in range(_BATCH):
            try:
                length = watched.reports.recv_into(self._buffer, 0, socket.MSG_PEEK | socket.MSG_TRUNC)
            except BlockingIOError:
                return
            except OSError as error:
                self._give_up(watched, f"its reports can't be read ({error.strerror})")
                return
            if length == 0:
                self._give_up(watched, "its reports ended")
                return
            try:
                if length > MAX_REPORT:
                    raise MalformedReportError(f"a report of {length} bytes")
                if not self._consider(watched, parse(memoryview(self._buffer)[:length])):
                    watched.waits = True
                    self._epoll.modify(watched.reports.fileno(), 0)
                    return
            except (MalformedReportError, TooManyProcessesError) as error:
                self._give_up(watched, f"its reports are malformed: {error}")
                return
            if not self._knows(watched):
                return
            watched.reports.recv(1)
            self._reports += 1

    def _consider(self, watched: _Watched, event: Event) -> bool:
        """Judge one report; False where it must wait."""
        if event.dropped:
            self._give_up(watched, f"{event.dropped} reports were lost")
            return True
        if event.container != watched.container:
            raise MalformedReportError("a report of another container")
        if event.kind == START:
            return True
        tree = watched.tree
        running = tree.owner(event.pid, event.parent)
        if running is None:
            self._hear()  # it was announced before it could run
            if not self._knows(watched):
                return True
            running = tree.owner(event.pid, event.parent)
            if running is None and not event.parent and tree.awaits:
                return False
            running = running or tree.orphan(event.pid)
        if event.kind == EXEC:
            self._executed(watched, running, event)
        elif event.kind == EXIT:
            if event.status & _SIGNAL_MASK == signal.SIGSYS:
                self._fatal(watched, running)
            tree.drop(event.pid)
        elif event.kind == CLONE and running is not None and not event.flags & _CLONE_THREAD:
            tree.add(event.child, running)
        return True

    def _executed(self, watched: _Watched, running: Running | None, event: Event) -> None:
        leads = running is not None and not running.led and event.parent == running.pid
        if running is None or not running.breached:
            call = running.call if running is not None else None
            announced = call is not None and (leads or call.programs is None or event.path in call.programs)
            self._report(
                watched,
                running,
                self._judge.execution(watched.sandbox_id, watched.template, call, event.path, announced=announced),
            )
        self._executions += 1
        if leads and running is not None:
            running.led = True

    def _fatal(self, watched: _Watched, running: Running | None) -> None:
        if running is None or not running.breached:
            call = running.call if running is not None else None
            self._report(watched, running, self._judge.fatal_call(watched.sandbox_id, watched.template, call))

    def _report(self, watched: _Watched, running: Running | None, breach: Breach | None) -> None:
        if breach is None:
            return
        self._say(feed.Found(breach=breach, why=in_words(breach)))
        self._refused += 1
        if running is None:
            self._forget(watched)  # the sandbox is being ended
        else:
            running.breached = True

    def _give_up(self, watched: _Watched, why: str) -> None:
        self._say(feed.Untrusted(sandbox_id=watched.sandbox_id, why=why[:1000]))
        self._forget(watched)

    def _knows(self, watched: _Watched) -> bool:
        """Whether it is watched still: the warden may have said otherwise since it was looked up."""
        return self._by_id.get(watched.sandbox_id) is watched

    def _forget(self, watched: _Watched) -> None:
        if self._callers is not None:
            self._callers.unwatch(feed.Unwatch(sandbox_id=watched.sandbox_id))
        del self._by_id[watched.sandbox_id]
        del self._by_socket[watched.reports.fileno()]
        self._epoll.unregister(watched.reports.fileno())
        watched.reports.close()


def _pass_on(callers: Callers, told: feed.Told) -> None:
    match told:
        case feed.Watch():
            callers.watch(told)
        case feed.Expect():
            callers.expect(told)
        case feed.Granted():
            callers.granted(told)
        case feed.Withdrawn():
            callers.withdrawn(told)
        case feed.Left():
            callers.left(told)
        case feed.Renamed():
            callers.renamed(told)
        case feed.Unwatch():
            callers.unwatch(told)
        case _:
            pass
