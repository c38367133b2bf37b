"""Sandboxes for probes: made by the warden's own code, run as a library, each with a weakening of its own or with none.

What a probe tries here was decided by nobody: the policy is open. Under a profile it stands before the call filter, the
sentry and the mounts; unfiltered, before the last two; raw, as the guest's root with the capabilities it is given.
"""

import asyncio
import contextlib
import os
import pathlib
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from typing import Final, Self

import msgspec

from opensafe.config import Paths
from opensafe.errors import DriverError
from opensafe.model.calls import Program
from opensafe.model.ids import new_id
from opensafe.model.limits import CallLimits, SandboxLimits
from opensafe.model.sandbox import GATEWAY, NO_NETWORK, Launch, SandboxSpec
from opensafe.proof import private
from opensafe.warden.network import namespaces
from opensafe.warden.network.ports import Port
from opensafe.warden.sandbox import layout as guest
from opensafe.warden.sandbox import reconcile, runner
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.driver import Execution, GuestProgram
from opensafe.warden.sandbox.image import Image
from opensafe.warden.sandbox.layout import Layout
from opensafe.warden.sandbox.lifecycle import Lifecycle, WayOut
from opensafe.warden.sandbox.limits import Cgroup, Hierarchies
from opensafe.warden.sandbox.programs import Ending, Programs
from opensafe.warden.sandbox.runsc import Runsc
from opensafe.warden.sandbox.sandbox import Sandbox
from opensafe.warden.sandbox.state import State

from .streams import Streams
from .weakening import AS_SHIPPED, Weakening

TEMPLATE: Final = "base"
PATH: Final = "/usr/local/bin:/usr/bin:/bin"

