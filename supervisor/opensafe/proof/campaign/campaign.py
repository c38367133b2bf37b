"""The campaign itself: planted breaches first, then batch after batch until enough runs are complete."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol

import msgspec

from opensafe.errors import HostUnsuitable

from .batch import Batch, Done, Kind
from .minimise import Minimal
from .oracles import HARMLESS, Oracle
from .progress import Progress
from .selfcheck import SelfCheck

#: Rounds of further batches for runs that were short. What is not complete then, will not be.
_ROUNDS: Final = 6

Told = Callable[[str], None]
"""Hears of each step, in words."""


class Engine(Protocol):
    """Runs batches, wherever."""

    async def selfcheck(self, seed: int, done: Callable[[SelfCheck], None]) -> tuple[SelfCheck, ...]:
        """Plant the breaches where batches run."""

    def run(self, batches: Sequence[Batch]) -> AsyncIterator[Done]:
        """Each once, as they end."""

    async def minimise(self, batch: Batch, oracle: Oracle) -> Minimal | None:
        """The least that raises an oracle again; None where that can't be had."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All of a campaign. seconds: of this command; a campaign that was gone on with took longer."""

    runs: int
    seed: int
    engine: str
    checks: tuple[SelfCheck, ...]
    done: tuple[Done, ...]
    minimal: tuple[Minimal, ...]
    seconds: float


async def run(engine: Engine, progress: Progress, name: str, told: Told) -> Result:
    """Go on until all is done.

    Raises HostUnsuitable where a planted breach was not raised: then nothing else says anything.
    """
    begun = time.monotonic()
    settings = progress.settings
    checks = await engine.selfcheck(settings.seed, lambda check: told(f"planted: {check.name}"))
    silent = [f"{check.name}: {', '.join(one.name for one in check.missing)}" for check in checks if not check.raised]
    if silent:
        raise HostUnsuitable("a planted breach was not raised, so the oracles prove nothing", value="; ".join(silent))
    for _ in range(_ROUNDS):
        batches = progress.next()
        if not batches:
            break
        total = len(progress.done) + len(batches)
        async for done in engine.run(batches):
            if progress.add(done):
                told(f"{len(progress.done)} of {total} batches ({done.kind} {done.number})")
    return Result(
        runs=settings.runs,
        seed=settings.seed,
        engine=name,
        checks=checks,
        minimal=await _minimal(engine, progress),
        done=tuple(progress.done[number] for number in sorted(progress.done)),
        seconds=round(time.monotonic() - begun, 1),
    )


async def _minimal(engine: Engine, progress: Progress) -> tuple[Minimal, ...]:
    """Of the first batch that raised each oracle, what is needed for it."""
    first: dict[Oracle, Batch] = {}
    for number in sorted(progress.done):
        done = progress.done[number]
        if done.kind is not Kind.GATED:
            for finding in done.findings:
                if finding.oracle not in HARMLESS:
                    first.setdefault(finding.oracle, progress.settings.batch(number))
    found = [await engine.minimise(batch, oracle) for oracle, batch in first.items()]
    return tuple(one for one in found if one is not None)
