"""What the rows have in common that try a daemon: functions, each run against daemons of several kinds."""

from collections.abc import Awaitable, Callable
from typing import TypedDict

import msgspec

from opensafe.proof.escape.probe import Run
from opensafe.proof.escape.trial import Attempt

from .daemons import Kind
from .ground import Ground

Try = Callable[[Ground, Kind], Awaitable[Run]]
"""Tries it against the daemon of a kind."""


class Attempts(TypedDict):
    """As a trial takes them."""

    attempts: tuple[Attempt, ...]
    weak: Attempt


def against(*tries: Try, behind: str = "", weak: Kind = Kind.WEAK) -> Attempts:
    """The shipped daemon, and the control, in which every one of them must get through.

    behind: the check of the front's behind which the warden has its own; the last try is made with that one alone, too.
    """
    shipped = tuple(_against(tried, Kind.SHIPPED) for tried in tries)
    peeled = (_against(tries[-1], Kind.FRONT_OPEN, behind),) if behind else ()
    return {"attempts": (*shipped, *peeled), "weak": _control(tries, weak)}


def _against(tried: Try, kind: Kind, *opened: str) -> Attempt:
    async def attempt(ground: Ground) -> Run:
        run = await tried(ground, kind)
        return msgspec.structs.replace(run, opened=opened, layer="" if run.found else run.layer)

    return attempt


def _control(tries: tuple[Try, ...], kind: Kind) -> Attempt:
    async def control(ground: Ground) -> Run:
        runs = [await tried(ground, kind) for tried in tries]
        held = [run.layer for run in runs if not run.found]
        return Run(
            began=all(run.began for run in runs),
            finished=all(run.finished for run in runs),
            found="" if held else "; ".join(run.found for run in runs),
            hints=tuple(hint for run in runs for hint in run.hints),
            fault="; ".join(held),
        )

    return control
