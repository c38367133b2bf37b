"""From a call's outcome to a result or to the exception that says whose failure it is.

Policy's no is Denied, the command's own failure CommandFailed, the platform's SandboxError.
"""

import re
from collections.abc import Callable
from typing import Final

from opensafe.errors import Denied, OpenSafeError, ReviewPending
from opensafe.model.decision import Action, RuleHit, Severity
from opensafe.model.outcome import OutcomeKind

from ._command_errors import (
    CallLost,
    CommandCancelled,
    CommandFailed,
    CommandNotStarted,
    CommandTimedOut,
    OutputLimitExceeded,
)
from ._result import CommandResult
from ._types import Verdict

#: Of the last line of standard error, in the message of a status that is not 0.
_LINE_MAX: Final = 200
#: As the daemon writes the rule that a running program broke.
_VIOLATION: Final = re.compile(r"([\w.]+): (.*) \(value: (.*)\)\. ?(.*)", re.DOTALL)
_WORDS: Final = {
    OutcomeKind.BLOCKED: "blocked by policy",
    OutcomeKind.REVIEW_REJECTED: "a reviewer rejected the call",
    OutcomeKind.REVIEW_EXPIRED: "nobody decided on the review in time",
    OutcomeKind.VIOLATION: "killed: the program did what policy forbids",
}
_ENDS: Final[dict[OutcomeKind, Callable[[CommandResult], OpenSafeError]]] = {
    OutcomeKind.NOT_STARTED: lambda result: CommandNotStarted(_told("the command was not started", result), result),
    OutcomeKind.DEADLINE: lambda result: CommandTimedOut(
        _told("the command ran too long and was killed", result), result, remedy="Allow it more time, or do less."
    ),
    OutcomeKind.OUTPUT_LIMIT: lambda result: OutputLimitExceeded(
        _told("the command wrote too much and was killed", result), result, remedy="Write into a file."
    ),
    OutcomeKind.CANCELLED: lambda result: CommandCancelled(_told("the command was cancelled", result), result),
    OutcomeKind.LOST: lambda result: CallLost(
        _told("nobody saw the call's end", result), result, remedy="Look at what it did before repeating it."
    ),
}


def settle(result: CommandResult, *, check: bool = False) -> CommandResult:
    """The result of a command that ended by itself. Raises what else there is, and with `check` for a status not 0."""
    outcome = result.outcome
    match outcome.kind:
        case OutcomeKind.EXITED | OutcomeKind.SIGNALLED:
            if check and result.exit_code != 0:
                raise _unsuccessful(result)
            return result
        case OutcomeKind.REVIEW_PENDING:
            raise pending(result.verdict, result.call_id)
        case kind if kind in _WORDS:
            raise _denied(result)
        case kind:
            raise _ENDS[kind](result)


def pending(verdict: Verdict, call_id: str) -> ReviewPending:
    """What is raised, and told, for a call that is parked."""
    hits = verdict.deciding()
    why = "; ".join(f"{hit.id}: {hit.reason}" for hit in hits[:3])
    error = ReviewPending(
        f"parked for a reviewer: {why}",
        value=verdict.review_id,
        remedy="Once it is approved, resume the call by its call_id.",
    )
    error.rules, error.call_id = hits, call_id
    return error


def _denied(result: CommandResult) -> Denied:
    outcome = result.outcome
    if outcome.kind is OutcomeKind.VIOLATION:  # the rules of the verdict are those that had allowed it
        hits, told = _violated(outcome.detail), ""
    else:
        hits, told = result.verdict.deciding(), outcome.detail
    reasons = [f"{hit.id}: {hit.reason}" for hit in hits[:3]]
    error = Denied(
        ": ".join(part for part in (_WORDS[outcome.kind], told, "; ".join(reasons)) if part),
        value=hits[0].value if hits else "",
        remedy=hits[0].remedy if hits else "",
        rules=hits,
        outcome=outcome.kind.value,
    )
    error.call_id = result.call_id
    return error


def _violated(detail: str) -> tuple[RuleHit, ...]:
    """The rule that a violation's detail tells in words."""
    told = _VIOLATION.fullmatch(detail)
    rule, reason, value, remedy = told.groups() if told else ("", detail, "", "")
    return (RuleHit(id=rule, severity=Severity.HIGH, action=Action.BLOCK, reason=reason, value=value, remedy=remedy),)


def _unsuccessful(result: CommandResult) -> CommandFailed:
    how = f"exited with {result.exit_code}"
    if result.exit_code is not None and result.exit_code < 0:
        how = f"was ended by signal {-result.exit_code}"
    last = result.stderr.strip().rpartition("\n")[2][:_LINE_MAX]
    return CommandFailed(f"the command {how}{f': {last}' if last else ''}", result)


def _told(what: str, result: CommandResult) -> str:
    return f"{what}: {result.outcome.detail}" if result.outcome.detail else what
