"""What a program in a sandbox tries to use up: as a call, undecided, without limits of its own, and in a weaker cell.

All that decides is counted by the host. A sandbox that its own group ends has tried all that it could.
"""

import asyncio
import contextlib
import pathlib
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import msgspec

from opensafe.client import SandboxSize
from opensafe.model.limits import CallLimits, SandboxLimits
from opensafe.model.outcome import OutcomeKind
from opensafe.proof.escape.cell import Cell
from opensafe.proof.escape.probe import Run
from opensafe.proof.escape.weakening import AS_SHIPPED, Weakening, shared
from opensafe.proof.planting import plant

from .counters import Group, names_below
from .daemons import Kind
from .ground import Ground
from .small import mounted

BEGUN: Final = "begun"
DONE: Final = "all tried"
#: What is open before the layer that is to hold.
_UNDECIDED: Final = ("policy",)
_UNLIMITED: Final = ("policy", "call filter", "the call's limits")

_PLACE: Final = "/workspace/tried.py"

#: What a directory of the host's may take in a control.
_HOST_FILES: Final = "40k"
_HOST_BYTES: Final = "64m"
#: How a sandbox ends that has hit its group's limit.
_LIMITS_HIT: Final = ("memory", "pids")
_DEATH_S: Final = 5.0
_SAMPLE_S: Final = 0.2
_WINDOW_S: Final = 1.0
#: What root of the guest needs to write where the sandbox's own user may.
_OWNER: Final = ("CAP_DAC_OVERRIDE",)
_NOTHING: Final[Mapping[str, str]] = {}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the host counted. tasks, memory: the most at once. refused_tasks, throttled, killed: how often.

    grown: bytes of memory files that the program left. inodes: files that it made on the host, named ones and others.
    cores: the most processors that it had over a second. ended: why the sandbox is gone.
    """

    tasks: int = 0
    refused_tasks: int = 0
    memory: int = 0
    killed: int = 0
    grown: int = 0
    inodes: int = 0
    cores: float = 0.0
    throttled: int = 0
    ended: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One program (Python) and the limits it runs under. weak: what the control lacks. host_files: there, /mnt is a
    directory of the host's.

    found: the breach; layer: what around the sandbox stopped it; own: what of the call's own limits did, where there
    are some; all in words. Where neither did, nothing is proven.
    """

    program: str
    sandbox: SandboxLimits = SandboxLimits()
    call: CallLimits = CallLimits()
    env: Mapping[str, str] = _NOTHING
    weak: Weakening = Weakening()
    host_files: bool = False
    found: Callable[[Seen], str]
    layer: Callable[[Seen], str]
    own: Callable[[Seen], str] = lambda _: ""


