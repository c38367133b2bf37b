"""The warm pool: sandboxes made before anybody asks, warmed by one program, paused, and handed out once.

What waits is a *cell*: a sandbox under an id of its own that nobody can find. It is handed out only for a create that
asks for exactly what it is: tenant, template, image, network and limits, on the runtime that is in place. So nothing of
a cell is changed when it is claimed, and nothing can be changed wrongly. What was handed out never comes back.

The pool takes only places that no sandbox needs, makes one cell at a time, and stops for growing pauses where making
one fails.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ...config import PoolSettings
from ...errors import DriverError, LimitExceeded, OpenSafeError, SandboxLost
from ...model.calls import Principal, Program
from ...model.ids import new_id
from ...model.limits import CallLimits, SandboxLimits
from ...model.sandbox import GATEWAY, NO_NETWORK, Launch, SandboxSpec
from .. import feed, protocol
from ..ledger import Ledger
from .driver import Driver
from .layout import WORKSPACE, Layout
from .lifecycle import Lifecycle
from .programs import Programs
from .sandbox import Sandbox

_log = logging.getLogger(__name__)

_INIT: Final = 1
_WARM_UP_S: Final = 60.0
#: Pauses after failures in a row: doubled from the first to the last.
_PAUSE_S: Final = 1.0
_PAUSE_MAX_S: Final = 300.0
#: How often images and runtime are looked at while nothing else happens.
_LOOK_S: Final = 60.0
#: A cell is made once nothing has been created or started for so long, or after having waited for that for long enough:
#: making one takes a core for a tenth of a second, and what was just claimed is about to be used.
_CALM_S: Final = 0.2
_PATIENCE_S: Final = 5.0
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class _Kind(msgspec.Struct, frozen=True):
    """What a cell is. A create gets one only where all of this is equal."""

    tenant: str
    template: str
    image_digest: str
    network: str
    limits: SandboxLimits
    #: Identity of the runtime's file.
    runtime: tuple[int, ...]


class _Slot:
    """One entry of the configuration, and its cells that are ready."""

    def __init__(self, settings: PoolSettings) -> None:
        self.settings = settings
        self.ready: deque[tuple[_Kind, Sandbox]] = deque()
        self.failures = 0
        self.error = ""
        self.pause_until = 0.0

    def failed(self, error: str) -> None:
        """Wait longer than the last time."""
        self.failures += 1
        self.error = error
        self.pause_until = time.monotonic() + min(_PAUSE_S * 2 ** (self.failures - 1), _PAUSE_MAX_S)

    def made(self) -> None:
        """Go on at once."""
        self.failures, self.error, self.pause_until = 0, "", 0.0


class Pool:
    """All cells. One task makes them; `close` ends it and removes them."""

    def __init__(
        self,
        settings: Sequence[PoolSettings],
        layout: Layout,
        lifecycle: Lifecycle,
        programs: Programs,
        driver: Driver,
        ledger: Ledger,
    ) -> None:
        self._slots = tuple(_Slot(one) for one in settings)
        self._runtime = layout.runsc
        self._lifecycle = lifecycle
        self._programs = programs
        self._driver = driver
        self._ledger = ledger
        #: All that exist and are nobody's: ready, being made, being removed. By their ids on the host.
        self._cells: set[str] = set()
        #: Of these the ones that could not be removed.
        self._stuck: set[str] = set()
        self._changed = asyncio.Event()
        #: As `_changed`, for creations that wait for a place.
        self._left = asyncio.Event()
        self._busy_at = 0.0
        self._keeper: asyncio.Task[None] | None = None
        self._removals: set[asyncio.Task[None]] = set()

    @property
    def states(self) -> tuple[protocol.PoolState, ...]:
        """For people."""
        now = time.monotonic()
        return tuple(
            protocol.PoolState(
                principal=slot.settings.principal,
                template=slot.settings.template,
                wanted=slot.settings.ready,
                ready=len(slot.ready),
                failures=slot.failures,
                error=slot.error,
                pause_s=max(0, round(slot.pause_until - now)),
            )
            for slot in self._slots
        )

    def start(self, after: asyncio.Event) -> None:
        """Begin to make cells, once this is set."""
        if self._slots and self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(after), name="pool")

    def wake(self) -> None:
        """Something has changed: a place may be free, or a cell ready or gone."""
        self._changed.set()
        self._left.set()

    def created(self) -> None:
        """A creation has ended, however."""
        self._busy_at = time.monotonic()
        self.wake()

    async def close(self) -> None:
        """Make no more, and remove what nobody has claimed."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        for slot in self._slots:
            for _ in range(len(slot.ready)):
                self.give_up(slot.ready.popleft()[1])
        await asyncio.gather(*self._removals)

    # ── claims ───────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, tenant: str, wanted: SandboxSpec) -> Sandbox | None:
        """A cell of that kind, which is the caller's alone from here on, to `claim` or to `give_up`."""
        for slot, found in self._fitting(tenant, wanted):
            slot.ready.remove(found)
            return found[1]
        return None

    def has(self, tenant: str, wanted: SandboxSpec) -> bool:
        """Whether `take` would find one."""
        return any(True for _ in self._fitting(tenant, wanted))

    def _fitting(self, tenant: str, wanted: SandboxSpec) -> Iterator[tuple[_Slot, tuple[_Kind, Sandbox]]]:
        kind = self._kind(tenant, wanted)
        return ((slot, found) for slot in self._slots for found in slot.ready if found[0] == kind)

    async def claim(self, cell: Sandbox, wanted: SandboxSpec) -> bool:
        """Let what was taken be this sandbox. False: it was not fit for that, and is thrown away."""
        try:
            await self._check(cell)
            await self._lifecycle.adopt(cell, wanted)
        except (OpenSafeError, OSError) as error:
            _log.warning("cell %s is thrown away: %s", cell.container, error)
            self.give_up(cell)
            return False
        except BaseException:
            self.give_up(cell)
            raise
        self._gone(cell.container)
        return True

    async def make_room(self) -> None:
        """Give way: remove cells until the sandboxes that hold places have them. Raises LimitExceeded."""
        while len(self._cells) > self._lifecycle.free:
            if self._cells <= self._stuck:
                raise LimitExceeded("cells that can't be removed take the places", value=len(self._stuck))
            self._left.clear()
            slot = max(self._slots, key=lambda slot: len(slot.ready))
            if slot.ready and len(self._cells) - len(self._removals) > self._lifecycle.free:
                self.give_up(slot.ready.popleft()[1])
            await self._left.wait()

    async def _check(self, cell: Sandbox) -> None:
        """Raises SandboxLost, DriverError: it died, it does not answer, or something runs in it that should not."""
        if cell.state != "paused":
            raise SandboxLost("the cell does not wait", value=cell.cause or cell.state)
        known = {_INIT, self._programs.waiting_in(cell)}
        for process in await self._driver.processes(cell.container):
            if process.pid not in known and process.ppid not in known - {_INIT, 0}:
                raise DriverError("something runs in the cell", value=f"{process.pid} {process.name[:20]}")

    # ── making ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _keep(self, after: asyncio.Event) -> None:
        await after.wait()
        while True:
            self._changed.clear()
            await self._clear_out()
            if self._next() is not None:
                await self._calm()
                slot = self._next()
                if slot is not None:
                    await self._fill(slot)
                continue
            now = time.monotonic()
            pauses = [slot.pause_until - now for slot in self._slots if slot.pause_until > now]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min((*pauses, _LOOK_S))):
                    await self._changed.wait()

    def _next(self) -> _Slot | None:
        """The slot that lacks most, where there is room and nobody waits for a sandbox."""
        if self._lifecycle.creating or self._lifecycle.free <= len(self._cells):
            return None
        now = time.monotonic()
        lacking = [one for one in self._slots if len(one.ready) < one.settings.ready and one.pause_until <= now]
        return min(lacking, key=lambda one: len(one.ready) / one.settings.ready, default=None)

    async def _calm(self) -> None:
        until = time.monotonic() + _PATIENCE_S
        while (now := time.monotonic()) < until:
            quiet = min(now - self._busy_at, now - self._programs.started_at)
            if quiet >= _CALM_S:
                return
            await asyncio.sleep(_CALM_S - quiet)

    async def _fill(self, slot: _Slot) -> None:
        try:
            slot.ready.append(await self._make(slot.settings))
        except Exception as error:  # noqa: BLE001 - the boundary: nobody awaits this task, and the pause bounds it
            slot.failed(str(error))
            _log.warning(
                "no cell of %s for %s: %s; next try in %d s",
                *(slot.settings.template, slot.settings.principal, error, slot.pause_until - time.monotonic()),
                exc_info=None if isinstance(error, OpenSafeError | OSError | TimeoutError) else error,
            )
        else:
            slot.made()
            self.wake()

    async def _make(self, settings: PoolSettings) -> tuple[_Kind, Sandbox]:
        image = await self._lifecycle.images.look_up(settings.template)
        wanted = SandboxSpec(
            sandbox_id=new_id("sb"),
            template=settings.template,
            image_digest=image.digest,
            network=NO_NETWORK if self._lifecycle.way_out is None else GATEWAY,
            limits=settings.limits,
        )
        kind = self._kind(settings.principal, wanted)
        if kind is None:
            raise SandboxLost("the sandbox's runtime is missing", value=self._runtime)
        first = Launch(
            sandbox_id=wanted.sandbox_id,
            exec_id=new_id("exec"),
            program=Program(argv=settings.warm_up, env={"PATH": _PATH, "HOME": WORKSPACE}, cwd=WORKSPACE),
            profile="default",
            limits=CallLimits(),
        )
        with self._counted(wanted.sandbox_id):
            await self._ledger.durable(
                self._ledger.append(
                    "pool", sandbox_id=wanted.sandbox_id, exec_id=first.exec_id, subject=wanted.subject_digest()
                )
            )
            cell = await self._lifecycle.make(wanted)
        try:
            await self._warm(cell, first, settings.principal)
            await cell.pause()
            cell.death.add_done_callback(lambda _: self.wake())
        except BaseException:
            self.give_up(cell)
            raise
        return kind, cell

    async def _warm(self, cell: Sandbox, first: Launch, tenant: str) -> None:
        """Run the configured program, as a call is run, and let a runner wait for the tenant's first."""
        announced = feed.Call(
            exec_id=first.exec_id,
            decision_id="",
            call_id="",
            session_id="",
            tool="",
            digest="",
            trace_id="",
            principal=Principal(name=tenant),
            agent="",
            profile=first.profile,
            programs=None,
        )
        async with asyncio.timeout(_WARM_UP_S):
            ending = await self._programs.run_first(cell, first, announced)
        if (ending.kind, ending.value) != ("exited", 0):
            raise DriverError("the warm-up program failed", value=f"{ending.kind} {ending.value} {ending.detail}")

    def _kind(self, tenant: str, wanted: SandboxSpec) -> _Kind | None:
        """None without a runtime."""
        try:
            status = self._runtime.stat()
        except OSError:
            return None
        runtime = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return _Kind(tenant, wanted.template, wanted.image_digest, wanted.network, wanted.limits, runtime)

    # ── removing ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _clear_out(self) -> None:
        """Throw away what died, and what is of an image or a runtime that is not in place any more."""
        for slot in self._slots:
            if not slot.ready:
                continue
            current = ""
            with contextlib.suppress(OpenSafeError, OSError):
                current = (await self._lifecycle.images.look_up(slot.settings.template)).digest
            for kind, cell in tuple(slot.ready):
                fresh = kind.image_digest == current and kind == self._kind(kind.tenant, cell.spec)
                if not fresh or cell.state != "paused":
                    slot.ready.remove((kind, cell))
                    self.give_up(cell)

    @contextlib.contextmanager
    def _counted(self, container: str) -> Iterator[None]:
        """Counted from before it is made; not any more where that fails."""
        self._cells.add(container)
        try:
            yield
        except BaseException:
            self._gone(container)
            raise

    def give_up(self, cell: Sandbox) -> None:
        """Remove a cell that nobody shall have."""
        task = asyncio.create_task(self._remove(cell))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove(self, cell: Sandbox) -> None:
        try:
            await self._lifecycle.discard(cell)
        except OpenSafeError as error:
            # It goes on to count. The next start of the daemon removes it.
            _log.error("cell %s stays: %s", cell.container, error)
            self._stuck.add(cell.container)
            self.wake()
            return
        self._gone(cell.container)

    def _gone(self, container: str) -> None:
        self._cells.discard(container)
        self.wake()
