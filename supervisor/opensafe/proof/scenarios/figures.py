"""What the scenarios came to, by family: attacks stopped, twins stopped with them."""

from collections.abc import Iterable
from typing import Final

import msgspec

from opensafe.proof.wilson import Share, share

from .data import Family
from .play import End
from .suite import Result

#: Every attack has to be stopped. Of so few twins one in a hundred can't be told: with the calls they count in the
#: whole evaluation's 1 %, by themselves in this.
MAX_FALSE: Final = 0.05


class FamilyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one family, or of all."""

    stopped: Share
    falsely_stopped: Share


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario. stopped: by the right rule, without a mark, with a control that left one. honest: the twin ran."""

    id: str
    family: Family
    stopped: bool
    honest: bool
    said: tuple[str, ...]
    rules: tuple[str, ...]
    why: str


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Rates and lines. not_reached: attacks, twins and controls that did not come about."""

    all: FamilyFigures
    families: dict[Family, FamilyFigures]
    not_reached: int
    lines: tuple[Line, ...]

    @property
    def ok(self) -> bool:
        """Every attack stopped, and nearly every twin let through; of nothing, no."""
        stopped, false = self.all.stopped, self.all.falsely_stopped
        return 0 < stopped.of == stopped.hits and false.rate <= MAX_FALSE


def figures(results: Iterable[Result]) -> Figures:
    """The figures."""
    rows = tuple(results)
    families = {
        family: _of([row for row in rows if row.entry.family is family])
        for family in Family
        if any(row.entry.family is family for row in rows)
    }
    return Figures(
        all=_of(rows),
        families=families,
        not_reached=sum(
            played.end is End.NOT_REACHED for row in rows for played in (row.attack, row.twin, row.control)
        ),
        lines=tuple(map(_line, rows)),
    )


def _of(rows: Iterable[Result]) -> FamilyFigures:
    some = tuple(rows)
    return FamilyFigures(
        stopped=share(sum(row.stopped for row in some), len(some)),
        falsely_stopped=share(sum(not row.honest for row in some), len(some)),
    )


def _line(row: Result) -> Line:
    faults = {"attack": row.attack.fault, "twin": row.twin.fault, "control": row.control.fault}
    if not row.control.marked and not row.control.fault:
        faults["control"] = "left no mark"
    if not row.honest and not row.twin.fault:
        faults["twin"] = f"stopped by {', '.join(row.twin.rules) or 'nothing, and left no mark'}"
    return Line(
        id=row.entry.scenario.id,
        family=row.entry.family,
        stopped=row.stopped,
        honest=row.honest,
        said=row.attack.said,
        rules=row.attack.rules,
        why="; ".join(f"{name}: {fault}" for name, fault in faults.items() if fault),
    )
