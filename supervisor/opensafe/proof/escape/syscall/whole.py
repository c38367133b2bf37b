"""The whole sweep: every profile, and no filter as the control, in sandboxes made for it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from opensafe.proof.escape.cell import Cells
from opensafe.warden.sandbox.profiles import PROFILES
from opensafe.warden.sandbox.runsc import check_version

from . import figures, plan, table
from .plan import Answers, Attempt
from .sweep import OPEN, bring, sweep

ALL: Final = tuple(PROFILES)


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. answers: by profile, `none` among them. open_differs: of `none`, from the table."""

    version: str
    swept: tuple[figures.Swept, ...]
    answers: Mapping[str, Answers]
    open_differs: tuple[str, ...]
    summary: dict[str, Any]


async def run(
    profiles: Sequence[str] = ALL,
    *,
    attempts: Sequence[Attempt] | None = None,
    ignore_table: bool = False,
    done: Callable[[str], None] = lambda _: None,
) -> Whole:
    """Sweep each profile. attempts: all where none are named; a part of them is compared with no table.

    Needs root. Raises HostUnsuitable, SandboxStartFailed, DriverError.
    """
    started = time.monotonic()
    tried = attempts or plan.attempts()
    answers: dict[str, Answers] = {}
    async with Cells.open() as cells:
        version = await check_version(cells.layout.runsc)
        for profile in (OPEN, *profiles):
            async with cells.cell() as cell:
                await bring(cell)
                answers[profile] = await sweep(cell, profile, tried)
            done(profile)
    known = None if ignore_table or attempts else table.read(version)
    differs = {name: table.differences(known, name, of) if known else () for name, of in answers.items()}
    swept = tuple(figures.swept(name, tried, answers[name], answers[OPEN], differs=differs[name]) for name in profiles)
    summary = figures.summary(
        swept,
        version,
        time.monotonic() - started,
        table=ignore_table or known is not None,
        open_differs=len(differs[OPEN]),
    )
    return Whole(version=version, swept=swept, answers=answers, open_differs=differs[OPEN], summary=summary)
