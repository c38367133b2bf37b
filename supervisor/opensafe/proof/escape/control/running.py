"""The control boundary's probes with what they stand on."""

from collections.abc import Callable, Sequence

from opensafe.proof.escape import trial
from opensafe.proof.escape.probe import Result
from opensafe.proof.world import World

from . import lag
from .ground import Yard


async def run(
    probes: Sequence[trial.Trial], *, only_controls: bool, done: Callable[[Result], None]
) -> tuple[Result, ...]:
    """Every probe and its control. Needs root. The one before the small internet comes last, by itself."""
    before = [probe for probe in probes if probe in lag.TRIALS]
    others = [probe for probe in probes if probe not in lag.TRIALS]
    results = await trial.run(others, Yard.open, only_controls=only_controls, done=done)
    if before:
        results += await trial.run(before, World.open, only_controls=only_controls, done=done, width=1)
    by_id = {result.id: result for result in results}
    return tuple(by_id[probe.id] for probe in probes)