_PRIVATE: Final = 0o700
_CELLS_MAX: Final = 64
_PROGRAMS_MAX: Final = 64
_DEADLINE_S: Final = 60.0
#: Until the end of a sentry is known that does not answer.
_DEATH_S: Final = 2.0
_NOTHING: Final[Mapping[str, str]] = {}
_NO_DESCRIPTORS: Final[Mapping[int, int]] = {}
#: Files of a group, in v1 and v2, and what stands in them where nothing is limited.
_UNLIMITED: Final = (
    *(("memory.memsw.limit_in_bytes", "-1"), ("memory.limit_in_bytes", "-1"), ("cpu.cfs_quota_us", "-1")),
    *(("memory.max", "max"), ("memory.swap.max", "max"), ("pids.max", "max"), ("cpu.max", "max 100000")),
)


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What a program wrote, up to 8 MiB of each stream, and how it ended. ending: None where nobody followed it."""

    stdout: bytes
    stderr: bytes
    ending: Ending | None = None

    @property
    def text(self) -> str:
        """Both streams."""
        return (self.stdout + self.stderr).decode(errors="replace")

    @property
    def fault(self) -> str:
        """Of a program that wrote nothing: how it ended."""
        if self.stdout:
            return ""
        ended = f"{self.ending.kind} {self.ending.value} {self.ending.detail}" if self.ending else "ended"
        return f"{ended}: {self.stderr[-300:].decode(errors='replace')}"


class Cell:
    """One sandbox. sandbox: as the warden has it, with its cgroup."""

    def __init__(self, layout: Layout, lifecycle: Lifecycle, runsc: Runsc, driver: ControlDriver, box: Sandbox) -> None:
        self.layout = layout
        self.driver = driver
        self.sandbox = box
        self._runsc = runsc
        self._programs = Programs(driver, lifecycle, limit=_PROGRAMS_MAX)

    @property
    def cgroup(self) -> Cgroup:
        """The group around it."""
        return self.sandbox.cgroup

    @property
    def programs(self) -> Programs:
        """What runs in it, as the warden follows it."""
        return self._programs

    @property
    def bundle(self) -> pathlib.Path:
        """Its OCI bundle on the host."""
        return self.layout.bundle(self.sandbox.container)

    def launch(
        self,
        *argv: str,
        profile: str = "default",
        env: Mapping[str, str] = _NOTHING,
        cwd: str = guest.WORKSPACE,
        limits: CallLimits | None = None,
    ) -> Launch:
        """A program of the sandbox's own user."""
        return Launch(
            sandbox_id=self.sandbox.sandbox_id,
            exec_id=new_id("exec"),
            program=Program(argv=argv, env={"PATH": PATH, **env}, cwd=cwd),
            profile=profile,
            limits=limits or CallLimits(),
        )

    async def run(self, launch: Launch, stdin: bytes = b"", deadline_s: float = _DEADLINE_S) -> Output:
        """As a call is run, under the launch's profile. Past the deadline its tree is killed: TimeoutError."""
        with Streams.open(stdin) as streams:
            with self._programs.reserved(launch):
                await self._programs.start(launch, *streams.passed)
            streams.given()
            try:
                async with asyncio.timeout(deadline_s):
                    stdout, stderr = await streams.output()
                    return Output(stdout=stdout, stderr=stderr, ending=await self._programs.wait(launch.exec_id))
            except TimeoutError:
                await self._programs.kill(launch.exec_id)
                raise

    async def unfiltered(self, launch: Launch, stdin: bytes = b"", deadline_s: float = _DEADLINE_S) -> Output:
        """By the same runner as the same user, without a filter."""
        with Streams.open(stdin) as streams:
            report, report_end = os.pipe2(os.O_CLOEXEC)
            try:
                program = runner.guest_program(
                    launch,
                    dict(enumerate(streams.passed)),
                    report=report_end,
                    filtered=None,
                    environment=self.sandbox.environment,
                )
                return await self._collect(self.driver, program, streams, deadline_s)
            finally:
                os.close(report)
                os.close(report_end)

    async def raw(
        self,
        *argv: str,
        capabilities: tuple[str, ...] = (),
        env: Mapping[str, str] = _NOTHING,
        stdin: bytes = b"",
        descriptors: Mapping[int, int] = _NO_DESCRIPTORS,
        deadline_s: float = _DEADLINE_S,
    ) -> Output:
        """As root of the guest with these capabilities, started by `runsc exec`: no runner, no filter, no limits.

        descriptors: by their numbers in the guest, beside or in the place of the streams.
        """
        with Streams.open(stdin) as streams:
            program = GuestProgram(
                argv=argv,
                env=tuple(f"{name}={value}" for name, value in {"PATH": PATH, **env}.items()),
                cwd="/",
                capabilities=capabilities,
                descriptors={**dict(enumerate(streams.passed)), **descriptors},
            )
            return await self._collect(self._runsc, program, streams, deadline_s)

    async def put(self, path: str, content: bytes, mode: str = "755") -> None:
        """Write a file as the sandbox's user. Raises DriverError."""
        script = 'cat > "$0" && chmod "$1" "$0" && echo written'
        done = await self.run(self.launch("sh", "-c", script, path, mode, profile="default"), content)
        if done.stdout != b"written\n":
            raise DriverError(f"{path} can't be written in the guest", value=done.fault)

    async def close(self) -> None:
        """Follow its programs no longer."""
        await self._programs.close()

    async def _collect(
        self, driver: ControlDriver | Runsc, program: GuestProgram, streams: "Streams", deadline_s: float
    ) -> Output:
        execution: Execution = await driver.execute(self.sandbox.container, program)
        streams.given()
        try:
            async with asyncio.timeout(deadline_s):
                stdout, stderr = await streams.output()
                await self._ended(execution)
        finally:
            await execution.close()
        return Output(stdout=stdout, stderr=stderr)

    async def _ended(self, execution: Execution) -> None:
        """A program ends with its sandbox, and what it wrote before is its output all the same."""
        try:
            await execution.wait()
        except DriverError:
            await asyncio.wait((self.sandbox.death,), timeout=_DEATH_S)
            if not self.sandbox.death.done():
                raise


