"""The index's memory of what was used up, observed and forbidden: usage, windows, taints, bans.

The tables are the Store's, which alone calls the `fold_*` methods, inside its transaction. Questions are lookups by
key: nothing here scans calls that have ended.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from opensafe.model.connection import of_host
from opensafe.model.decision import Action
from opensafe.model.history import WORKSPACE_CHANGED, WRITES_WORKSPACE, taints_after
from opensafe.model.outcome import NEVER_EXECUTED, Outcome
from opensafe.model.records import BanRecord, ConnectionRecord, DecisionRecord, RefusalRecord
from opensafe.model.usage import FIELDS, HostUse, Usage

from .recent import Recent
from .rows import BanRow

_HOUR_US: Final = 3600 * 10**6
#: A rolling day: the hour under way and the 24 before it, so it lasts at least 24 hours.
_DAY: Final = 24
_RECENT_TOOLS: Final = 8
_SUMS: Final = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in FIELDS)
_ADDED: Final = ", ".join(f"{name} = {name} + excluded.{name}" for name in FIELDS)
# The planner would rather read all calls of a session by its primary key.
_OPEN: Final = "SELECT call_id, session_id, effects, allowed_us FROM calls INDEXED BY {} WHERE outcome IS NULL"
_UNDER_WAY: Final = (
    f"{_OPEN.format('calls_open')} AND allowed_us > 0 AND session_id = ? UNION"
    f" {_OPEN.format('calls_open_in')} AND allowed_us > 0 AND sandbox_id = ? AND sandbox_id <> '' ORDER BY allowed_us"
)


class Open(msgspec.Struct, frozen=True):
    """Of calls under way in a session or its sandbox: effects, oldest first, and the session's run time so far."""

    effects: tuple[tuple[str, ...], ...]
    wall_us: int


