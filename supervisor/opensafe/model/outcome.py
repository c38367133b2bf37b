"""How a call ended. A closed list: what is not known to have succeeded is never reported as success."""

import enum

import msgspec


class OutcomeKind(enum.StrEnum):
    """The ways a call can end."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    NOT_STARTED = "not_started"
    DEADLINE = "deadline"
    OUTPUT_LIMIT = "output_limit"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    REVIEW_PENDING = "review_pending"
    REVIEW_REJECTED = "review_rejected"
    REVIEW_EXPIRED = "review_expired"
    LOST = "lost"
    VIOLATION = "violation"


#: Outcomes after which nothing more can happen to the call.
FINAL = frozenset(OutcomeKind) - {OutcomeKind.REVIEW_PENDING}

#: Outcomes of calls of which no instruction was ever run.
NEVER_EXECUTED = frozenset(
    {
        OutcomeKind.NOT_STARTED,
        OutcomeKind.BLOCKED,
        OutcomeKind.REVIEW_PENDING,
        OutcomeKind.REVIEW_REJECTED,
        OutcomeKind.REVIEW_EXPIRED,
    }
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One call's end.

    exit_code: with EXITED only. signal: with SIGNALLED only. detail: cause in words (LOST, NOT_STARTED, VIOLATION …).
    run_ns: from the program's start to its end, 0 if it never started. Byte counts are what the guest wrote;
    `truncated` says that not all of it was delivered.
    """

    kind: OutcomeKind
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""
    run_ns: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    truncated: bool = False
