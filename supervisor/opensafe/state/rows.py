"""Rows of the index as frozen types."""

import sqlite3
from typing import Any, Self

import msgspec

from opensafe.model.decision import Decision, RuleHit
from opensafe.model.outcome import Outcome


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `counts`: verdict or rule id -> number of decisions."""

    session_id: str
    principal: str
    agent: str
    conversation_id: str
    trace_id: str
    created_us: int
    closed: bool
    calls: int
    counts: dict[str, int]
    recent_tools: tuple[str, ...]

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `sessions`."""
        return msgspec.convert(
            {
                **_fields(row),
                "closed": bool(row["closed"]),
                "counts": msgspec.json.decode(row["counts"]),
                "recent_tools": msgspec.json.decode(row["recent_tools"]),
            },
            cls,
        )


class SandboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """One sandbox; `ended` is its cause of end, None while it runs."""

    sandbox_id: str
    session_id: str
    principal: str
    template: str
    created_us: int
    ended: str | None

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `sandboxes`."""
        return msgspec.convert(_fields(row), cls)


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """One call with its latest decision; `outcome` is None while it runs or is parked."""

    session_id: str
    call_id: str
    digest: str
    sandbox_id: str
    decision_id: str
    decision: Decision
    revision: str
    review_id: str
    permit: str
    expires_us: int
    outcome: Outcome | None

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `calls`."""
        outcome = row["outcome"]
        return msgspec.convert(
            {
                **_fields(row),
                "decision": msgspec.json.decode(row["decision"]),
                "outcome": None if outcome is None else msgspec.json.decode(outcome),
            },
            cls,
        )


class ReviewRow(msgspec.Struct, frozen=True, kw_only=True):
    """One parked call; `sealed` are its arguments as policy saw them.

    state: pending, approved, rejected, expired or void.
    """

    review_id: str
    session_id: str
    call_id: str
    sandbox_id: str
    principal: str
    tool: str
    sealed: dict[str, Any]
    digest: str
    revision: str
    rules: tuple[RuleHit, ...]
    created_us: int
    expires_us: int
    state: str
    decided_by: str
    reason: str

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `reviews`."""
        return msgspec.convert(
            {
                **_fields(row),
                "sealed": msgspec.json.decode(row["sealed"]),
                "rules": msgspec.json.decode(row["rules"]),
            },
            cls,
        )


def _fields(row: sqlite3.Row) -> dict[str, Any]:
    return {key: row[key] for key in row.keys()}  # noqa: SIM118 - iterating a Row yields values, not keys
