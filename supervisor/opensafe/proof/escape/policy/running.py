"""The policy boundary's probes on their ground."""

from collections.abc import Callable, Sequence

from opensafe.proof.escape import trial
from opensafe.proof.escape.probe import Probe, Result
from opensafe.proof.escape.trial import Trial

from .ground import ground


async def run(probes: Sequence[Probe], *, only_controls: bool, done: Callable[[Result], None]) -> tuple[Result, ...]:
    """Every probe with its control. Needs root."""
    trials = [probe for probe in probes if isinstance(probe, Trial)]
    return await trial.run(trials, ground, only_controls=only_controls, done=done)