class Guest:
    """The attempts of one row."""

    def __init__(self, row: Row) -> None:
        self.row = row

    async def shipped(self, ground: Ground) -> Run:
        """A call of a daemon's, in a sandbox of this size."""
        daemon = await ground.daemon(Kind.SHIPPED)
        size = SandboxSize(**msgspec.structs.asdict(self.row.sandbox))
        async with ground.suffering() as suffered, daemon.sandbox(size) as (client, session, sandbox):
            nonce = secrets.token_hex(8)
            await plant(client.files(session, sandbox), _PLACE, self._text(nonce).encode())

            async def call() -> _Said:
                done = await client.run_call(session, sandbox, nonce, "Bash", {"command": f"python3 {_PLACE}"})
                lost = done.outcome.kind is OutcomeKind.LOST
                return _Said(done.stdout, done.stderr, done.outcome.detail if lost else "")

            said, seen = await _watched(Group(daemon.group(sandbox)), call(), daemon.bundle(sandbox))
            return self._run(nonce, said, seen, await suffered(), own=True)

    async def undecided(self, ground: Ground) -> Run:
        """As a call is run, with the row's own limits of one, which nobody granted."""
        return await self._in_cell(ground, AS_SHIPPED, raw=False, opened=_UNDECIDED)

    async def unlimited(self, ground: Ground) -> Run:
        """As root of the guest, without limits of its own: what is around the sandbox stands alone."""
        return await self._in_cell(ground, AS_SHIPPED, raw=True, opened=_UNLIMITED)

    async def control(self, ground: Ground) -> Run:
        """The same where the sandbox is not limited either."""
        if not self.row.host_files:
            return await self._in_cell(ground, self.row.weak, raw=True)
        place = ground.scratch / secrets.token_hex(4)
        with mounted(place, mode="0777", size=_HOST_BYTES, nr_inodes=_HOST_FILES):
            return await self._in_cell(ground, shared(place, writable=True), raw=True, places=(place,))

    async def _in_cell(
        self,
        ground: Ground,
        weakening: Weakening,
        *,
        raw: bool,
        opened: tuple[str, ...] = (),
        places: tuple[pathlib.Path, ...] = (),
    ) -> Run:
        cells, nonce = await ground.cells(), secrets.token_hex(8)
        async with ground.suffering() as suffered, cells.cell(weakening, limits=self.row.sandbox) as cell:
            program = self._in(cell, nonce, raw=raw)
            said, seen = await _watched(Group(cell.cgroup), program, cell.bundle, *places)
            # Whatever a neighbour suffers from it, a control is to show that the counts would tell.
            return self._run(nonce, said, seen, "" if weakening else await suffered(), opened, own=not raw)

    async def _in(self, cell: Cell, nonce: str, *, raw: bool) -> "_Said":
        argv, row = ("python3", "-c", self._text(nonce)), self.row
        if raw:
            done = await cell.raw(*argv, env=row.env, capabilities=_OWNER)
        else:
            done = await cell.run(cell.launch(*argv, env=row.env, limits=row.call))
        if DONE.encode() not in done.stdout:
            await asyncio.wait((cell.sandbox.death,), timeout=_DEATH_S)
        return _Said(done.stdout, done.stderr, cell.sandbox.cause)

    def _text(self, nonce: str) -> str:
        begin, end = f"print('{BEGUN} {nonce}', flush=True)", f"print('{DONE}', flush=True)"
        return f"import os\n{begin}\n{self.row.program}\n{end}\nos._exit(0)\n"

    def _run(
        self, nonce: str, said: "_Said", seen: Seen, suffered: str, opened: tuple[str, ...] = (), *, own: bool
    ) -> Run:
        found = self.row.found(seen) or suffered
        layer = "" if found else self.row.layer(seen) or (self.row.own(seen) if own else "")
        lines = said.stdout.decode(errors="replace").splitlines()
        return Run(
            opened=opened,
            began=f"{BEGUN} {nonce}" in lines,
            finished=(DONE in lines or seen.ended in _LIMITS_HIT) and bool(found or layer),
            found=found,
            layer=layer,
            hints=(*lines[1:], *said.stderr.decode(errors="replace").splitlines()[-2:]),
        )


class _Said(msgspec.Struct, frozen=True):
    """What a program wrote. ended: why its sandbox has ended, if it has."""

    stdout: bytes
    stderr: bytes
    ended: str


async def _watched(group: Group, program: Coroutine[Any, Any, _Said], *places: pathlib.Path) -> tuple[_Said, Seen]:
    """Run a program to its end. places: where on the host its sandbox can make files.

    A daemon removes the group of a sandbox that has ended: then what was counted last is what was seen.
    """
    loop, samples = asyncio.get_running_loop(), []
    before = counts = group.counts()
    inodes = names_below(*places) + group.unnamed()
    running = asyncio.create_task(program)
    try:
        while not running.done():
            await asyncio.wait((running,), timeout=_SAMPLE_S)
            with contextlib.suppress(OSError):
                counts = group.counts()
                samples.append((loop.time(), counts.cpu_s))
        said = await running
    finally:
        running.cancel()
        await asyncio.wait((running,))
    return said, Seen(
        tasks=counts.tasks,
        refused_tasks=counts.refused_tasks,
        memory=counts.memory,
        killed=counts.killed,
        grown=counts.shared_memory - before.shared_memory,
        inodes=names_below(*places) + group.unnamed() - inodes,
        cores=busiest(samples),
        throttled=counts.throttled,
        ended=said.ended,
    )


def busiest(samples: Sequence[tuple[float, float]]) -> float:
    """The most processors over a second, or over all the time of a program that is done sooner.

    samples: times, and the processor seconds until then.
    """
    rates = [0.0]
    for number, (begun, used) in enumerate(samples):
        later = samples[number + 1 :]
        whole = (one for one in later if one[0] - begun >= _WINDOW_S)
        if end := next(whole, later[-1] if later and not number else None):
            rates.append((end[1] - used) / (end[0] - begun))
    return max(rates)
