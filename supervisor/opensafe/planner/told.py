"""What a model is told of its calls. A denial carries rule, value and remedy, and a failed command, a failed sandbox
and a no are told apart: each asks for another next step.
"""

from collections.abc import Sequence
from typing import Final

from opensafe.client import Verdict
from opensafe.errors import OpenSafeError
from opensafe.model.decision import RuleHit
from opensafe.model.outcome import Outcome, OutcomeKind

from .calls import Finished
from .state import Result

_DENIED: Final = {
    OutcomeKind.BLOCKED: "Denied by policy. Nothing was executed, and no reviewer can allow it as it is.",
    OutcomeKind.REVIEW_REJECTED: "Rejected by a reviewer. Nothing was executed.",
    OutcomeKind.REVIEW_EXPIRED: "No reviewer decided in time. Nothing was executed.",
}
_RAN: Final = {
    OutcomeKind.DEADLINE: "It was killed: its deadline passed.",
    OutcomeKind.OUTPUT_LIMIT: "It was killed: it wrote more than it may.",
    OutcomeKind.CANCELLED: "It was cancelled.",
    OutcomeKind.VIOLATION: "It was killed: it did what the rules forbid a running program.",
    OutcomeKind.LOST: "The sandbox or the daemon failed, not the command. It may have run in part; it is not repeated.",
    OutcomeKind.NOT_STARTED: "It could not be started, and did not run.",
}


def of_outcome(finished: Finished) -> Result:
    """A call that has its outcome."""
    outcome, verdict = finished.outcome, finished.verdict
    if outcome.kind in _DENIED:
        hits = _hits(verdict)
        lines = [_DENIED[outcome.kind], *([outcome.detail] if outcome.detail else []), *_rule_lines(hits)]
        return Result(status="denied", text="\n".join(lines), rules=[hit.id for hit in hits])
    lines = [_end(outcome)]
    for name, text in (("stdout", finished.stdout), ("stderr", finished.stderr)):
        if text:
            lines.append(f"--- {name} ---\n{text}")
    if finished.missed:
        lines.append(f"{finished.missed} bytes of output are no longer retained. It was not run again to get them.")
    succeeded = outcome.kind is OutcomeKind.EXITED and outcome.exit_code == 0
    return Result(status="ran" if succeeded else "failed", text="\n".join(lines), rules=[])


def of_error(error: OpenSafeError) -> Result:
    """A call that could not be judged."""
    return Result(status="refused", text=f"The call was not taken, and nothing was executed. {error}", rules=[])


def of_malformed(reason: str) -> Result:
    """A call that was not sent."""
    return Result(status="refused", text=f"The call was not sent, and nothing was executed. {reason}", rules=[])


def in_short(outcome: Outcome) -> str:
    """An outcome in a few words."""
    match outcome.kind:
        case OutcomeKind.EXITED:
            return f"exited with {outcome.exit_code}"
        case OutcomeKind.SIGNALLED:
            return f"ended by signal {outcome.signal}"
        case kind:
            words = kind.value.replace("_", " ")
            return f"{words}: {outcome.detail}" if outcome.detail else words


def deciding(verdict: Verdict | None) -> str:
    """Ids of the rules behind a verdict."""
    return ", ".join(dict.fromkeys(hit.id for hit in _hits(verdict)))


def _end(outcome: Outcome) -> str:
    if outcome.kind in _RAN:
        return " ".join(part for part in (_RAN[outcome.kind], outcome.detail) if part)
    return f"It {in_short(outcome)}."


def _hits(verdict: Verdict | None) -> tuple[RuleHit, ...]:
    return (verdict.deciding() or verdict.rules) if verdict is not None else ()


def _rule_lines(hits: Sequence[RuleHit]) -> list[str]:
    lines = []
    for hit in hits:
        lines.append(f"{hit.id}: {hit.reason}")
        if hit.value and hit.value not in hit.reason:
            lines.append(f"  value: {hit.value}")
        if hit.remedy:
            lines.append(f"  remedy: {hit.remedy}")
    return lines
