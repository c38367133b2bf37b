"""SQLite index of sessions, sandboxes, calls, permits, reviews and history.

The audit log is the durable truth; this is a fold of it. `fold` is the only writer of the folded tables, used
alike while running (when the record is written) and at start (for records the index has not seen). So records are
committed in groups: a killed daemon's last group is folded again, from the log. A lost or deleted index is rebuilt.
"""

import contextlib
import importlib.resources
import pathlib
import sqlite3
from typing import Any, Final

import msgspec

from opensafe.errors import AuditError, StaleIndex
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.records import (
    BanRecord,
    BundleRecord,
    CandidateRecord,
    ConnectionRecord,
    DaemonRecord,
    DecisionRecord,
    OutcomeRecord,
    Record,
    RefusalRecord,
    ReviewRecord,
    SandboxRecord,
    SessionRecord,
    ShadowRecord,
    TornRecord,
    UsageRecord,
)

from .history import History
from .rows import BundleRow, CallRow, ReviewRow, SandboxRow, SessionRow
from .sandboxes import SandboxIndex
from .written import WrittenIndex

#: Which calls are in a state, in SQL.
_STATES: Final = {
    "": "TRUE",
    "parked": "outcome IS NULL AND allowed_us = 0",
    "running": "outcome IS NULL AND allowed_us > 0",
    "ended": "outcome IS NOT NULL",
}
#: Records of one transaction. Each commit writes every page that was touched since the last.
_GROUP: Final = 64
_VERSION: Final = 9


