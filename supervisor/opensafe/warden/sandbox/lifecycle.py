"""The life of sandboxes: made step by step or not at all, watched, removed completely.

A sandbox is one cgroup, one network namespace, one bundle directory and one runsc container, all named by its
id. The intent is on record before the first of them exists (state.py), and each is removed by name, so that
removing works alike after a failed step, at the end of a life, and after a crash.
"""

import asyncio
import contextlib
import logging
import os
import pathlib
import shutil
import signal
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from ...errors import (
    Conflict,
    DriverError,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    OpenSafeError,
    SandboxLost,
    SandboxStartFailed,
)
from ...model.ids import is_own_id
from ...model.sandbox import SandboxSpec
from .. import kernel
from ..network import namespaces
from ..waiting import readable
from . import image, spec
from .driver import Driver
from .layout import Layout
from .limits import Cgroup, Hierarchies
from .runsc import Runsc
from .state import State

_log = logging.getLogger(__name__)

_DEATH_DEADLINE_S: Final = 2.0
_SIGKILL: Final = int(signal.SIGKILL)


class Sandbox:
    """One sandbox that was made. `death` is done, with the cause, as soon as its sentry or gofer has ended."""

    def __init__(self, wanted: SandboxSpec, created_unix_ns: int, cgroup: Cgroup) -> None:
        self.spec = wanted
        self.created_unix_ns = created_unix_ns
        self.cgroup = cgroup
        self.death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.deleting = False
        #: One sweep at a time: the guest is stopped during each.
        self.sweeping = asyncio.Lock()
        self._watchers: list[asyncio.Task[None]] = []

    @property
    def sandbox_id(self) -> str:
        """Its id."""
        return self.spec.sandbox_id

    @property
    def cause(self) -> str:
        """Why it ended; "" while it lives."""
        return self.death.result() if self.death.done() else ""

    @property
    def state(self) -> str:
        """`running`, `lost` or `deleting`."""
        if self.deleting:
            return "deleting"
        return "lost" if self.death.done() else "running"

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

    def watch(self, sentry_pid: int) -> None:
        """Watch the sentry and the gofer from now on. Raises SandboxLost when they are gone already."""
        roles = {pid: role for pid in self.cgroup.pids() if (role := _role(pid)) is not None}
        if roles.get(sentry_pid) != "sentry" or "gofer" not in roles.values():
            raise SandboxLost("sentry and gofer are not in their cgroup", value=roles)
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


