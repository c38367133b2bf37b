"""The syscall boundary's probes with all they stand on."""

import functools
from collections.abc import Callable, Sequence

from opensafe.proof.escape import trial
from opensafe.proof.escape.ground import Ground
from opensafe.proof.escape.probe import Result
from opensafe.proof.escape.trial import Trial

from . import flags


async def run(probes: Sequence[Trial], *, only_controls: bool, done: Callable[[Result], None]) -> tuple[Result, ...]:
    """Every probe and its control. Needs root."""
    ground = functools.partial(Ground.open, name="syscalls", only_controls=only_controls)
    with flags.environment():
        return await trial.run(probes, ground, only_controls=only_controls, done=done)