class Store:
    """One connection, used by the event loop's thread only."""

    def __init__(self, path: pathlib.Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        # Nobody else has the file, so it is locked once and not, with some twenty system calls, for each transaction.
        self._db.executescript(
            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
        )
        self._migrate(path)
        self._folded, self._leaf = self._committed = self._read_tip()
        self._session: SessionRow | None = None
        self.history = History(self._db)
        self.sandboxes = SandboxIndex(self._db)
        self.written = WrittenIndex(self._db)

    def close(self) -> None:
        """Commit what was folded, and close the file."""
        with contextlib.suppress(sqlite3.Error):  # then the next life folds the group again
            self.commit()
        self._db.close()

    @property
    def folded(self) -> int:
        """How many records of the log are in here: the index of the next one to fold."""
        return self._folded

    @property
    def tip(self) -> tuple[int, str]:
        """How many records are folded, and the leaf hash of the last: tells whether this is an index of that log."""
        return self._folded, self._leaf

    def fold(self, index: int, record: Record, leaf: str = "") -> None:
        """Apply the record at `index` of the log. One already applied is passed over; a gap is an AuditError."""
        if index < self._folded:
            return
        if index > self._folded:
            raise AuditError("records are missing between log and index", value=index, limit=self._folded)
        self._session = None
        self.sandboxes.forget()
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")
        try:
            self._apply(index, record)
        except BaseException:
            self._db.rollback()
            self._folded, self._leaf = self._committed
            raise
        self._folded, self._leaf = index + 1, leaf
        if self._folded - self._committed[0] >= _GROUP:
            self.commit()

    def commit(self) -> None:
        """Let the next life find all that was folded so far, and not fold it again."""
        if self._committed != self.tip:
            self._db.execute("INSERT OR REPLACE INTO tip VALUES (1, ?, ?)", self.tip)
            self._committed = self.tip
        self._db.commit()

    def session(self, session_id: str) -> SessionRow | None:
        """The session, open or closed."""
        if self._session is None or self._session.session_id != session_id:  # one call asks for the same several times
            row = self._db.execute("SELECT * FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
            self._session = SessionRow.of(row) if row else None
        return self._session

    def open_sessions(self, principal: str) -> int:
        """How many sessions of `principal` are open."""
        return self._number("SELECT count(*) FROM sessions WHERE principal = ? AND NOT closed", principal)

    def sandbox(self, sandbox_id: str) -> SandboxRow | None:
        """The sandbox, running or ended."""
        return self.sandboxes.get(sandbox_id)

    def call(self, session_id: str, call_id: str) -> CallRow | None:
        """The call's latest decision and its outcome."""
        row = self._db.execute(
            "SELECT * FROM calls WHERE session_id = ? AND call_id = ?", (session_id, call_id)
        ).fetchone()
        return CallRow.of(row) if row else None

    def calls(
        self, session_id: str, *, state: str = "", tag: str = "", before: tuple[int, str] | None = None, most: int
    ) -> list[CallRow]:
        """Calls of a session (no permits), the latest first; at most `most`, from after `before` on.

        state: `parked`, `running`, `ended` or "" for any. before: decided_us and call_id of the last one seen.
        """
        matches = ["session_id = ?", "purpose = 'call'", _STATES[state]]
        values: list[object] = [session_id]
        if tag:
            matches.append("tag = ? AND tag <> ''")
            values.append(tag)
        if before is not None:
            matches.append("(decided_us, call_id) < (?, ?)")
            values.extend(before)
        where = " AND ".join(matches)
        rows = self._db.execute(
            f"SELECT * FROM calls WHERE {where} ORDER BY decided_us DESC, call_id DESC LIMIT ?",  # noqa: S608 - from above
            (*values, most),
        )
        return [CallRow.of(row) for row in rows]

    def permit(self, permit: str) -> CallRow | None:
        """The call that `permit` was given for."""
        row = self._db.execute("SELECT * FROM calls WHERE permit = ? AND permit <> ''", (permit,)).fetchone()
        return CallRow.of(row) if row else None

    def unfinished(self) -> list[CallRow]:
        """Calls that have no outcome: running, parked, or permits under way."""
        return [CallRow.of(row) for row in self._db.execute("SELECT * FROM calls WHERE outcome IS NULL")]

    def review(self, review_id: str) -> ReviewRow | None:
        """The review, whatever its state."""
        row = self._db.execute("SELECT * FROM reviews WHERE review_id = ?", (review_id,)).fetchone()
        return ReviewRow.of(row) if row else None

    def reviews(self, *, everything: bool) -> list[ReviewRow]:
        """Pending reviews, oldest first; with `everything` the latest thousand in any state."""
        query = "SELECT * FROM reviews ORDER BY created_us DESC LIMIT 1000"
        if not everything:
            query = "SELECT * FROM reviews WHERE state = 'pending' ORDER BY created_us"
        return [ReviewRow.of(row) for row in self._db.execute(query)]

    def waiting_reviews(self) -> list[ReviewRow]:
        """Reviews that wait for a decision or, approved, for their permit to be fetched; oldest first."""
        rows = self._db.execute("SELECT * FROM reviews WHERE waits = 1 ORDER BY created_us")
        return [ReviewRow.of(row) for row in rows]

    def parked_calls(self) -> int:
        """How many `waiting_reviews` there are."""
        return self._number("SELECT count(*) FROM reviews WHERE waits = 1")

    def review_queue(self) -> tuple[int, int]:
        """How many `waiting_reviews` there are, and since when the oldest waits, in microseconds (0: none does)."""
        row = self._db.execute("SELECT count(*), coalesce(min(created_us), 0) FROM reviews WHERE waits = 1").fetchone()
        return int(row[0]), int(row[1])

    def bundle(self, state: str) -> BundleRow | None:
        """The bundle last `activated`, whose number is the highest so far, or last `refused`."""
        row = self._db.execute("SELECT * FROM bundles WHERE state = ?", (state,)).fetchone()
        return BundleRow.of(row) if row else None

    def park(self, review_id: str, arguments: bytes) -> None:
        """Keep a parked call's full arguments until `unpark`."""
        self._db.execute("INSERT INTO parked VALUES (?, ?)", (review_id, arguments))
        self.commit()  # nothing folds them anew

    def parked(self, review_id: str) -> bytes | None:
        """The arguments kept by `park`."""
        row = self._db.execute("SELECT arguments FROM parked WHERE review_id = ?", (review_id,)).fetchone()
        return bytes(row["arguments"]) if row else None

    def unpark(self, review_id: str) -> None:
        """Forget a parked call's arguments."""
        self._db.execute("DELETE FROM parked WHERE review_id = ?", (review_id,))
        self.commit()

    def parked_bytes(self) -> int:
        """Size of all kept arguments."""
        return self._number("SELECT coalesce(sum(length(arguments)), 0) FROM parked")

    def _apply(self, index: int, record: Record) -> None:
        match record:
            case DecisionRecord():
                self._fold_decision(record)
            case OutcomeRecord():
                self._fold_outcome(record)
            case UsageRecord():
                self.history.fold_usage(record.session_id, record.usage, record.time_us)
            case ConnectionRecord():
                self.history.fold_connection(record)
            case ReviewRecord():
                self._fold_review(record)
            case BanRecord():
                self.history.fold_ban(record)
            case SessionRecord():
                self._fold_session(record)
            case SandboxRecord():
                self.sandboxes.fold(index, record)
            case RefusalRecord():
                self.history.fold_refusal(record)
            case BundleRecord():
                self._db.execute(
                    "INSERT OR REPLACE INTO bundles VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        record.state,
                        record.digest,
                        record.number,
                        record.revision,
                        record.key,
                        record.reason,
                        record.time_us,
                    ),
                )
            case DaemonRecord() | CandidateRecord() | ShadowRecord() | TornRecord():
                pass

    def _fold_decision(self, record: DecisionRecord) -> None:
        if record.purpose in ("call", "permit"):
            revision = record.bundles["opensafe"].revision
            blocked = record.result.action is Action.BLOCK
            allowed = record.result.action is Action.ALLOW
            self._db.execute(
                "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    record.session_id,
                    record.call_id,
                    record.input.call.digest,
                    record.sandbox_id,
                    record.decision_id,
                    _json(record.result),
                    revision,
                    record.review_id,
                    record.permit,
                    record.expires_us,
                    record.time_us if allowed else 0,
                    _json(record.effects if allowed else ()),
                    _json(Outcome(kind=OutcomeKind.BLOCKED)) if blocked else None,
                    record.purpose,
                    record.input.call.tool,
                    record.time_us,
                    record.input.call.asked.tag,
                    _json(record.input.call.asked),
                ),
            )
            if record.input.approval is not None:
                self._db.execute("UPDATE reviews SET waits = 0 WHERE review_id = ?", (record.input.approval.id,))
            if record.review_id:
                self._db.execute(
                    "INSERT INTO reviews VALUES"
                    " (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', '', '', '', 0, ?, ?, ?, ?, 1)",
                    (
                        record.review_id,
                        record.session_id,
                        record.call_id,
                        record.sandbox_id,
                        record.principal,
                        record.input.call.tool,
                        _json(record.input.call.arguments),
                        record.input.call.digest,
                        revision,
                        _json(record.result.deciding()),
                        record.time_us,
                        record.expires_us,
                        record.input.call.stdin,
                        record.purpose,
                        record.input.call.description_digest,
                        record.input.call.pinned_digest,
                    ),
                )
            if allowed:
                self.sandboxes.fold_activity(record.sandbox_id, record.time_us)
        self.history.fold_decision(record)
        self.written.fold_decision(record)

    def _fold_outcome(self, record: OutcomeRecord) -> None:
        if record.usage is not None:
            self.history.fold_usage(record.session_id, record.usage, record.time_us)
        key = record.session_id, record.call_id
        call = self._db.execute(
            "SELECT sandbox_id, effects, allowed_us, review_id FROM calls WHERE session_id = ? AND call_id = ?", key
        ).fetchone()
        if call is None:
            return
        self._db.execute(
            "UPDATE calls SET outcome = ? WHERE session_id = ? AND call_id = ?", (_json(record.outcome), *key)
        )
        if call["allowed_us"]:
            self.sandboxes.fold_activity(call["sandbox_id"], record.time_us)
            self.history.fold_end(record.session_id, call["sandbox_id"], call["effects"], record.outcome)
        if call["review_id"]:
            self._db.execute("UPDATE reviews SET waits = 0 WHERE review_id = ?", (call["review_id"],))

    def _fold_review(self, record: ReviewRecord) -> None:
        if record.state == "seconded":
            self._db.execute(
                "UPDATE reviews SET seconded = ? WHERE review_id = ?", (record.decided_by, record.review_id)
            )
            return
        self._db.execute(
            "UPDATE reviews SET state = ?1, decided_by = ?2, reason = ?3,"
            " waits = (?1 = 'approved' AND purpose = 'permit') WHERE review_id = ?4",
            (record.state, record.decided_by, record.reason, record.review_id),
        )
        review = self.review(record.review_id)
        if record.changes and review is not None:
            self.history.fold_changed(review.session_id, review.sandbox_id)

    def _fold_session(self, record: SessionRecord) -> None:
        if record.state == "closed":
            self._db.execute("UPDATE sessions SET closed = 1 WHERE session_id = ?", (record.session_id,))
            self.history.fold_closed(record.session_id)
            self.written.fold_closed(record.session_id)
            return
        self._db.execute(
            "INSERT INTO sessions (session_id, principal, agent, conversation_id, trace_id, created_us, limits)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                record.session_id,
                record.principal,
                record.agent,
                record.conversation_id,
                record.trace_id,
                record.time_us,
                _json(record.limits),
            ),
        )

    def _read_tip(self) -> tuple[int, str]:
        row = self._db.execute("SELECT folded, leaf FROM tip").fetchone()
        return (int(row["folded"]), str(row["leaf"])) if row else (0, "")

    def _number(self, query: str, *arguments: object) -> int:
        return int(self._db.execute(query, arguments).fetchone()[0])

    def _migrate(self, path: pathlib.Path) -> None:
        version = self._number("PRAGMA user_version")
        if version == 0:
            schema = (importlib.resources.files(__package__) / "schema.sql").read_text()
            self._db.executescript(f"BEGIN; {schema} PRAGMA user_version = {_VERSION}; COMMIT;")
        elif version != _VERSION:
            raise StaleIndex(f"{path.name} has another version", value=version, limit=_VERSION)


def _json(value: Any) -> str:  # noqa: ANN401 - anything msgspec encodes
    return msgspec.json.encode(value).decode()
