"""A campaign's report as one HTML page: figures, oracles, what was planted, findings, and what the runs reached."""

from collections.abc import Iterable, Mapping
from typing import Any

from opensafe.proof.page import Cell, Table
from opensafe.proof.page import page as document

from . import figures
from .campaign import Result

_REACHED = (
    ("Rules of the policy that were reached", "policy_rules"),
    ("Tools, and what became of their calls", "tools"),
    ("Answers of system calls", "answers"),
    ("System calls", "system_calls"),
)


def page(result: Result) -> str:
    """The whole document, UTF-8."""
    told, more = figures.summary(result), figures.details(result)
    lead = (
        f"{told['completed']} of {told['runs']} runs, {told['escapes']} escapes: at most "
        f"{told['escape_rate_upper_95']:.4%} with one-sided confidence of 95 %, for runs drawn like these."
    )
    oracles = ((n, of["title"], of["raised"], of["raised_by_planted"]) for n, of in more["oracles"].items())
    planted = (
        (check.name, ", ".join(one.name for one in check.wanted), "raised" if check.raised else "NOT RAISED")
        for check in result.checks
    )
    found = ((one.oracle.name, one.batch, "" if one.run is None else one.run, one.what) for one in more["findings"])
    return document(
        "Escape campaign",
        [Cell(lead, "good" if told["ok"] else "bad")],
        (
            _table("Figures", ("Figure", ""), told.items()),
            _table("Oracles", ("", "What must not be seen", "Raised", "Raised by what was planted"), oracles),
            _table("Planted breaches", ("Planted", "Oracles", ""), planted),
            _table("Findings", ("Oracle", "Batch", "Run", "What"), found),
            *(_table(heading, ("", "Calls"), _sorted(more[key])) for heading, key in _REACHED),
        ),
    )


def _sorted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def _table(heading: str, columns: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> Table:
    return Table(heading, columns, [[_cell(value) for value in row] for row in rows])


def _cell(value: Any) -> Cell:  # noqa: ANN401 - whatever has a text
    return Cell(str(value), "number" if isinstance(value, int | float) else "")
