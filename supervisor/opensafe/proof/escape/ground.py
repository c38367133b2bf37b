"""What probes of a guest stand on: cells, and a daemon with the shipped policy. And the runs of one program there.

A guest's program is tried five times. As shipped: by a call that says what it is about, and by one that runs a file, in
which no policy looks. In cells, where no policy judges: before the call filter; without that, before the sentry and
the mounts; and as root of the guest with every capability, before those alone. Each finds its own scene on the host.
"""

import asyncio
import contextlib
import pathlib
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, Self

import msgspec

from opensafe.client import CallResult, Client, SandboxSize
from opensafe.errors import DriverError, OpenSafeError
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from opensafe.proof import private
from opensafe.proof.around import around
from opensafe.proof.planting import plant
from opensafe.proof.signed import SignedBundles

from . import guest, host, ways
from .bundles import patient
from .cell import TEMPLATE, Cell, Cells
from .keeping import Keeping
from .probe import Run
from .trial import Attempt
from .ways import ALL_CAPABILITIES, FILTER, POLICY, USER, Way
from .weakening import AS_SHIPPED, Weakening

#: What a program that prepares a cell says at its end.
READY: Final = "ready"

_CALL_S: Final = 60.0
_PROGRAM: Final = "/workspace/probe.py"
_AGENT: Final = "escape"
_SIZE: Final = SandboxSize()
_ROLES: Final[Mapping[str, Sequence[str]]] = {"default": ("developer",)}
#: How a call that was allowed can have tried all it had.
_TRIED: Final = (OutcomeKind.EXITED, OutcomeKind.SIGNALLED, OutcomeKind.VIOLATION)


class Scene(Protocol):
    """What one run finds on the host. facts: for its program, and by their names in small letters for its command."""

    @property
    def facts(self) -> Mapping[str, object]: ...

    async def found(self, output: bytes) -> str:
        """The breach, in words, from what the host holds and from what came out; "" where there is none."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is tried. scene: opened for each run. program: Python, behind the prelude. command: the same, or its plain
    form, as an agent would have it run; its {names} are facts. before: what is done in the cell first, as its root.
    """

    scene: Callable[[], AbstractAsyncContextManager[Scene]]
    program: str
    command: str
    before: tuple[str, ...] = ()

    def text(self, scene: Scene, mark: str) -> str:
        """The program of one run."""
        return guest.build(self.program, scene.facts, mark)


Weaken = Callable[[Scene], Weakening]
"""How a cell is made worse, which may stand on the scene."""


class Ground:
    """Cells, and a daemon with its client. daemon: None where only controls run."""

    def __init__(self, cells: Cells, daemon: private.PrivateDaemon | None, keeping: Keeping) -> None:
        self.cells = cells
        self.daemon = daemon
        #: What several probes stand on and not all.
        self.kept = keeping.kept

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, *, name: str, only_controls: bool = False) -> AsyncIterator[Self]:
        """Both. The daemon has the shipped rules, but for how often one may be refused."""
        async with contextlib.AsyncExitStack() as stack:
            cells = await stack.enter_async_context(Cells.open())
            begun = None
            if not only_controls:
                path = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opensafe-escape-")))
                begun = await stack.enter_async_context(daemon(name, await asyncio.to_thread(patient, path)))
            yield cls(cells, begun, await stack.enter_async_context(Keeping.open()))

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[tuple[Client, str, str]]:
        """A client of the daemon's, a session, and a sandbox in it that is gone afterwards."""
        assert self.daemon is not None  # noqa: S101 - only a control has none
        async with sandboxed(self.daemon) as opened:
            yield opened


@contextlib.asynccontextmanager
async def daemon(
    name: str,
    bundles: SignedBundles,
    *,
    roles: Mapping[str, Sequence[str]] = _ROLES,
    more: str = "",
    source: pathlib.Path | None = None,
    begin: bool = True,
) -> AsyncIterator[private.PrivateDaemon]:
    """A daemon of one's own, and nothing of it afterwards. begin: start it. All else is as PrivateDaemon has it."""
    made = private.PrivateDaemon(name, roles, bundle=bundles.place, key=bundles.public, more=more, source=source)
    try:
        async with begun(made, begin=begin):
            yield made
    finally:
        made.remove()


@contextlib.asynccontextmanager
async def begun(of: private.PrivateDaemon, *, begin: bool = True) -> AsyncIterator[None]:
    """A daemon that is started, and stopped however this ends."""
    async with around(of.start if begin else lambda: None, lambda: _settle(of), always=True):
        yield


def _settle(of: private.PrivateDaemon) -> None:
    """Stop it. What one leaves that ended badly, the next removes; where none can be started the first tells why."""
    if of.stop():
        with contextlib.suppress(private.DaemonFailedError):
            of.start().stop()


@contextlib.asynccontextmanager
async def sandboxed(of: private.PrivateDaemon) -> AsyncIterator[tuple[Client, str, str]]:
    """A client, a session, and a sandbox in it that is gone afterwards."""
    async with Client.connect(of.socket_of("default")) as client, boxed(client) as (session, sandbox):
        yield client, session, sandbox


@contextlib.asynccontextmanager
async def boxed(
    client: Client, agent: str = _AGENT, *, size: SandboxSize = _SIZE, closes: bool = True
) -> AsyncIterator[tuple[str, str]]:
    """A session and a sandbox in it, both gone afterwards. closes: as `opened` has it."""
    async with opened(client, agent, closes=closes) as session:
        yield session, (await client.create_sandbox(session, TEMPLATE, size)).sandbox_id


