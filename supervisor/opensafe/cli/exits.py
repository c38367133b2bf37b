"""Exit statuses. The command's own status is passed through, so ours must be numbers that commands don't use.

Taken are 0-2 (everybody), 64-78 (sysexits.h), 120 (Python), 123-125 (xargs, timeout), 126-127 (shells), 128 + signal
(129-192), 200-245 (systemd) and 255 (ssh, Perl). Free is 193-199.
"""

import enum

from opensafe.errors import (
    Denied,
    FileError,
    NotPermitted,
    OpenSafeError,
    PolicyError,
    RequestError,
    ReviewPending,
    SandboxError,
)
from opensafe.model.outcome import Outcome, OutcomeKind


class Exit(enum.IntEnum):
    """What `opensafe` ends with on its own account."""

    OK = 0
    GOAL_MISSED = 1
    REFUSES_TO_SERVE = 78
    NOT_STARTED = 126
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141
    TERMINATED = 143
    DENIED = 193
    REVIEW = 194
    LOST = 195
    LIMIT = 196
    REQUEST = 197
    UNAVAILABLE = 198
    VIOLATION = 199


MEANINGS: dict[Exit, str] = {
    Exit.GOAL_MISSED: "a goal does not hold: doctor, audit, bench, redteam, escape, fuzz, policy, cp, trace diff",
    Exit.REFUSES_TO_SERVE: "up refuses to serve: configuration or host",
    Exit.NOT_STARTED: "the program could not be started in the sandbox",
    Exit.DENIED: "policy or a reviewer said no; nothing was executed",
    Exit.REVIEW: "parked for a reviewer; nothing was executed so far",
    Exit.LOST: "the sandbox failed, not the command",
    Exit.LIMIT: "the call met its deadline or its output limit and was killed",
    Exit.REQUEST: "wrong usage, or a request that can't be served; nothing was executed",
    Exit.VIOLATION: "a program did what the rules forbid a running program, and was killed",
    Exit.UNAVAILABLE: "OpenSafe can't serve: no daemon, no record, no start",
}

_OUTCOMES = {
    OutcomeKind.NOT_STARTED: Exit.NOT_STARTED,
    OutcomeKind.DEADLINE: Exit.LIMIT,
    OutcomeKind.OUTPUT_LIMIT: Exit.LIMIT,
    OutcomeKind.CANCELLED: Exit.INTERRUPTED,
    OutcomeKind.BLOCKED: Exit.DENIED,
    OutcomeKind.REVIEW_PENDING: Exit.REVIEW,
    OutcomeKind.REVIEW_REJECTED: Exit.DENIED,
    OutcomeKind.REVIEW_EXPIRED: Exit.DENIED,
    OutcomeKind.LOST: Exit.LOST,
    OutcomeKind.VIOLATION: Exit.VIOLATION,
}


def of_outcome(outcome: Outcome) -> int:
    """The exit status of a call's end: the command's own, 128 + its signal, or one of ours."""
    if outcome.kind is OutcomeKind.EXITED:
        return Exit.UNAVAILABLE if outcome.exit_code is None else outcome.exit_code
    if outcome.kind is OutcomeKind.SIGNALLED:
        return 128 + (outcome.signal or 0)
    return _OUTCOMES[outcome.kind]


def of_error(error: OpenSafeError) -> Exit:
    """The exit status of a failure."""
    match error:
        case Denied() | NotPermitted() | PolicyError():
            return Exit.DENIED
        case RequestError():
            return Exit.REQUEST
        case ReviewPending():
            return Exit.REVIEW
        case FileError():
            return Exit.GOAL_MISSED
        case SandboxError():
            return Exit.LOST
        case _:
            return Exit.UNAVAILABLE


def table() -> str:
    """The statuses as help text; the mark keeps the help formatter from joining the lines."""
    lines = ["\b", "Exit status: the command's own (0-125) is passed through, 128 + N where signal N ended it, and"]
    lines += [f"  {int(code):>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(lines)