class Lifecycle:
    """All sandboxes of this daemon."""

    def __init__(
        self, layout: Layout, hierarchies: Hierarchies, state: State, runsc: Runsc, driver: Driver, *, limit: int
    ) -> None:
        self._layout = layout
        self._hierarchies = hierarchies
        self._state = state
        self._runsc = runsc
        self._driver = driver
        self._limit = limit
        self._sandboxes: dict[str, Sandbox] = {}
        self._reserved: set[str] = set()

    def __len__(self) -> int:
        return len(self._sandboxes)

    def all(self) -> tuple[Sandbox, ...]:
        """Those that exist, lost ones included."""
        return tuple(self._sandboxes.values())

    def get(self, sandbox_id: str) -> Sandbox:
        """Raises NotFound."""
        try:
            return self._sandboxes[sandbox_id]
        except KeyError:
            raise NotFound("there is no such sandbox", value=sandbox_id) from None

    @contextlib.contextmanager
    def reserved(self, wanted: SandboxSpec) -> Iterator[None]:
        """Hold a place for a creation. Refuses all that can be refused before it is on record.

        Raises InvalidArgument, Conflict and LimitExceeded.
        """
        sandbox_id = wanted.sandbox_id
        # It becomes a part of paths.
        if not is_own_id(sandbox_id, "sb"):
            raise InvalidArgument("this is no sandbox id", value=sandbox_id)
        if sandbox_id in self._sandboxes or sandbox_id in self._reserved:
            raise Conflict("the sandbox exists", value=sandbox_id)
        taken = len(self._sandboxes.keys() | self._reserved)
        if taken >= self._limit:
            raise LimitExceeded(
                "no more sandboxes fit",
                value=taken,
                limit=f"caps.sandboxes = {self._limit}",
                remedy="Delete one first.",
            )
        self._reserved.add(sandbox_id)
        try:
            yield
        finally:
            self._reserved.discard(sandbox_id)

    async def create(self, wanted: SandboxSpec) -> Sandbox:
        """Make and start a sandbox that holds a place. Raises SandboxStartFailed; nothing is left then."""
        sandbox_id = wanted.sandbox_id
        used = image.find(self._layout.images, wanted.template)
        sandbox = Sandbox(wanted, time.time_ns(), self._hierarchies.group(sandbox_id))
        try:
            await self._make(sandbox, used)
        except BaseException as error:
            await self._remove(sandbox)
            if isinstance(error, OpenSafeError | OSError):
                raise SandboxStartFailed(f"the sandbox could not be made: {error}", value=sandbox_id) from error
            raise
        # Only now: nobody can delete or use one that is being made.
        self._sandboxes[sandbox_id] = sandbox
        return sandbox

    async def delete(self, sandbox_id: str) -> None:
        """End and remove a sandbox. Raises NotFound; SandboxError when something of it can't be removed."""
        await self._remove(self.get(sandbox_id))

    async def close(self) -> None:
        """Remove all."""
        results = await asyncio.gather(*(self._remove(one) for one in self.all()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                _log.error("a sandbox could not be removed: %s", result)

    async def _make(self, sandbox: Sandbox, used: image.Image) -> None:
        sandbox_id, limits = sandbox.sandbox_id, sandbox.spec.limits
        self._state.intend(sandbox_id, sandbox.spec.template, sandbox.created_unix_ns)
        sandbox.cgroup.create(limits)
        await namespaces.create(self._layout.namespace(sandbox_id))
        self._write_bundle(sandbox.spec, used.rootfs)
        sentry = await self._runsc.create(
            sandbox_id, cgroup=sandbox.cgroup, root_overlay_bytes=limits.root_overlay_bytes
        )
        sandbox.watch(sentry)
        await self._driver.start(sandbox_id)

    async def _remove(self, sandbox: Sandbox) -> None:
        if sandbox.deleting:
            raise Conflict("the sandbox is being deleted", value=sandbox.sandbox_id)
        sandbox.deleting = True
        try:
            await remove(self._layout, self._hierarchies, self._runsc, sandbox.sandbox_id)
            if not sandbox.death.done():
                sandbox.death.set_result("killed")
        except (DriverError, OSError, TimeoutError) as error:
            # It stays listed, as lost, and can be deleted again; the next start of the daemon tries as well.
            sandbox.deleting = False
            sandbox.end("not removed")
            raise SandboxLost(f"the sandbox could not be removed: {error}", value=sandbox.sandbox_id) from error
        finally:
            await sandbox.unwatch()
        self._sandboxes.pop(sandbox.sandbox_id, None)
        try:
            self._state.forget(sandbox.sandbox_id)
        except OSError as error:
            # Harmless: the next start finds nothing of it and forgets it.
            _log.error("%s is removed but still on record: %s", sandbox.sandbox_id, error)

    def _write_bundle(self, wanted: SandboxSpec, rootfs: pathlib.Path) -> None:
        bundle = self._layout.bundle(wanted.sandbox_id)
        bundle.mkdir(mode=0o700, parents=True)
        places = spec.Places(
            rootfs=rootfs,
            guest_tools=self._layout.guest,
            resolv_conf=bundle / "resolv.conf",
            hosts=bundle / "hosts",
            network=self._layout.namespace(wanted.sandbox_id),
        )
        places.resolv_conf.write_text(spec.RESOLV_CONF)
        places.hosts.write_text(spec.HOSTS)
        (bundle / "config.json").write_bytes(msgspec.json.encode(spec.oci_spec(wanted, places)))


async def remove(layout: Layout, hierarchies: Hierarchies, runsc: Runsc, sandbox_id: str) -> list[str]:
    """Remove every object of one sandbox, whichever of them exist. Returns what there was.

    Raises DriverError, OSError or TimeoutError at the first that can't be removed; the call can be repeated.
    """
    removed: list[str] = []
    # Processes first: what they hold is busy. runsc has nothing to signal then and only cleans up its files.
    if await hierarchies.group(sandbox_id).remove():
        removed.append(f"cgroup {sandbox_id}")
    if any(layout.runsc_root.glob(f"*{sandbox_id}*")):
        await runsc.delete(sandbox_id)
        for left in layout.runsc_root.glob(f"*{sandbox_id}*"):
            left.unlink()
        removed.append(f"container {sandbox_id}")
    if namespaces.remove(layout.namespace(sandbox_id)):
        removed.append(f"netns {sandbox_id}")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(layout.bundle(sandbox_id))
        removed.append(f"bundle {sandbox_id}")
    return removed


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