@contextlib.asynccontextmanager
async def opened(client: Client, agent: str = _AGENT, *, closes: bool = True) -> AsyncIterator[str]:
    """A session, gone afterwards with all that is in it. closes: that is sure, whatever is tried meanwhile."""
    session = await client.create_session(agent)
    try:
        yield session
    finally:
        with contextlib.nullcontext() if closes else contextlib.suppress(OpenSafeError):
            await client.close_session(session)


def attempts(row: Row) -> tuple[Attempt, ...]:
    """As shipped, and with one layer after the other opened."""
    return (
        lambda on: _gated(on, row),
        lambda on: _in_a_file(on, row),
        lambda on: in_cell(on, row, ways.filtered, opened=(POLICY,)),
        lambda on: in_cell(on, row, ways.unfiltered, opened=(POLICY, FILTER)),
        lambda on: in_cell(on, row, ways.as_root, opened=(POLICY, FILTER, USER)),
    )


def weakened(row: Row, weaken: Weaken, *, root: bool = False) -> Attempt:
    """The control in a cell that is made worse. root: as root of the guest; else as the user, unfiltered."""
    return lambda on: in_cell(on, row, ways.as_root if root else ways.unfiltered, weaken)


async def in_cell(
    on: Ground, row: Row, way: Way, weaken: Weaken = lambda _: AS_SHIPPED, *, opened: tuple[str, ...] = ()
) -> Run:
    """Once in a cell of its own."""
    async with row.scene() as scene, on.cells.cell(weaken(scene)) as cell:
        return await tried(cell, row, scene, way, opened=opened)


async def tried(
    cell: Cell, row: Row, scene: Scene, way: Way, *, opened: tuple[str, ...] = (), filtered: bool = False
) -> Run:
    """The row's program once in a cell. filtered: this way has it under a profile, as ways.filtered has.

    Raises DriverError where what it stands on can't be put into the cell.
    """
    mark = host.nonce()
    if row.before:
        ready = await cell.raw(*row.before, capabilities=ALL_CAPABILITIES)
        if READY not in ready.text:
            raise DriverError("what a probe stands on can't be put into the cell", value=ready.text[-300:])
    done = await way(cell, row.text(scene, mark))
    filtered = filtered or way is ways.filtered
    return await judged(scene, done.stdout + done.stderr, mark, opened=opened, filtered=filtered, fault=done.fault)


def bare(row: Row, *prefix: str) -> Attempt:
    """The control on the host. prefix: what the program is started by, with {names} of facts."""

    async def attempt(_: Ground) -> Run:
        mark = host.nonce()
        async with row.scene() as scene:
            words = [word.format(**_small(scene)) for word in prefix]
            output = await host.bare(row.text(scene, mark), prefix=words)
            return await judged(scene, output, mark, filtered=False)

    return attempt


async def judged(
    scene: Scene, output: bytes, mark: str, *, opened: Sequence[str] = (), filtered: bool, fault: str = ""
) -> Run:
    """A run of a built program, by what it left on the host."""
    said = guest.told(output, mark, filtered=filtered)
    return Run(
        opened=tuple(opened),
        began=said.began,
        finished=said.finished,
        found=await scene.found(output),
        layer=said.layer,
        hints=said.hints,
        fault=fault if not said.began else "",
    )


async def _gated(on: Ground, row: Row) -> Run:
    async with on.session() as (client, session, sandbox), row.scene() as scene:
        command = row.command.format(**_small(scene))
        async with asyncio.timeout(_CALL_S):
            result = await client.run_call(session, sandbox, "probe", "Bash", {"command": command})
        run = told(result)
        return msgspec.structs.replace(run, found=await scene.found(result.stdout + result.stderr))


async def _in_a_file(on: Ground, row: Row) -> Run:
    mark = host.nonce()
    async with on.session() as (client, session, sandbox), row.scene() as scene:
        await plant(client.files(session, sandbox), _PROGRAM, row.text(scene, mark).encode())
        async with asyncio.timeout(_CALL_S):
            command = {"command": f"python3 -I {_PROGRAM}"}
            result = await client.run_call(session, sandbox, "probe", "Bash", command)
        run = await judged(scene, result.stdout + result.stderr, mark, filtered=True)
        if result.verdict.action is not Action.ALLOW or result.outcome.kind is OutcomeKind.VIOLATION:
            return msgspec.structs.replace(told(result), found=run.found)  # stopped as a whole
        return run


def told(result: CallResult) -> Run:
    """A call that was run through the daemon, before anybody has looked for a breach.

    It began where it was decided, and tried all where it was refused or got to an end of its own.
    """
    verdict, outcome, output = result.verdict, result.outcome, result.stdout + result.stderr
    if verdict.action is not Action.ALLOW:
        rules = ", ".join(dict.fromkeys(rule.id for rule in verdict.deciding()))
        layer = f"policy: {verdict.action} by {rules} (decision {verdict.decision_id})"
    elif outcome.kind is OutcomeKind.VIOLATION:
        layer = f"monitor: {outcome.detail}"
    else:
        layer = guest.in_words(output) or "nothing there to try it on"
    return Run(
        began=bool(verdict.decision_id),
        finished=verdict.action is not Action.ALLOW or outcome.kind in _TRIED,
        layer=layer,
        hints=tuple(output.decode(errors="replace").splitlines()[:20]),
    )


def _small(scene: Scene) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in scene.facts.items()}
