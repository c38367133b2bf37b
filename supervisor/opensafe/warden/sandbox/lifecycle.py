"""The life of sandboxes: made step by step or not at all, watched, removed completely.

A sandbox is one cgroup, one network namespace, one bundle directory and one runsc container, all named by the id it
was made under. The intent is on record before the first of them exists (state.py), and each is removed by name, so
that removing works alike after a failed step, at the end of a life, and after a crash.

One that was made for the pool (pool.py) keeps that name when it is claimed under another id.
"""

import asyncio
import contextlib
import logging
import os
import pathlib
import shutil
import time
from collections.abc import Iterator
from typing import Protocol

import msgspec

from ...errors import (
    Conflict,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    OpenSafeError,
    SandboxLost,
    SandboxStartFailed,
)
from ...model.ids import is_own_id
from ...model.sandbox import GATEWAY, NO_NETWORK, SandboxSpec
from ..network import namespaces
from ..network.links import Link
from ..network.ports import Port
from . import image, spec
from .driver import Driver
from .layout import Layout
from .limits import Hierarchies
from .losses import Losses
from .monitor import Monitor
from .reports import listening
from .runsc import Runsc
from .sandbox import Sandbox
from .state import State
from .trust import Trust

_log = logging.getLogger(__name__)


class WayOut(Protocol):
    """What of warden/way_out.py is needed here."""

    #: What sandboxes trust for it; None: nothing more than their images do.
    trust: Trust | None

    async def attach(self, namespace: pathlib.Path) -> Link:
        """Give a namespace its link. Raises OSError, LimitExceeded."""

    async def port(self, namespace: pathlib.Path, link: Link) -> Port:
        """The guest's end of it. Raises OSError."""

    async def detach(self, link: Link) -> None:
        """Take it away."""


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
        #: Watches every sandbox that is made. None: nobody does, as of the self-test's.
        self.monitor: Monitor | None = None
        #: Gives sandboxes their links. None: they have no way out.
        self.way_out: WayOut | None = None
        self._sandboxes: dict[str, Sandbox] = {}
        self._reserved: set[str] = set()
        self.losses = Losses()
        self.images = image.Images(layout.images)

    def __len__(self) -> int:
        return len(self._sandboxes)

    @property
    def free(self) -> int:
        """How many more there can be. What is under way counts."""
        return self._limit - len(self._sandboxes.keys() | self._reserved)

    @property
    def creating(self) -> bool:
        """Whether a creation is under way."""
        return bool(self._reserved)

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

        Raises InvalidArgument, Conflict, LimitExceeded, and SandboxStartFailed without a runtime.
        """
        sandbox_id = wanted.sandbox_id
        # It becomes a part of paths.
        if not is_own_id(sandbox_id, "sb"):
            raise InvalidArgument("this is no sandbox id", value=sandbox_id)
        profiles = (NO_NETWORK, GATEWAY) if self.way_out is not None else (NO_NETWORK,)
        if wanted.network not in profiles:
            raise InvalidArgument("there is no such network profile", value=wanted.network, limit=", ".join(profiles))
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
        self._require_runtime()
        self._reserved.add(sandbox_id)
        try:
            yield
        finally:
            self._reserved.discard(sandbox_id)

    async def create(self, wanted: SandboxSpec) -> Sandbox:
        """Make and start a sandbox that holds a place. Raises SandboxStartFailed; nothing is left then."""
        sandbox = await self.make(wanted)
        # Only now: nobody can delete or use one that is being made.
        self._admit(sandbox)
        return sandbox

    async def adopt(self, cell: Sandbox, wanted: SandboxSpec) -> None:
        """Let the paused one that `make` made be this sandbox, which holds a place. Raises OSError, SandboxLost; it is
        then neither the one nor the other, and to be removed.
        """
        if self.monitor is not None:
            self.monitor.rename(cell.sandbox_id, wanted.sandbox_id)
        cell.spec, cell.created_unix_ns = wanted, time.time_ns()
        await cell.resume()
        self._admit(cell)

    async def make(self, wanted: SandboxSpec) -> Sandbox:
        """Make and start one that nobody can find. Raises SandboxStartFailed; nothing is left then."""
        sandbox_id = wanted.sandbox_id
        self._require_runtime()
        used = self.images.find(wanted.template)
        if used.digest != wanted.image_digest:
            raise SandboxStartFailed(
                "the template's image is another one than was judged", value=used.digest, limit=wanted.image_digest
            )
        sandbox = Sandbox(wanted, time.time_ns(), self._hierarchies.group(sandbox_id), self._driver)
        try:
            await self._make(sandbox, used)
        except BaseException as error:
            await self.discard(sandbox)
            if isinstance(error, OpenSafeError | OSError):
                raise SandboxStartFailed(f"the sandbox could not be made: {error}", value=sandbox_id) from error
            raise
        return sandbox

    def _admit(self, sandbox: Sandbox) -> None:
        self._sandboxes[sandbox.sandbox_id] = sandbox
        sandbox.death.add_done_callback(lambda death: self._died(sandbox, death))

    def _require_runtime(self) -> None:
        """Asked before anything is on record. Raises SandboxStartFailed."""
        for program in (self._layout.runsc, self._layout.launch):
            if not os.access(program, os.X_OK):
                raise SandboxStartFailed(
                    "the sandbox's runtime is missing", value=program, remedy="`make setup` installs it."
                )

    async def pause(self, sandbox_id: str) -> None:
        """Stop the guest until `resume`. Raises NotFound, SandboxLost."""
        await self.get(sandbox_id).pause()

    async def resume(self, sandbox_id: str) -> None:
        """Let the guest go on. Raises NotFound, SandboxLost."""
        await self.get(sandbox_id).resume()

    async def delete(self, sandbox_id: str) -> None:
        """End and remove a sandbox. Raises NotFound; SandboxError when something of it can't be removed."""
        await self.discard(self.get(sandbox_id))

    async def close(self) -> None:
        """Remove all."""
        results = await asyncio.gather(*(self.discard(one) for one in self.all()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                _log.error("a sandbox could not be removed: %s", result)

    async def _make(self, sandbox: Sandbox, used: image.Image) -> None:
        sandbox_id, limits = sandbox.sandbox_id, sandbox.spec.limits
        self._state.intend(sandbox_id, sandbox.spec.template, sandbox.created_unix_ns)
        sandbox.cgroup.create(limits)
        namespace = self._layout.namespace(sandbox_id)
        await namespaces.create(namespace)
        if self.way_out is not None and sandbox.spec.network == GATEWAY:
            sandbox.link = await self.way_out.attach(namespace)
        self._write_bundle(sandbox, used)
        if self.monitor is None:
            sandbox.watch(await self._create(sandbox))
            await self._start(sandbox)
            return
        async with listening(self._layout.bundle(sandbox_id)) as reports:
            sandbox.watch(await self._create(sandbox, reports.session))
            await self.monitor.watch(sandbox, sandbox.spec.template, reports.take())
        await self._start(sandbox)
        self.monitor.check(sandbox_id)

    async def _start(self, sandbox: Sandbox) -> None:
        if self.way_out is None or sandbox.link is None:
            await self._driver.start(sandbox.container)
            return
        port = await self.way_out.port(self._layout.namespace(sandbox.container), sandbox.link)
        with contextlib.closing(port):
            await self._driver.start(sandbox.container, port)

    async def _create(self, sandbox: Sandbox, session: pathlib.Path | None = None) -> int:
        return await self._runsc.create(
            sandbox.sandbox_id,
            cgroup=sandbox.cgroup,
            root_overlay_bytes=sandbox.spec.limits.root_overlay_bytes,
            session=session,
        )

    async def discard(self, sandbox: Sandbox) -> None:
        """End and remove one, whether it can be found or not. Raises SandboxError as `delete`."""
        if sandbox.deleting:
            raise Conflict("the sandbox is being deleted", value=sandbox.sandbox_id)
        sandbox.deleting = True
        try:
            if self.way_out is not None and sandbox.link is not None:
                await self.way_out.detach(sandbox.link)
            await remove(self._layout, self._hierarchies, sandbox.container)
            if not sandbox.death.done():
                sandbox.death.set_result("killed")
        except (OSError, TimeoutError) as error:
            # It stays listed, as lost, and can be deleted again; the next start of the daemon tries as well.
            sandbox.deleting = False
            sandbox.end("not removed")
            raise SandboxLost(f"the sandbox could not be removed: {error}", value=sandbox.sandbox_id) from error
        finally:
            await sandbox.unwatch()
        if self.monitor is not None:
            self.monitor.forget(sandbox.sandbox_id)
        self._sandboxes.pop(sandbox.sandbox_id, None)
        self.losses.forget(sandbox.sandbox_id)
        try:
            self._state.forget(sandbox.container)
        except OSError as error:
            # Harmless: the next start finds nothing of it and forgets it.
            _log.error("%s is removed but still on record: %s", sandbox.sandbox_id, error)

    def _died(self, sandbox: Sandbox, death: asyncio.Future[str]) -> None:
        if not sandbox.deleting:
            self.losses.add(sandbox.sandbox_id, death.result())

    def _write_bundle(self, sandbox: Sandbox, used: image.Image) -> None:
        wanted, link = sandbox.spec, sandbox.link
        bundle = self._layout.bundle(wanted.sandbox_id)
        bundle.mkdir(mode=0o700, parents=True)
        trust = self.way_out.trust if self.way_out is not None and link is not None else None
        places = spec.Places(
            rootfs=used.rootfs,
            guest_tools=self._layout.guest,
            resolv_conf=bundle / "resolv.conf",
            hosts=bundle / "hosts",
            network=self._layout.namespace(wanted.sandbox_id),
            trust=bundle / "trust" if trust is not None else None,
        )
        if trust is not None and places.trust is not None:
            trust.write(places.trust, used.rootfs, used.digest)
            sandbox.environment = trust.environment
        places.resolv_conf.write_text(spec.resolv_conf(link.gateway if link is not None else ""))
        places.hosts.write_text(spec.HOSTS)
        self._layout.meminfo(wanted.sandbox_id).write_text(spec.meminfo(wanted))
        (bundle / "config.json").write_bytes(msgspec.json.encode(spec.oci_spec(wanted, places)))


async def remove(layout: Layout, hierarchies: Hierarchies, sandbox_id: str) -> list[str]:
    """Remove every object of one sandbox, whichever of them exist. Returns what there was.

    runsc has no part in it: `runsc delete` kills the number that its state file names, and that may be another
    process's by now. Raises OSError or TimeoutError at the first that can't be removed; the call can be repeated.
    """
    removed: list[str] = []
    # Processes first: what they hold is busy.
    if await hierarchies.group(sandbox_id).remove():
        removed.append(f"cgroup {sandbox_id}")
    if left := list(layout.runsc_root.glob(f"*{sandbox_id}*")):
        for path in left:
            path.unlink(missing_ok=True)
        removed.append(f"container {sandbox_id}")
    if namespaces.remove(layout.namespace(sandbox_id)):
        removed.append(f"netns {sandbox_id}")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(layout.bundle(sandbox_id))
        removed.append(f"bundle {sandbox_id}")
    return removed