class Cells:
    """Directories, cgroups and state of a warden's own, in which cells are made. Needs root."""

    def __init__(self, layout: Layout, hierarchies: Hierarchies, state: State) -> None:
        self.layout = layout
        #: In which their groups are.
        self.hierarchies = hierarchies
        self._state = state

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, paths: Paths | None = None) -> AsyncIterator[Self]:
        """Make them, and remove them with whatever is left in them. paths: of runsc, native programs and images."""
        unique = secrets.token_hex(4)
        run = pathlib.Path(f"/run/opensafe-cells-{unique}")
        layout = Layout.of(msgspec.structs.replace(paths or private.programs(), run=str(run), state=str(run / "state")))
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(shutil.rmtree, run, ignore_errors=True)
            for directory in (layout.runsc_root, layout.bundles, layout.state):
                directory.mkdir(mode=_PRIVATE, parents=True)
            hierarchies = Hierarchies.find(unique)
            hierarchies.prepare()
            stack.callback(hierarchies.remove_parents)
            state = State(layout.state / "warden.db")
            stack.callback(state.close)
            stack.callback(reconcile.detach_mounts, layout)
            await namespaces.create(layout.gofers_namespace)
            yield cls(layout, hierarchies, state)

    @contextlib.asynccontextmanager
    async def cell(
        self,
        weakening: Weakening = AS_SHIPPED,
        *,
        template: str = TEMPLATE,
        limits: SandboxLimits | None = None,
        way_out: WayOut | None = None,
    ) -> AsyncIterator[Cell]:
        """One sandbox, removed afterwards. way_out: what it has a link by. Raises SandboxStartFailed."""
        runsc = _WeakRunsc(self.layout, weakening)
        driver = _WeakDriver(self.layout, runsc if weakening.host_network else None)
        lifecycle = _WeakLifecycle(
            self.layout, self.hierarchies, self._state, runsc, driver, limit=_CELLS_MAX, weakening=weakening
        )
        lifecycle.way_out = way_out
        wanted = SandboxSpec(
            sandbox_id=new_id("sb"),
            template=template,
            image_digest=lifecycle.images.find(template).digest,
            network=GATEWAY if way_out is not None else NO_NETWORK,
            limits=limits or SandboxLimits(),
        )
        try:
            with lifecycle.reserved(wanted):
                box = await lifecycle.create(wanted)
            box.environment = {**box.environment, **weakening.environment}
            if weakening.unlimited:
                _lift(box.cgroup)
            made = Cell(self.layout, lifecycle, runsc, driver, box)
            try:
                yield made
            finally:
                await made.close()
        finally:
            await lifecycle.close()


class _WeakRunsc(Runsc):
    def __init__(self, layout: Layout, weakening: Weakening) -> None:
        super().__init__(layout)
        self._weakening = weakening

    def _argv(self, *args: object, **kwargs: object) -> list[str]:
        return self._weakening.command(super()._argv(*args, **kwargs))  # type: ignore[arg-type] # handed on as they are


class _WeakDriver(ControlDriver):
    """By the control socket, but for the start of a guest in the host's network, whose links runsc itself reads."""

    def __init__(self, layout: Layout, starting: Runsc | None) -> None:
        super().__init__(layout)
        self._starting = starting

    async def start(self, sandbox_id: str, port: Port | None = None) -> None:
        if self._starting is not None:
            await self._starting.start(sandbox_id, port)
        else:
            await super().start(sandbox_id, port)


class _WeakLifecycle(Lifecycle):
    def __init__(self, *args: object, weakening: Weakening, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type] # handed on as they are
        self._weakening = weakening

    def _write_bundle(self, sandbox: Sandbox, used: Image) -> None:
        self._weakening.check(used.rootfs)
        super()._write_bundle(sandbox, used)
        config = self._layout.bundle(sandbox.sandbox_id) / "config.json"
        config.write_bytes(msgspec.json.encode(self._weakening.applied(msgspec.json.decode(config.read_bytes()))))


def _lift(cgroup: Cgroup) -> None:
    """Let the group limit nothing; processes inside are counted on."""
    for directory in map(pathlib.Path, cgroup.directories):
        for file, value in _UNLIMITED:
            if (directory / file).exists():
                (directory / file).write_text(value)
