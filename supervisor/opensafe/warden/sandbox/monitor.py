"""The warden's part in watching: each sandbox's report socket, and that no sandbox runs unwatched.

The sentry connects to a socket that the warden made and keeps; the helper reads and judges on a copy. While there is
no helper that reads, sandboxes are paused. A new one is handed the sockets with what the warden knows of calls and
processes; a sandbox goes on once that one has read all that waited and no report was lost, and is ended where that
can't be said.

The sentry is no help in this (runsc, pinned): a session that it can't set up is a line in its log, and a reader that
is gone is not missed. So the session is asked for before the guest starts, and the reader must answer a beat.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

import msgspec

from ...errors import DriverError, OpenSafeError, SandboxLost, Unavailable
from ...model.canonical import canonical_json
from ...model.connection import Connection
from .. import feed, protocol
from ..breaches import Breaches
from ..grants import Grants, charged
from ..waiting import readable
from .driver import GuestProcess

_log = logging.getLogger(__name__)

#: What the reader must answer every beat, and how long it may be silent. The program that is judged late ran on.
_BEAT_S: Final = 0.5
_SILENCE_S: Final = 3.0
#: How long sandboxes wait, paused, for a reader; and a start or creation for the same.
_AWAY_S: Final = 30.0
#: The cause of a death is known within this time, where the reports ended with the sentry.
_DEATH_S: Final = 2.0

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(feed.Said).decode


def read(packet: bytes) -> feed.Said:
    """What the helper says. Raises Unavailable for none of its words, and for a breach that has no form on record.

    That would end each front that is told of it.
    """
    try:
        said = _decode(packet)
        if isinstance(said, feed.Found):
            canonical_json(said.breach)
    except (msgspec.DecodeError, ValueError) as error:
        raise Unavailable(f"the helper sent what is none of its words ({error})") from error
    return said


class Watchable(Protocol):
    """What of lifecycle.Sandbox is needed here."""

    death: asyncio.Future[str]
    deleting: bool

    @property
    def sandbox_id(self) -> str:
        """Its id."""

    @property
    def container(self) -> str:
        """Its id on the host, by which its sentry is asked and reports."""

    @property
    def address(self) -> str:
        """From which it speaks to the gateway, or ""."""

    def end(self, cause: str) -> None:
        """Kill it."""


class Sentry(Protocol):
    """What of control.ControlDriver is needed here. All may raise DriverError."""

    async def processes(self, sandbox_id: str) -> tuple[GuestProcess, ...]:
        """All processes of the guest."""

    async def pause(self, sandbox_id: str) -> None:
        """Stop the guest; pauses nest."""

    async def resume(self, sandbox_id: str) -> None:
        """Undo one pause."""

    async def lost_reports(self, sandbox_id: str) -> int | None:
        """How many reports were dropped since the start; None without a session."""


class _Watched:
    def __init__(self, sandbox: Watchable, template: str, reports: socket.socket) -> None:
        self.sandbox = sandbox
        self.template = template
        self.reports = reports
        self.calls: dict[str, feed.Call] = {}
        self.grants = Grants()
        self.paused = False

    @property
    def lives(self) -> bool:
        return not self.sandbox.death.done() and not self.sandbox.deleting


class Monitor:
    """Owns the report sockets, and the feed of one helper at a time."""

    def __init__(self, sentry: Sentry, *, on_silence: Callable[[], None], keep: bool = False) -> None:
        """`on_silence` kills the helper. keep: sessions keep what their calls were granted."""
        self._sentry = sentry
        self._keep = keep
        self._on_silence = on_silence
        #: Ends a call because of a breach; set by whoever has the programs.
        self.end_call: Callable[[str, str], None] = lambda *_: None
        self._watched: dict[str, _Watched] = {}
        self._feed: socket.socket | None = None
        self._ready = asyncio.Event()
        self._pong = asyncio.Condition()
        self._answered = 0
        self._asked = 0
        #: When the helper last answered, and whether it has at all: starting takes longer.
        self._heard = 0.0
        self._speaks = False
        self._away: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        #: Calls that have ended, with the beat whose answer shows that nothing of theirs waits any more.
        self._leaving: deque[tuple[int, str, str]] = deque()
        self.breaches = Breaches()
        self.counts = protocol.Counts()

    # ── sandboxes ────────────────────────────────────────────────────────────────────────────────────────────────

    async def watch(self, sandbox: Watchable, template: str, reports: socket.socket) -> None:
        """Have a sandbox read that was made and not started. The socket is the monitor's from here on.

        Raises DriverError: it has no session, or nobody reads.
        """
        try:
            if await self._sentry.lost_reports(sandbox.container) != 0:
                raise DriverError("the sentry has no report session")
            await self._await_reader()
        except BaseException:
            reports.close()
            raise
        watched = self._watched[sandbox.sandbox_id] = _Watched(sandbox, template, reports)
        self._hand_over(watched, ())

    def check(self, sandbox_id: str) -> None:
        """Raises DriverError where a sandbox that was just started is not watched."""
        watched = self._watched[sandbox_id]
        if not self._ready.is_set() and not watched.paused:
            raise DriverError("the monitor went away while the sandbox was made")

    def rename(self, sandbox_id: str, to: str) -> None:
        """A sandbox that nobody had was claimed under another id. Raises SandboxLost where it is not watched."""
        if sandbox_id not in self._watched:
            raise SandboxLost("the sandbox is not watched", value=sandbox_id)
        watched = self._watched[to] = self._watched.pop(sandbox_id)
        watched.grants = Grants()
        self._leaving = deque((beat, to if of == sandbox_id else of, call) for beat, of, call in self._leaving)
        self._tell(feed.Renamed(sandbox_id=sandbox_id, to=to))

    def forget(self, sandbox_id: str) -> None:
        """A sandbox is gone."""
        watched = self._watched.pop(sandbox_id, None)
        if watched is not None:
            watched.reports.close()
            self._tell(feed.Unwatch(sandbox_id=sandbox_id))

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def expect(self, sandbox_id: str, call: feed.Call) -> None:
        """Announce a call before it starts. Raises SandboxLost, Unavailable: nobody reads."""
        try:
            await self._await_reader()
        except DriverError as error:
            raise Unavailable(str(error), remedy="Repeat with the same call_id.") from error
        watched = self._watched.get(sandbox_id)
        if watched is None:
            raise SandboxLost("the sandbox is not watched", value=sandbox_id)
        watched.calls[call.exec_id] = call
        if self._keep:
            watched.grants.expect(call)
        self._tell(feed.Expect(sandbox_id=sandbox_id, call=call))

    def bound(self, sandbox_id: str, exec_id: str, pid: int) -> None:
        """The call runs, under this process."""
        watched = self._watched.get(sandbox_id)
        if watched is not None and exec_id in watched.calls:
            watched.calls[exec_id] = msgspec.structs.replace(watched.calls[exec_id], pid=pid)
            self._tell(feed.Bound(sandbox_id=sandbox_id, exec_id=exec_id, pid=pid))

    def withdraw(self, sandbox_id: str, exec_id: str) -> None:
        """The call did not start."""
        watched = self._watched.get(sandbox_id)
        if watched is not None and watched.calls.pop(exec_id, None) is not None:
            watched.grants.withdraw(exec_id)
            self._tell(feed.Withdrawn(sandbox_id=sandbox_id, exec_id=exec_id))

    def ended(self, sandbox_id: str, exec_id: str) -> None:
        """The call's tree is empty. Its last reports may still wait: it is known until the next beat is answered."""
        watched = self._watched.get(sandbox_id)
        if watched is not None and exec_id in watched.calls:
            # A later helper must not open again what is closed.
            watched.calls[exec_id] = msgspec.structs.replace(watched.calls[exec_id], network=())
            watched.grants.left(exec_id)
            self._tell(feed.Left(sandbox_id=sandbox_id, exec_id=exec_id))
        self._leaving.append((self._asked + 1, sandbox_id, exec_id))

    def call(self, sandbox_id: str, exec_id: str) -> feed.Call | None:
        """A call that was announced, as long as it is known."""
        watched = self._watched.get(sandbox_id)
        return watched.calls.get(exec_id) if watched is not None else None

    def spent(self, connections: Iterable[Connection]) -> None:
        """What the helper told: a later one has to know that it is gone from the budgets."""
        for one in connections:
            for watched in self._watched.values() if one.usage is not None else ():
                watched.calls = {exec_id: charged(call, one) for exec_id, call in watched.calls.items()}
                watched.grants.spent(one)

    def _left(self, answered: int) -> None:
        """All that was reported before this beat is read."""
        while self._leaving and self._leaving[0][0] <= answered:
            _, sandbox_id, exec_id = self._leaving.popleft()
            watched = self._watched.get(sandbox_id)
            if watched is not None:
                watched.calls.pop(exec_id, None)

    # ── the helper ───────────────────────────────────────────────────────────────────────────────────────────────

    async def serve(self, end: socket.socket) -> None:
        """One helper's life: hand over, beat, act on what it says. Returns when it is gone, with everything paused."""
        end.setblocking(False)
        self._feed = end
        self._heard, self._speaks = time.monotonic(), False
        work = [asyncio.create_task(self._listen(end)), asyncio.create_task(self._take_over())]
        work.append(asyncio.create_task(self._beat()))
        try:
            await asyncio.wait({work[0], work[2]}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._ready.clear()
            self._feed = None
            for task in work:
                task.cancel()
            end.close()
            if self._away is None:
                self._away = asyncio.get_running_loop().call_later(_AWAY_S, self._give_up)
            self._on_silence()
            await self._on_all(self._pause)
            for result in await asyncio.gather(*work, return_exceptions=True):
                if isinstance(result, Exception):
                    _log.error("the monitor's reader is given up: %s", result)

    async def close(self) -> None:
        """Stop. The sandboxes end next."""
        if self._away is not None:
            self._away.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for sandbox_id in tuple(self._watched):
            self.forget(sandbox_id)

    async def _listen(self, end: socket.socket) -> None:
        while True:
            await readable(end.fileno())
            packet = end.recv(feed.MAX_PACKET + 1, socket.MSG_TRUNC)
            if not packet or len(packet) > feed.MAX_PACKET:
                raise Unavailable("the helper closed the feed")
            match said := read(packet):
                case feed.Pong():
                    self._heard, self._speaks = time.monotonic(), True
                    self.counts = said.counts
                    if said.judges:
                        self._left(said.number)
                        async with self._pong:
                            self._answered = max(self._answered, said.number)
                            self._pong.notify_all()
                case feed.Found():
                    await self._found_breach(said)
                case feed.Untrusted():
                    self._distrust(said.sandbox_id, said.why)

    async def _found_breach(self, found: feed.Found) -> None:
        breach = found.breach
        watched = self._watched.get(breach.sandbox_id)
        _log.warning("breach in %s: %s", breach.exec_id or breach.sandbox_id, found.why)
        if breach.exec_id:
            self.end_call(breach.exec_id, found.why)
        elif watched is not None and watched.lives:
            watched.sandbox.end(f"monitor: {found.why}")
        await self.breaches.add(breach)

    def _distrust(self, sandbox_id: str, why: str) -> None:
        watched = self._watched.get(sandbox_id)
        if watched is not None:
            self._spawn(self._end_if_alive(watched, f"monitor: {why}"))

    async def _end_if_alive(self, watched: _Watched, cause: str) -> None:
        """A sandbox that died took its reports with it: its own cause is the better one. It must not run meanwhile."""
        if watched.lives:
            await self._pause(watched)
            await asyncio.wait((watched.sandbox.death,), timeout=_DEATH_S)
        if watched.lives:
            watched.sandbox.end(cause)

    async def _take_over(self) -> None:
        """Give the helper what there is, wait until it has read all that waited, and let the sandboxes go on."""
        await self._on_all(self._restore)
        await self._answer_to(self._ping())
        await self._on_all(self._resume)
        if self._away is not None:
            self._away.cancel()
            self._away = None
        self._ready.set()

    async def _restore(self, watched: _Watched) -> None:
        if not watched.lives:
            return
        processes = await self._sentry.processes(watched.sandbox.container)
        self._hand_over(watched, tuple((one.pid, one.ppid) for one in processes))
        for _, sandbox_id, exec_id in self._leaving:  # it is known for its last reports, and lives there no more
            if sandbox_id == watched.sandbox.sandbox_id:
                self._tell(feed.Left(sandbox_id=sandbox_id, exec_id=exec_id))
        feed_end = self._feed
        if self._keep and feed_end is not None:
            with contextlib.suppress(OSError):  # it is gone, which whoever listens to it hears as well
                for told in watched.grants.told(watched.sandbox.sandbox_id):  # of all sandboxes, more than it holds
                    await asyncio.get_running_loop().sock_sendall(feed_end, _encode(told))

    def _hand_over(self, watched: _Watched, processes: tuple[tuple[int, int], ...]) -> None:
        told = feed.Watch(
            sandbox_id=watched.sandbox.sandbox_id,
            container=watched.sandbox.container,
            template=watched.template,
            address=watched.sandbox.address,
            calls=tuple(watched.calls.values()),
            processes=processes,
        )
        self._tell(told, watched.reports.fileno())

    async def _pause(self, watched: _Watched) -> None:
        if watched.lives and not watched.paused:
            watched.paused = True
            await self._sentry.pause(watched.sandbox.container)

    async def _resume(self, watched: _Watched) -> None:
        if not (watched.lives and watched.paused):
            return
        lost = await self._sentry.lost_reports(watched.sandbox.container)
        if lost != 0:
            raise DriverError(f"{lost} reports were lost")
        watched.paused = False
        await self._sentry.resume(watched.sandbox.container)

    async def _on_all(self, step: Callable[[_Watched], Awaitable[None]]) -> None:
        """Take a step with every sandbox, side by side. One with which it fails is ended."""
        watched = tuple(self._watched.values())
        results = await asyncio.gather(*(step(one) for one in watched), return_exceptions=True)
        for one, result in zip(watched, results, strict=True):
            if isinstance(result, OpenSafeError | OSError | TimeoutError):
                if one.lives:
                    one.sandbox.end(f"monitor: {result}")
            elif isinstance(result, BaseException):
                _log.error("the monitor failed on %s: %r", one.sandbox.sandbox_id, result)
                one.sandbox.end("monitor: it failed")

    def _give_up(self) -> None:
        for watched in self._watched.values():
            if watched.lives:
                watched.sandbox.end(f"monitor: nobody read the reports for {_AWAY_S:.0f} s")

    async def _beat(self) -> None:
        while True:
            self._ping()
            await asyncio.sleep(_BEAT_S)
            silent = time.monotonic() - self._heard
            if silent > (_SILENCE_S if self._speaks else _AWAY_S):
                raise Unavailable(f"the helper was silent for {silent:.1f} s")

    def _ping(self) -> int:
        self._asked += 1
        self._tell(feed.Ping(number=self._asked))
        return self._asked

    async def _answer_to(self, number: int) -> None:
        """Until the helper has read all that waited when this was asked, with a policy to judge by."""
        async with self._pong:
            await self._pong.wait_for(lambda: self._answered >= number)

    async def _await_reader(self) -> None:
        try:
            async with asyncio.timeout(_AWAY_S):
                await self._ready.wait()
        except TimeoutError as error:
            raise DriverError("nobody reads the monitor's reports", limit=f"{_AWAY_S:.0f} s") from error

    def _tell(self, told: feed.Told, *descriptors: int) -> None:
        if self._feed is None:
            return  # the next reader is handed all that counts
        try:
            socket.send_fds(self._feed, [_encode(told)], descriptors)
        except OSError:
            # Gone, or so far behind that the feed is full: it has to go, and then everything is paused.
            self._on_silence()

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
