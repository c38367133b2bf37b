"""Probes that are made of functions: the attempt as shipped, the same with outer layers opened, and the control.

Each boundary has a ground of its own, on which its probes stand: the sandboxes or daemons, and what is planted on the
host beside them. A ground is opened once for all of them; what a probe changes it puts back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from opensafe.errors import OpenSafeError

from .probe import Probe, Result, Run, judge

#: Trials at the same time: each is a sandbox or a daemon.
WIDTH: Final = 2
_PATIENCE_S: Final = 120.0

Attempt = Callable[[Any], Awaitable[Run]]
"""Runs once on a ground. What it raises of OpenSafeError, OSError or TimeoutError is the run's fault, and no breach."""

Ground = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens what all trials of a boundary stand on."""


class Trial(Probe, frozen=True, kw_only=True):
    """A probe as functions of its ground.

    attempts: the first as shipped; each further one says in its run which layers it opened. weak: the control, which
    must breach. alone: it disturbs others, and so runs by itself after them.
    """

    attempts: tuple[Attempt, ...]
    weak: Attempt
    alone: bool = False


async def run(
    trials: Iterable[Trial],
    ground: Ground,
    *,
    only_controls: bool = False,
    width: int = WIDTH,
    done: Callable[[Result], None] = lambda _: None,
) -> tuple[Result, ...]:
    """Every trial with its control, in the trials' order; `done` hears of each as it ends."""
    planned = list(trials)
    bound = asyncio.Semaphore(width)
    results: dict[str, Result] = {}

    async def one(trial: Trial) -> None:
        async with bound:
            control = await _run(trial.weak, on)
            runs = [] if only_controls else [await _run(attempt, on) for attempt in trial.attempts]
            results[trial.id] = judge(trial, runs, control)
            done(results[trial.id])

    async with ground() as on:
        async with asyncio.TaskGroup() as group:
            for trial in planned:
                if not trial.alone:
                    group.create_task(one(trial))
        for trial in planned:
            if trial.alone:
                await one(trial)
    return tuple(results[trial.id] for trial in planned)


async def _run(attempt: Attempt, ground: object) -> Run:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await attempt(ground)
    except (OpenSafeError, OSError, TimeoutError) as error:
        return Run(began=False, finished=False, fault=f"{type(error).__name__}: {error}")
