"""The syscall boundary's probes with all they stand on."""

import functools
from collections.abc import Callable, Sequence
from typing import cast

from opensafe.proof.escape import trial
from opensafe.proof.escape.probe import Probe, Result

from .stand import Stand


async def run(probes: Sequence[Probe], *, only_controls: bool, done: Callable[[Result], None]) -> tuple[Result, ...]:
    """Every probe and its control. Needs root."""
    ground = functools.partial(Stand.open, name="syscalls", only_controls=only_controls)
    return await trial.run(cast(Sequence[trial.Trial], probes), ground, only_controls=only_controls, done=done)
