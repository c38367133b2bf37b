"""The suite itself, with every weakness on and without a probe, must not be green: CP-25."""

import asyncio
import json
import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from opensafe.proof.escape import host
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.mutants import PACKAGE, Mutant

from .ground import Yard
from .mutants import SUITE
from .row import row

_RUN: Final = ("-m", "opensafe.cli", "escape", "run", "--boundary", "control", "--json")
#: A row whose ground is one daemon: what holds for it holds for all, which `judged` asks.
_FEW: Final = ("--probe", "CP-16")
_JUDGED: Final = ("-m", "opensafe.proof.escape.control.judged")
_PATIENCE_S: Final = 100.0
#: Where programs and images are looked for: by this package, wherever the copy lies.
_PLACE: Final = Mutant(
    id="place",
    file="proof/private.py",
    old="pathlib.Path(opensafe.__file__).resolve().parents[2]",
    new=f"pathlib.Path({str(PACKAGE.parents[1])!r})",
)


class _Told(msgspec.Struct, frozen=True):
    """What a run of the suite reported of itself."""

    what: str
    status: int
    summary: dict[str, Any]

    def __str__(self) -> str:
        counted = ", ".join(f"{self.summary[name]} {name}" for name in ("planned", "breached"))
        return f"{self.what}: exit status {self.status}, {counted}"


async def _told(source: pathlib.Path, what: str, *words: str) -> _Told:
    """Of the package in `source`. Raises OSError where there is no report: a child that fails proves nothing."""
    async with asyncio.timeout(_PATIENCE_S):
        ended = await host.python(*_RUN, *words, source=source)
    try:
        return _Told(what, ended.status, json.loads(ended.stdout)["summary"])
    except ValueError as error:
        why = ended.stderr[-300:].decode(errors="replace")
        raise OSError(f"{what}: exit status {ended.status}, and no report: {why}") from error


async def _attack(yard: Yard, mutants: Sequence[Mutant] = ()) -> Run:
    """With the given faults of the judging itself, if any."""
    weak = await yard.source((_PLACE, *SUITE["weak"], *mutants))
    empty = await yard.source((_PLACE, *SUITE["empty"], *mutants))
    judged = await yard.source(mutants)
    one, two = await _told(weak, "every weakness on", *_FEW), await _told(empty, "no probe")
    asked = await host.python(*_JUDGED, source=judged)
    green = asked.require("the judging").decode(errors="replace").splitlines()
    found = [str(run) for run in (one, two) if run.status == 0 or run.summary["ok"]] + green[:2]
    seen = bool(mutants) or one.summary["planned"] == one.summary["breached"] == 1
    return Run(
        began=True,
        finished=seen,
        found="; ".join(found),
        layer=f"the rules of the report: {one}; {two}; {len(green)} runs that prove nothing are green",
    )


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-25",
        title="the suite itself: every weakness on, no probe at all, and runs that prove nothing, of every probe",
        severity=Severity.INTEGRITY,
        attacks=("T1562.001",),
        breach="exit status 0, or a report that says ok",
        control="mutants: evidence of a breach counts for nothing, and nothing planned is enough",
        attempts=(_attack,),
        weak=partial(_attack, mutants=SUITE["inverted"]),
    ),
)
