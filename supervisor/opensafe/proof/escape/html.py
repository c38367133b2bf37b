"""A run of the suite as one HTML page: totals, and by boundary every probe with its layers and its control."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opensafe.proof.page import Cell, Table, page

from .probe import Boundary, Result, Verdict

_TONE: Final = {
    Verdict.CONTAINED: "good",
    Verdict.BREACHED: "bad",
    Verdict.INCONCLUSIVE: "bad",
    Verdict.LIMIT: "odd",
}
_COLUMNS: Final = ("probe", "tries", "verdict", "stopped by", "control", "severity", "ATT&CK, benchmark")


def render(summary: Mapping[str, Any], environment: Mapping[str, Any], results: Sequence[Result]) -> str:
    """The document."""
    ok = bool(summary["ok"])
    figures = ", ".join(f"{value} {name}" for name, value in summary.items() if name != "ok")
    lead: list[str | Cell] = [Cell("All holds." if ok else "Not all holds.", "good" if ok else "bad"), figures]
    lead += [", ".join(f"{name} {value}" for name, value in environment.items())]
    tables = [Table(boundary.value, _COLUMNS, rows) for boundary in Boundary if (rows := _rows(boundary, results))]
    return page("Escape suite", lead, tables)


def _rows(boundary: Boundary, results: Sequence[Result]) -> list[tuple[str | Cell, ...]]:
    return [
        (
            result.id,
            result.title,
            Cell(result.verdict, _TONE[result.verdict]),
            result.reason or result.layer,
            Cell("out", "good") if result.control_breached else Cell("held", "bad"),
            result.severity.value,
            ", ".join((*result.attacks, *result.benchmark)),
        )
        for result in results
        if result.boundary is boundary
    ]
