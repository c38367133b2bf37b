"""The figures of a run of the suite, and whether they hold."""

from collections.abc import Sequence
from typing import Any

from .probe import Result, Verdict


def summary(planned: int, results: Sequence[Result]) -> dict[str, Any]:
    """Counts by verdict. ok: as many ran as were planned, none breached or is inconclusive, every control breached."""
    counts = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    controls = sum(result.control_breached for result in results)
    return {
        "ok": bool(
            planned
            and len(results) == planned == controls
            and not counts[Verdict.BREACHED]
            and not counts[Verdict.INCONCLUSIVE]
        ),
        "planned": planned,
        "ran": len(results),
        **{str(verdict): count for verdict, count in counts.items()},
        "controls_breached": controls,
    }


def lines(results: Sequence[Result]) -> list[str]:
    """One line for each probe, and what there is to say of it."""
    said = []
    for result in results:
        control = "control out" if result.control_breached else "CONTROL HELD"
        said.append(f"{result.id}  {result.verdict:<12}  {control:<12}  {result.title}")
        if detail := result.reason or result.layer:
            said.append(f"{'':7}{detail}")
    return said