class History:
    """Shares the Store's connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._hour = 0  # whose first use has removed what is older than a day
        self._bans = {(row.principal, row.agent): row for row in map(BanRow.of, db.execute("SELECT * FROM bans"))}

    # ── questions ────────────────────────────────────────────────────────────────────────────────────────────────

    def principal_usage(self, principal: str, now_us: int) -> Usage:
        """What all sessions of `principal` used up within the last day."""
        row = self._db.execute(
            f"SELECT {_SUMS} FROM principal_usage WHERE principal = ? AND hour >= ?",  # noqa: S608 - names of fields
            (principal, now_us // _HOUR_US - _DAY),
        ).fetchone()
        return Usage(**{name: row[name] for name in FIELDS})

    def host_usage(self, session_id: str, names: Iterable[str]) -> dict[str, HostUse]:
        """What the open session used of the network with each of these hosts."""
        found = {}
        for name in names:
            row = self._db.execute(
                "SELECT requests, egress_bytes, ingress_bytes FROM session_hosts WHERE session_id = ? AND name = ?",
                (session_id, name),
            ).fetchone()
            found[name] = HostUse(**dict(row)) if row is not None else HostUse()
        return found

    def under_way(self, session_id: str, sandbox_id: str, now_us: int) -> Open:
        """Of the calls under way in the session or in the sandbox ("": none)."""
        rows = self._db.execute(_UNDER_WAY, (session_id, sandbox_id)).fetchall()
        return Open(
            effects=tuple(msgspec.json.decode(row["effects"], type=tuple[str, ...]) for row in rows),
            wall_us=sum(max(0, now_us - row["allowed_us"]) for row in rows if row["session_id"] == session_id),
        )

    def wall_us(self, principal: str, now_us: int) -> int:
        """Run time so far of the principal's calls under way."""
        row = self._db.execute(
            "SELECT coalesce(sum(max(0, ? - allowed_us)), 0) AS total FROM calls JOIN sessions USING (session_id)"
            " WHERE outcome IS NULL AND allowed_us > 0 AND principal = ?",
            (now_us, principal),
        ).fetchone()
        return int(row["total"])

    def changes_under_way(self, sandbox_id: str) -> int:
        """How many calls under way in the sandbox may write to its workspace."""
        return sum(WRITES_WORKSPACE in effects for effects in self.under_way("", sandbox_id, 0).effects)

    def banned(self, principal: str, agent: str) -> bool:
        """Whether the principal, or this agent name of it, is banned."""
        return (principal, "") in self._bans or (principal, agent) in self._bans

    def bans(self) -> list[BanRow]:
        """Bans in force, oldest first."""
        return sorted(self._bans.values(), key=lambda row: (row.banned_us, row.principal, row.agent))

    # ── folding ──────────────────────────────────────────────────────────────────────────────────────────────────

    def fold_decision(self, record: DecisionRecord) -> None:
        """Any verdict counts under its action and rules; a call counts as used, too."""
        session = self._session(record.session_id)
        if session is None:
            return
        action = record.result.action
        self._count(session, str(action), *(hit.id for hit in record.result.deciding()))
        if record.counted:
            session.recent_tools = [*session.recent_tools, record.input.call.tool][-_RECENT_TOOLS:]
            session.recent = session.recent.with_call(record.time_us)
            if action is Action.BLOCK:
                session.recent = session.recent.with_block(record.time_us)
            self._use(session, Usage(calls=1), record.time_us)
        self._save(record.session_id, session)

    def fold_refusal(self, record: RefusalRecord) -> None:
        """A request was refused. Its session id is only a claim."""
        session = self._session(record.session_id)
        if session is not None and session.principal == record.principal:
            self._count(session, "refused")
            self._save(record.session_id, session)

    def fold_usage(self, session_id: str, usage: Usage, time_us: int) -> None:
        """Add to the session's and its principal's account."""
        session = self._session(session_id)
        if session is not None:
            self._use(session, usage, time_us)
            self._save(session_id, session)

    def fold_connection(self, record: ConnectionRecord) -> None:
        """What it used, of the session's and principal's budget, and of what the session may use with this host."""
        used = record.usage
        if used is None:
            return
        self.fold_usage(record.session_id, used, record.time_us)
        host = self.host_usage(record.session_id, (record.name,))[record.name].plus(of_host(used))
        self._db.execute(
            "INSERT OR REPLACE INTO session_hosts SELECT session_id, ?, ?, ?, ? FROM sessions"
            " WHERE session_id = ? AND closed = 0",
            (record.name, *msgspec.structs.astuple(host), record.session_id),
        )

    def fold_closed(self, session_id: str) -> None:
        """A session was closed."""
        self._db.execute("DELETE FROM session_hosts WHERE session_id = ?", (session_id,))

    def fold_end(self, session_id: str, sandbox_id: str, effects_json: str, outcome: Outcome) -> None:
        """A call that was allowed ended: if it may have run, its effects stand from now on."""
        if outcome.kind in NEVER_EXECUTED:
            return
        effects = msgspec.json.decode(effects_json, type=tuple[str, ...])
        self._taint(session_id, sandbox_id, effects)
        if WRITES_WORKSPACE in effects:
            self._db.execute(
                "UPDATE reviews SET changes = changes + 1"
                " WHERE state = 'pending' AND sandbox_id = ? AND sandbox_id <> ''",
                (sandbox_id,),
            )

    def fold_changed(self, session_id: str, sandbox_id: str) -> None:
        """A call was approved whose workspace had changed since it was parked."""
        self._taint(session_id, sandbox_id, (), WORKSPACE_CHANGED)

    def fold_ban(self, record: BanRecord) -> None:
        """A ban, or its end."""
        key = record.principal, record.agent
        self._db.execute("DELETE FROM bans WHERE principal = ? AND agent = ?", key)
        self._bans.pop(key, None)
        if record.state != "banned":
            return
        row = BanRow(
            principal=record.principal,
            agent=record.agent,
            banned_us=record.time_us,
            decided_by=record.decided_by,
            reason=record.reason,
        )
        self._db.execute("INSERT INTO bans VALUES (?, ?, ?, ?, ?)", msgspec.structs.astuple(row))
        self._bans[key] = row

    def _session(self, session_id: str) -> "_Session | None":
        row = self._db.execute(
            "SELECT principal, counts, recent_tools, usage, recent FROM sessions WHERE session_id = ?", (session_id,)
        ).fetchone()
        if row is None:
            return None
        columns = {name: msgspec.json.decode(row[name]) for name in ("counts", "recent_tools", "usage", "recent")}
        return msgspec.convert({**columns, "principal": row["principal"]}, _Session)

    def _save(self, session_id: str, session: "_Session") -> None:
        self._db.execute(
            "UPDATE sessions SET counts = ?, recent_tools = ?, usage = ?, recent = ? WHERE session_id = ?",
            (
                *(_json(value) for value in (session.counts, session.recent_tools, session.usage, session.recent)),
                session_id,
            ),
        )

    @staticmethod
    def _count(session: "_Session", *keys: str) -> None:
        for key in keys:
            session.counts[key] = session.counts.get(key, 0) + 1

    def _use(self, session: "_Session", usage: Usage, time_us: int) -> None:
        session.usage = session.usage.plus(usage)
        hour, marks = time_us // _HOUR_US, ", ".join("?" for _ in FIELDS)
        self._db.execute(
            f"INSERT INTO principal_usage VALUES (?, ?, {marks}) ON CONFLICT DO UPDATE SET {_ADDED}",  # noqa: S608 - names of fields
            (session.principal, hour, *msgspec.structs.astuple(usage)),
        )
        if hour != self._hour:
            self._db.execute("DELETE FROM principal_usage WHERE hour < ?", (hour - _DAY,))
            self._hour = hour

    def _taint(self, session_id: str, sandbox_id: str, effects: Iterable[str], *more: str) -> None:
        """What the session and the sandbox know, each knows from now on: a call carries taints both ways."""
        rows = self._db.execute(
            "SELECT taints FROM sessions WHERE session_id = ? UNION ALL"
            " SELECT taints FROM sandboxes WHERE sandbox_id = ?",
            (session_id, sandbox_id),
        )
        known = [row["taints"] for row in rows]
        standing = dict.fromkeys(taint for one in known for taint in msgspec.json.decode(one, type=tuple[str, ...]))
        taints = _json(tuple(dict.fromkeys((*taints_after(standing, effects), *more))))
        if any(one != taints for one in known):
            self._db.execute("UPDATE sessions SET taints = ? WHERE session_id = ?", (taints, session_id))
            self._db.execute("UPDATE sandboxes SET taints = ? WHERE sandbox_id = ?", (taints, sandbox_id))


class _Session(msgspec.Struct, kw_only=True):
    principal: str
    counts: dict[str, int]
    recent_tools: list[str]
    usage: Usage
    recent: Recent


def _json(value: Any) -> str:  # noqa: ANN401 - anything msgspec encodes
    return msgspec.json.encode(value).decode()
