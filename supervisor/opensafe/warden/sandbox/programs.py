"""Programs in sandboxes: started under the guest runner, followed to their end, killed as a whole tree.

The runner (native/guest/run.c) is the subreaper above one call, under a uid that the call can't signal. It
reports the leader's end on a pipe and stays until its last descendant is reaped; the pipe's end of file is thus
the event that a call's tree is empty. The runner itself is never signalled: when a subreaper dies together with
what it should reap, gVisor ends the whole sandbox.
"""

import asyncio
import collections
import contextlib
import logging
import os
import signal
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec

from ...errors import (
    Conflict,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    OpenSafeError,
    SandboxLost,
    SandboxPaused,
    Unavailable,
)
from ...model.ids import is_own_id
from ...model.sandbox import Launch, Terminal
from .. import feed, protocol
from ..waiting import readable
from . import runner, seccomp
from .ahead import Ahead
from .driver import Driver, Execution
from .lifecycle import Lifecycle
from .sandbox import Sandbox

_log = logging.getLogger(__name__)

#: native/guest/terminal.h: columns, rows.
_SIZE: Final = struct.Struct("<HH")
#: native/guest/report.h: kind, stage, value, flags.
_RECORD: Final = struct.Struct("<IIiI")
_REMAINING: Final = 1
_CUT: Final = 2
_LEADER_EXITED: Final = 1
_SETUP_FAILED: Final = 2
_STAGES: Final = (
    *("", "argument", "filter read", "runner", "groups", "gid", "uid", "no_new_privs", "spawn", "descriptors"),
    *("session", "rlimit", "capabilities", "cwd", "filter", "exec", "terminal", "command"),
)
#: How long after a sweep the next follows if the tree is still not empty: a program that was still being set up
#: was not there to be found.
_SWEEP_AGAIN_S: Final = (0.01, 0.05, 0.2, 1.0)
_SWEEP_DEADLINE_S: Final = 20.0
_REAP_DEADLINE_S: Final = 5.0
#: Ends that are kept for whoever asks late.
_ENDINGS_KEPT: Final = 4096


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended; the fields of protocol.Ended."""

    kind: str
    value: int = 0
    detail: str = ""
    run_ns: int = 0
    cut: bool = False


class _Running:
    """One program under way. `ended` is its end, `finished` says that the tree is empty."""

    def __init__(self, sandbox: Sandbox, execution: Execution, report: int, control: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.sandbox = sandbox
        self.execution = execution
        self.report = report
        self.control = control
        self.started_ns = time.monotonic_ns()
        self.ended: asyncio.Future[Ending] = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()
        self.follower: asyncio.Task[None] | None = None
        self.sweeper: asyncio.Task[None] | None = None
        #: The rule it broke while it ran, in words: whatever its end looks like, this is why.
        self.violation = ""

    def end(self, kind: str, value: int = 0, detail: str = "", *, cut: bool = False) -> None:
        """Settle `ended`."""
        if self.violation and kind in ("exited", "signalled"):
            kind, value, detail = "violation", 0, self.violation
        run_ns = time.monotonic_ns() - self.started_ns
        self.ended.set_result(Ending(kind=kind, value=value, detail=detail, run_ns=run_ns, cut=cut))

    def hang_up(self) -> None:
        """Let the runner close the terminal, if there is one, whatever may wait in it."""
        if self.control is not None:
            os.close(self.control)
            self.control = None


class Programs:
    """All programs of this daemon."""

    def __init__(
        self,
        driver: Driver,
        lifecycle: Lifecycle,
        *,
        limit: int,
        on_end: Callable[[str, str], None] = lambda *_: None,
        ahead: bool = False,
    ) -> None:
        """`on_end` is called with exec id and sandbox id when a program's end is known.

        ahead: keep a runner waiting in each sandbox that was prepared or has run something.
        """
        self._driver = driver
        self._lifecycle = lifecycle
        self._limit = limit
        self._on_end = on_end
        self._ahead = Ahead(driver, enabled=ahead)
        self._reserved: set[str] = set()
        #: When the last program was started (monotonic).
        self.started_at = 0.0
        self._running: dict[str, _Running] = {}
        self._endings: collections.OrderedDict[str, Ending] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._running)

    @contextlib.contextmanager
    def reserved(self, launch: Launch) -> Iterator[None]:
        """Hold a place for a start. Refuses all that can be refused before it is on record.

        Raises InvalidArgument, NotFound, Conflict, LimitExceeded and SandboxLost.
        """
        _check_program(launch)
        seccomp.program(launch.profile)
        _alive(self._lifecycle.get(launch.sandbox_id))
        exec_id = launch.exec_id
        if exec_id in self._running or exec_id in self._endings or exec_id in self._reserved:
            raise Conflict("the exec id was used", value=exec_id)
        under_way = len(self._running) + len(self._reserved)
        if under_way >= self._limit:
            raise LimitExceeded("no more programs fit", value=under_way, limit=f"{self._limit} running")
        self._reserved.add(exec_id)
        try:
            yield
        finally:
            self._reserved.discard(exec_id)

    def prepare(self, sandbox: Sandbox) -> None:
        """Let a runner wait in this sandbox, if it runs, for its next call."""
        if sandbox.state == "running":
            self._ahead.prepare(sandbox.container)

    async def start(
        self, launch: Launch, stdin: int, stdout: int, stderr: int, *, announced: feed.Call | None = None
    ) -> None:
        """Start what holds a place. The descriptors stay the caller's to close. Raises SandboxError.

        announced: what the monitor is told of it first, where there is a monitor.
        """
        self.started_at = time.monotonic()
        await self._start(self._lifecycle.get(launch.sandbox_id), launch, (stdin, stdout, stderr), announced)

    async def run_first(self, sandbox: Sandbox, launch: Launch, announced: feed.Call) -> Ending:
        """Run a program to its end where nobody else can start one yet, and let a runner wait there.

        Raises SandboxError, InvalidArgument.
        """
        _check_program(launch)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            running = await self._start(sandbox, launch, (null, null, null), announced)
        finally:
            os.close(null)
        ending = await asyncio.shield(running.ended)
        if running.follower is not None:
            await asyncio.wait((running.follower,))
        await self._ahead.settled(sandbox.container)
        return ending

    def waiting_in(self, sandbox: Sandbox) -> int:
        """Guest process id of the runner that waits in this sandbox; 0 where none does."""
        return self._ahead.waiting_in(sandbox.container)

    async def _start(
        self, sandbox: Sandbox, launch: Launch, streams: tuple[int, int, int], announced: feed.Call | None
    ) -> _Running:
        _alive(sandbox)
        taken = self._ahead.take(launch, sandbox.container, sandbox.environment)
        if taken is not None:
            waiting, packet = taken
            try:
                execution = await self._execute(
                    launch, lambda: waiting.run(packet, streams), announced, pid=waiting.execution.pid
                )
            except BaseException:
                await waiting.discard()
                raise
            running = _Running(sandbox, execution, waiting.report, None)
        else:
            running = await self._start_runner(sandbox, launch, streams, announced)
        self._running[launch.exec_id] = running
        running.follower = asyncio.create_task(self._follow(launch.exec_id, running))
        return running

    async def _execute(
        self, launch: Launch, begin: Callable[[], Awaitable[Execution]], announced: feed.Call | None, *, pid: int = 0
    ) -> Execution:
        """Begin what the monitor knows of. pid: the runner's, where one was there before."""
        monitor = self._lifecycle.monitor
        if monitor is None or announced is None:
            return await begin()
        await monitor.expect(launch.sandbox_id, announced)
        if pid:
            monitor.bound(launch.sandbox_id, launch.exec_id, pid)
        try:
            execution = await begin()
        except BaseException:
            monitor.withdraw(launch.sandbox_id, launch.exec_id)
            raise
        if not pid:
            monitor.bound(launch.sandbox_id, launch.exec_id, execution.pid)
        return execution

    async def _start_runner(
        self, sandbox: Sandbox, launch: Launch, streams: tuple[int, int, int], announced: feed.Call | None
    ) -> _Running:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as passed:
            report, report_end = runner.pipe(ours, passed)
            os.set_blocking(report, False)
            descriptors = dict(enumerate(streams))
            control = None
            if launch.terminal is not None:
                descriptors[runner.TERMINAL_FD], control = runner.pipe(passed, ours)
                os.set_blocking(control, False)
                os.write(control, _size(launch.terminal))
            filtered = passed.enter_context(seccomp.profile_pipe(launch.profile))
            program = runner.guest_program(
                launch, descriptors, report=report_end, filtered=filtered, environment=sandbox.environment
            )
            execution = await self._execute(launch, lambda: self._driver.execute(sandbox.container, program), announced)
            ours.pop_all()
        return _Running(sandbox, execution, report, control)

    async def wait(self, exec_id: str) -> Ending:
        """How it ended. Raises NotFound for one that is unknown or long forgotten."""
        running = self._running.get(exec_id)
        if running is not None:
            return await asyncio.shield(running.ended)
        return self._ending(exec_id)

    async def kill(self, exec_id: str) -> None:
        """Kill everything below the program's runner; returns when it is gone. Raises NotFound."""
        running = self._running.get(exec_id)
        if running is None:
            self._ending(exec_id)
            return
        self._sweep(running)
        await asyncio.shield(running.finished)

    def resize(self, exec_id: str, terminal: Terminal) -> None:
        """Give its terminal another size. Raises NotFound, also for one that has ended, and InvalidArgument."""
        running = self._running.get(exec_id)
        if running is None or running.ended.done():
            raise NotFound("there is no such program, or it has ended", value=exec_id)
        if running.control is None:
            raise InvalidArgument("the program has no terminal", value=exec_id)
        try:
            os.write(running.control, _size(terminal))
        except BlockingIOError as error:
            raise LimitExceeded("the terminal does not take so many sizes", remedy="Send fewer.") from error
        except BrokenPipeError:
            raise NotFound("the program's terminal is closed", value=exec_id) from None

    async def signal(self, exec_id: str, number: int, *, whole_tree: bool) -> None:
        """Signal the program, or every process below its runner. Raises NotFound, InvalidArgument, Unavailable."""
        if number not in protocol.SIGNALS:
            allowed = ", ".join(f"{one} {name}" for one, name in protocol.SIGNALS.items())
            raise InvalidArgument("this signal is not for sending", value=number, limit=allowed)
        running = self._running.get(exec_id)
        for pause in (*_SWEEP_AGAIN_S, 0.0):
            if running is None or running.ended.done():
                raise NotFound("there is no such program, or it has ended", value=exec_id)
            async with running.sandbox.sweeping:
                if await self._signal_once(running, number, whole_tree=whole_tree):
                    return
            # Still being set up, or just about to end.
            await asyncio.wait((running.ended,), timeout=pause)
        raise Unavailable("the program is not there yet to be signalled", value=exec_id, remedy="Repeat.")

    async def _signal_once(self, running: _Running, number: int, *, whole_tree: bool) -> int:
        return await self._driver.signal(
            running.sandbox.container, running.execution.pid, number, whole_tree=whole_tree
        )

    def break_off(self, exec_id: str, violation: str) -> None:
        """Kill everything below the program's runner because it broke a rule, which its end then says."""
        running = self._running.get(exec_id)
        if running is not None and not running.ended.done():
            running.violation = running.violation or violation
            self._sweep(running)

    async def kill_all(self) -> None:
        """Kill every program, side by side."""
        await asyncio.gather(*(self.kill(exec_id) for exec_id in tuple(self._running)))

    async def close(self) -> None:
        """Give up following. The sandboxes end next, and with them what runs in them."""
        await self._ahead.close()
        tasks = [task for one in self._running.values() for task in (one.follower, one.sweeper) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ending(self, exec_id: str) -> Ending:
        try:
            return self._endings[exec_id]
        except KeyError:
            raise NotFound("there is no such program", value=exec_id) from None

    async def _follow(self, exec_id: str, running: _Running) -> None:
        try:
            await self._follow_report(running)
        except Exception:  # noqa: BLE001 - the boundary: nobody awaits this task
            _log.exception("program %s can't be followed, its sandbox ends", exec_id)
            running.sandbox.end("not followed")
        finally:
            os.close(running.report)
            running.hang_up()
            await running.execution.close()
            if not running.ended.done():
                running.end("lost", detail=running.sandbox.cause or "not followed")
            if not running.finished.done():
                running.finished.set_result(None)
            self._endings[exec_id] = running.ended.result()
            while len(self._endings) > _ENDINGS_KEPT:
                self._endings.popitem(last=False)
            del self._running[exec_id]
            self._on_end(exec_id, running.sandbox.sandbox_id)
            self.prepare(running.sandbox)

    async def _follow_report(self, running: _Running) -> None:
        record = await _read(running.report)
        if record:
            ended = _decode(record)
            if ended is None:
                running.sandbox.end("malformed report")
            elif ended.remaining:
                # The answer says that everything is gone: sweep first.
                self._sweep(running)
                await _read(running.report)
                running.end(ended.kind, ended.value, ended.detail, cut=ended.cut)
            else:
                running.end(ended.kind, ended.value, ended.detail, cut=ended.cut)
                await _read(running.report)
        if not running.ended.done():
            # End of file without a report: the sandbox is gone. If only the runner were, its tree could not be
            # told from others' any more, and the sandbox has to go.
            cause = await running.sandbox.cause_of_death()
            running.end("lost", detail=cause)
        running.finished.set_result(None)
        try:
            async with asyncio.timeout(_REAP_DEADLINE_S):
                await running.execution.wait()
        except (OpenSafeError, TimeoutError) as error:
            # The answer is out already. A dead sandbox has nobody left to reap.
            _log.debug("runner not reaped: %s", error)

    def _sweep(self, running: _Running) -> None:
        if running.sweeper is None:
            running.sweeper = asyncio.create_task(self._sweep_until_empty(running))

    async def _sweep_until_empty(self, running: _Running) -> None:
        try:
            async with asyncio.timeout(_SWEEP_DEADLINE_S), running.sandbox.stirred():
                attempt = 0
                while not running.finished.done():
                    async with running.sandbox.sweeping:
                        await self._signal_once(running, signal.SIGKILL, whole_tree=True)
                    # Not before: the program would die of the hang-up.
                    running.hang_up()
                    await asyncio.wait((running.finished,), timeout=_SWEEP_AGAIN_S[attempt])
                    attempt = min(attempt + 1, len(_SWEEP_AGAIN_S) - 1)
        except (OpenSafeError, TimeoutError) as error:
            if not running.finished.done():
                # What can't be killed alone is killed with its sandbox.
                _log.warning("sandbox %s ends: its program can't be killed (%s)", running.sandbox.sandbox_id, error)
                running.sandbox.end("kill failed")


class _Reported(msgspec.Struct, frozen=True):
    kind: str
    value: int
    detail: str
    remaining: bool
    cut: bool = False


def _decode(record: bytes) -> _Reported | None:
    """The runner's report; None for what no runner writes."""
    if len(record) != _RECORD.size:
        return None
    kind, stage, value, flags = _RECORD.unpack(record)
    if flags & ~(_REMAINING | _CUT) or not 0 <= stage < len(_STAGES):
        return None
    if kind == _SETUP_FAILED:
        return _Reported("not_started", value, _STAGES[stage], False)
    if kind != _LEADER_EXITED:
        return None
    remaining, cut = bool(flags & _REMAINING), bool(flags & _CUT)
    if os.WIFEXITED(value):
        return _Reported("exited", os.WEXITSTATUS(value), "", remaining, cut)
    if os.WIFSIGNALED(value):
        return _Reported("signalled", os.WTERMSIG(value), "", remaining, cut)
    return None


async def _read(report: int) -> bytes:
    """The next record, or b"" at the end of file. Records are written whole."""
    await readable(report)
    return os.read(report, _RECORD.size)


def _size(terminal: Terminal) -> bytes:
    return _SIZE.pack(terminal.columns, terminal.rows)


def _alive(sandbox: Sandbox) -> None:
    if sandbox.state == "paused":
        raise SandboxPaused(
            "the sandbox is paused", value=sandbox.sandbox_id, remedy="Resume it (opensafe sandbox resume)."
        )
    if sandbox.state != "running":
        raise SandboxLost("the sandbox does not run", value=sandbox.cause or sandbox.state, remedy="Make a new one.")


def _check_program(launch: Launch) -> None:
    program = launch.program
    if not is_own_id(launch.exec_id, "exec"):
        raise InvalidArgument("this is no exec id", value=launch.exec_id)
    if not program.argv or not program.argv[0]:
        raise InvalidArgument("argv names no program", value=program.argv)
    if not program.cwd.startswith("/"):
        raise InvalidArgument("cwd is not absolute", value=program.cwd)
    for name in program.env:
        if not name or "=" in name:
            raise InvalidArgument("this can't be the name of an environment variable", value=repr(name))
    for text in (*program.argv, program.cwd, *program.env, *program.env.values()):
        if "\0" in text:
            raise InvalidArgument("argv, cwd and environment can't hold NUL", value=repr(text))
