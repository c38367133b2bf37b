"""One sandbox: its death, seen at once and with its cause, and its pauses.

The sentry and the gofer are watched by pidfd from before the guest runs. Pauses nest in the sentry and a resume too
many would end it, so what was asked for is counted here; whoever else pauses (a sweep, the monitor) resumes as often.
"""

import asyncio
import contextlib
import os
import pathlib
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Final

from ...errors import DriverError, SandboxLost
from ...model.sandbox import SandboxSpec
from .. import kernel
from ..network.links import Link
from ..waiting import readable
from .driver import Driver
from .limits import Cgroup

_DEATH_DEADLINE_S: Final = 2.0
_SIGKILL: Final = int(signal.SIGKILL)


class Sandbox:
    """One sandbox that was made. `death` is done, with the cause, as soon as its sentry or gofer has ended."""

    def __init__(self, wanted: SandboxSpec, created_unix_ns: int, cgroup: Cgroup, driver: Driver) -> None:
        self.spec = wanted
        #: What its objects on the host are named by. A sandbox that was claimed has another id.
        self.container = wanted.sandbox_id
        self.created_unix_ns = created_unix_ns
        self.cgroup = cgroup
        self.death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.deleting = False
        self.paused = False
        #: One sweep at a time: the guest is stopped during each.
        self.sweeping = asyncio.Lock()
        #: Its way out, where it has one.
        self.link: Link | None = None
        #: The session whose decision made or claimed it, and the names it keeps here (keeping.py).
        self.session_id = ""
        self.names: Counter[str] = Counter()
        #: What its programs have in their environment beside what a call gives them.
        self.environment: Mapping[str, str] = {}
        self._driver = driver
        self._changing = asyncio.Lock()
        self._stirs = 0
        self._watchers: list[asyncio.Task[None]] = []

    @property
    def sandbox_id(self) -> str:
        """Its id."""
        return self.spec.sandbox_id

    @property
    def address(self) -> str:
        """From which it speaks to the gateway; "" without a way out."""
        return self.link.guest if self.link is not None else ""

    @property
    def cause(self) -> str:
        """Why it ended; "" while it lives."""
        return self.death.result() if self.death.done() else ""

    @property
    def state(self) -> str:
        """`running`, `paused`, `lost` or `deleting`."""
        if self.deleting:
            return "deleting"
        if self.death.done():
            return "lost"
        return "paused" if self.paused else "running"

    async def cause_of_death(self) -> str:
        """The cause of a death that shows already elsewhere. A sandbox that lives is ended: its runner is lost."""
        await asyncio.wait((self.death,), timeout=_DEATH_DEADLINE_S)
        if not self.death.done():
            self.end("runner lost")
        return self.death.result()

    def end(self, cause: str) -> None:
        """Kill the sandbox because it can't be trusted any more; what is left of it stays until it is deleted."""
        if not self.death.done():
            self.death.set_result(cause)
        self.cgroup.kill()

    async def pause(self) -> None:
        """Stop the guest until `resume`; once paused, it stays so. Raises SandboxLost."""
        async with self._changing:
            self._must_live()
            if not self.paused and not self._stirs:
                await self._stop()
            self.paused = True

    async def resume(self) -> None:
        """Let the guest go on; one that runs goes on. Raises SandboxLost."""
        async with self._changing:
            self._must_live()
            if self.paused and not self._stirs:
                await self._go_on()
            self.paused = False

    @contextlib.asynccontextmanager
    async def stirred(self) -> AsyncIterator[None]:
        """A paused guest runs meanwhile: what is killed must run to end. Raises SandboxLost."""
        async with self._changing:
            if self.paused and not self._stirs:
                await self._go_on()
            self._stirs += 1
        try:
            yield
        finally:
            async with self._changing:
                self._stirs -= 1
                if self.paused and not self._stirs and not self.death.done():
                    with contextlib.suppress(SandboxLost):  # which the sandbox's death tells
                        await self._stop()

    def _must_live(self) -> None:
        if self.deleting or self.death.done():
            raise SandboxLost("the sandbox does not run", value=self.cause or self.state, remedy="Make a new one.")

    async def _stop(self) -> None:
        try:
            await self._driver.pause(self.container)
        except DriverError as error:
            raise await self._astray("pause failed") from error

    async def _go_on(self) -> None:
        try:
            await self._driver.resume(self.container)
        except DriverError as error:
            raise await self._astray("resume failed") from error

    async def _astray(self, cause: str) -> SandboxLost:
        """Of a pause that failed nobody knows whether the sentry counts it. Of one that died the own cause is told."""
        await asyncio.wait((self.death,), timeout=_DEATH_DEADLINE_S)
        self.end(cause)
        return SandboxLost("the sandbox was ended", value=self.cause)

    def watch(self, sentry_pid: int) -> None:
        """Watch the sentry and the gofer from now on. Raises SandboxLost when they are gone already."""
        roles = {pid: role for pid in self.cgroup.pids() if (role := _role(pid)) is not None}
        if roles.get(sentry_pid) != "sentry" or "gofer" not in roles.values():
            raise SandboxLost("sentry and gofer are not in their cgroup", value=roles)
        event = self.cgroup.memory_events()
        if event is not None:
            self._watchers.append(asyncio.create_task(self._watch_memory(event)))
        for pid, role in roles.items():
            # From here on the descriptor names the process, whatever happens to the number.
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError as error:
                raise SandboxLost(f"the {role} has ended", value=pid) from error
            self._watchers.append(asyncio.create_task(self._watch(pid, pidfd, role)))

    async def unwatch(self) -> None:
        """Stop watching."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        self._watchers.clear()

    async def _watch_memory(self, event: int) -> None:
        try:
            await readable(event)
            if not self.deleting:
                self.end("memory")
        finally:
            os.close(event)

    async def _watch(self, pid: int, pidfd: int, role: str) -> None:
        try:
            await readable(pidfd)
            if self.death.done():
                return
            # A sentry without its gofer would serve on with I/O errors, a gofer alone has no purpose.
            self.cgroup.kill()
            cause = "killed" if self.deleting else self.cgroup.cause_of_death()
            self.end(cause or _describe(role, kernel.exit_status(pid, pidfd)))
        finally:
            os.close(pidfd)


def _role(pid: int) -> str | None:
    """`sentry` or `gofer` for the processes that the sandbox can't be without."""
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    names = {b"runsc-sandbox": "sentry", b"runsc-gofer": "gofer"}
    return names.get(command[0])


def _describe(role: str, status: int | None) -> str:
    if status is None:
        return f"{role} exit"
    if os.WIFSIGNALED(status):
        return "killed" if os.WTERMSIG(status) == _SIGKILL else f"{role} signal {os.WTERMSIG(status)}"
    return f"{role} exit {os.WEXITSTATUS(status)}"
