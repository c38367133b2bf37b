"""Rows of the index as frozen types."""

import sqlite3
from typing import Any, Self

import msgspec

from opensafe.model.decision import Decision, RuleHit
from opensafe.model.limits import SandboxLimits
from opensafe.model.outcome import Outcome
from opensafe.model.sandbox import Asked
from opensafe.model.usage import Limits, Usage

from .recent import Recent


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `counts`: verdict or rule id -> number of decisions."""

    session_id: str
    principal: str
    agent: str
    conversation_id: str
    trace_id: str
    created_us: int
    closed: bool
    counts: dict[str, int]
    recent_tools: tuple[str, ...]
    usage: Usage
    limits: Limits
    recent: Recent
    taints: tuple[str, ...]

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `sessions`."""
        parsed = ("counts", "recent_tools", "usage", "limits", "recent", "taints")
        return msgspec.convert({**_fields(row, parsed), "closed": bool(row["closed"])}, cls)


class SandboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """One sandbox; see SandboxRecord. number orders them by age. changed_us: of the state, cause or lease.

    active_us: when it was made or resumed, or a call in it began or ended. limits: None of a record without.
    """

    sandbox_id: str
    number: int
    session_id: str
    principal: str
    template: str
    image_digest: str
    network: str
    limits: SandboxLimits | None
    labels: dict[str, str]
    created_us: int
    state: str
    cause: str
    changed_us: int
    expires_us: int
    idle_timeout_s: int
    idle_action: str
    active_us: int
    taints: tuple[str, ...]

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `sandboxes`."""
        return msgspec.convert(_fields(row, ("limits", "labels", "taints")), cls)


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """One call with its latest decision; `outcome` is None while it runs or is parked.

    allowed_us: when it was allowed, 0 if it was not. effects: what running it does (model/history.py). purpose: call or
    permit. decided_us: when it was last judged. asked: what the client asked of its run, with the tag.
    """

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
    allowed_us: int
    effects: tuple[str, ...]
    outcome: Outcome | None
    purpose: str
    tool: str
    decided_us: int
    tag: str
    asked: Asked

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `calls`."""
        return msgspec.convert(_fields(row, ("decision", "effects", "outcome", "asked")), cls)


class ReviewRow(msgspec.Struct, frozen=True, kw_only=True):
    """One parked call; `sealed` are its arguments as policy saw them.

    state: pending, approved, rejected, expired or void. seconded: who gave a first approval of two, "" if nobody.
    changes: how many calls that may have written to its workspace ended since it was parked. stdin: 1 where the client
    streams standard input, else 0. purpose: call or permit. described, pinned: the digests of the tool's description as
    the client was shown it and as it was approved. waits: 1 until it is decided on, of a permit until that is fetched.
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
    seconded: str
    changes: int
    stdin: int
    purpose: str
    described: str
    pinned: str
    waits: int

    @property
    def elsewhere(self) -> bool:
        """Whether what was parked is a permit."""
        return self.purpose == "permit"

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `reviews`."""
        return msgspec.convert(_fields(row, ("sealed", "rules")), cls)


class BanRow(msgspec.Struct, frozen=True, kw_only=True):
    """One ban in force; `agent` is "" where the whole principal is banned."""

    principal: str
    agent: str
    banned_us: int
    decided_by: str
    reason: str

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `bans`."""
        return msgspec.convert(_fields(row), cls)


class BundleRow(msgspec.Struct, frozen=True, kw_only=True):
    """The last bundle of a state, `activated`, `refused` or `removed`; see BundleRecord. signer: the key's id."""

    state: str
    digest: str
    number: int
    revision: str
    signer: str
    reason: str
    time_us: int

    @classmethod
    def of(cls, row: sqlite3.Row) -> Self:
        """From a row of `bundles`."""
        return msgspec.convert(_fields(row), cls)


def _fields(row: sqlite3.Row, parsed: tuple[str, ...] = ()) -> dict[str, Any]:
    """The row's columns, those of `parsed` read as JSON."""
    fields = {key: row[key] for key in row.keys()}  # noqa: SIM118 - iterating a Row yields values, not keys
    return fields | {key: msgspec.json.decode(fields[key]) for key in parsed if fields[key] is not None}
