"""The policy boundary's probes on their ground."""

from collections.abc import Callable, Sequence

from opensafe.proof.escape import trial
from opensafe.proof.escape.probe import Result
from opensafe.proof.escape.trial import Trial

from .ground import Ground


async def run(probes: Sequence[Trial], *, only_controls: bool, done: Callable[[Result], None]) -> tuple[Result, ...]:
    """Every probe with its control. Needs root."""
    return await trial.run(probes, Ground.open, only_controls=only_controls, done=done)
