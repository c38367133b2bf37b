"""What a program in a cell tries to use up, as a call runs it, without the call's own limits, and in a weaker cell.

All that decides is counted by the host. A sandbox that its own group ends has tried all that it could.
"""

import asyncio
import pathlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from opensafe.model.limits import CallLimits, SandboxLimits
from opensafe.proof.escape.cell import Cell, Output
from opensafe.proof.escape.probe import Run
from opensafe.proof.escape.weakening import AS_SHIPPED, Weakening, shared

from .counters import Group, names_below
from .ground import Ground
from .small import mounted

BEGUN: Final = "begun"
DONE: Final = "all tried"
CALL_LIMITS: Final = "the call's limits"

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

    found: the breach; layer: what stopped it, "" where nothing did, so that nothing is proven; both in words.
    """

    program: str
    sandbox: SandboxLimits = SandboxLimits()
    call: CallLimits = CallLimits()
    env: Mapping[str, str] = _NOTHING
    weak: Weakening = Weakening()
    host_files: bool = False
    found: Callable[[Seen], str]
    layer: Callable[[Seen], str]


class Guest:
    """The attempts of one row."""

    def __init__(self, row: Row) -> None:
        self.row = row

    async def shipped(self, ground: Ground) -> Run:
        """As a call runs it."""
        return await self._run(ground, AS_SHIPPED, raw=False)

    async def unlimited(self, ground: Ground) -> Run:
        """As root of the guest, without limits of its own: what is around the sandbox stands alone."""
        return await self._run(ground, AS_SHIPPED, raw=True, opened=(CALL_LIMITS,))

    async def control(self, ground: Ground) -> Run:
        """The same where the sandbox is not limited either."""
        if not self.row.host_files:
            return await self._run(ground, self.row.weak, raw=True)
        place = ground.scratch / secrets.token_hex(4)
        with mounted(place, mode="0777", size=_HOST_BYTES, nr_inodes=_HOST_FILES):
            return await self._run(ground, shared(place, writable=True), raw=True, places=(place,))

    async def _run(
        self,
        ground: Ground,
        weakening: Weakening,
        *,
        raw: bool,
        opened: tuple[str, ...] = (),
        places: tuple[pathlib.Path, ...] = (),
    ) -> Run:
        peer, cells, nonce = await ground.peer(), await ground.cells(), secrets.token_hex(8)
        async with ground.quiet:
            since = asyncio.get_running_loop().time()
            async with cells.cell(weakening, limits=self.row.sandbox) as cell:
                output, seen = await self._watched(cell, nonce, raw=raw, places=(cell.bundle, *places))
            found = self.row.found(seen) or await peer.suffered(since)
        lines = output.stdout.decode(errors="replace").splitlines()
        layer = "" if found else self.row.layer(seen)
        return Run(
            opened=opened,
            began=f"{BEGUN} {nonce}" in lines,
            finished=(DONE in lines or seen.ended in _LIMITS_HIT) and bool(found or layer),
            found=found,
            layer=layer,
            hints=(*lines[1:], *output.stderr.decode(errors="replace").splitlines()[-2:]),
        )

    async def _watched(
        self, cell: Cell, nonce: str, *, raw: bool, places: tuple[pathlib.Path, ...]
    ) -> tuple[Output, Seen]:
        group = Group(cell.cgroup)
        shared_memory, inodes = group.shared_memory, names_below(*places) + group.unnamed
        running = asyncio.create_task(self._program(cell, nonce, raw=raw))
        cores = await _cores(group, running)
        output = await running
        if DONE.encode() not in output.stdout:
            await asyncio.wait((cell.sandbox.death,), timeout=_DEATH_S)
        return output, Seen(
            tasks=group.tasks,
            refused_tasks=group.refused_tasks,
            memory=group.memory,
            killed=group.killed,
            grown=group.shared_memory - shared_memory,
            inodes=names_below(*places) + group.unnamed - inodes,
            cores=cores,
            throttled=group.throttled,
            ended=cell.sandbox.cause,
        )

    async def _program(self, cell: Cell, nonce: str, *, raw: bool) -> Output:
        row = self.row
        text = f"print('{BEGUN}', {nonce!r}, flush=True)\n{row.program}\nprint('{DONE}', flush=True)\nos._exit(0)"
        argv = ("python3", "-c", f"import os\n{text}")
        if raw:
            return await cell.raw(*argv, env=row.env, capabilities=_OWNER)
        return await cell.run(cell.launch(*argv, env=row.env, limits=row.call))


async def _cores(group: Group, running: asyncio.Task[Output]) -> float:
    """The most processors that a group had over a second, or over all the time of a program that is done sooner."""
    loop = asyncio.get_running_loop()
    samples: list[tuple[float, float]] = []
    while not running.done():
        samples.append((loop.time(), group.cpu_s))
        await asyncio.wait((running,), timeout=_SAMPLE_S)
    return busiest(samples)


def busiest(samples: Sequence[tuple[float, float]]) -> float:
    """The same of times and processor seconds until then; 0 of fewer than two."""
    rates = [0.0]
    for number, (begun, used) in enumerate(samples):
        later = samples[number + 1 :]
        whole = (one for one in later if one[0] - begun >= _WINDOW_S)
        if end := next(whole, later[-1] if later and not number else None):
            rates.append((end[1] - used) / (end[0] - begun))
    return max(rates)
