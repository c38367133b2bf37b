"""Sandboxes in the index: found by id, listed by page, and those whose lease is to be watched."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opensafe.model.records import SandboxRecord

from .rows import SandboxRow

#: States in which there is something of it on the host. Only with the first term do the partial indexes serve.
_LIVE: Final = "state <> 'deleted' AND state IN ('running', 'paused', 'deleting')"
_SHOWN: Final = ("running", "paused", "deleting", "lost")
_LEASED: Final = "state <> 'deleted' AND state IN ('running', 'paused')"
_BUSY: Final = (
    "EXISTS (SELECT 1 FROM calls WHERE calls.sandbox_id = sandboxes.sandbox_id"
    " AND calls.outcome IS NULL AND calls.allowed_us > 0)"
)
_PAGE: Final = """
SELECT * FROM sandboxes WHERE principal = ?1 AND number > ?2
    AND (?3 = '' OR session_id = ?3)
    AND state IN (SELECT value FROM json_each(?4))
    AND NOT EXISTS (SELECT 1 FROM json_each(?5) AS asked WHERE NOT EXISTS (
        SELECT 1 FROM json_each(sandboxes.labels) AS has WHERE has.key = asked.key AND has.value = asked.value))
ORDER BY number LIMIT ?6
"""


class SandboxIndex:
    """Of one connection, which is the store's. Only what is named `fold…` writes."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        self._last: SandboxRow | None = None

    def get(self, sandbox_id: str) -> SandboxRow | None:
        """The sandbox, whatever its state."""
        if self._last is None or self._last.sandbox_id != sandbox_id:  # one call asks for the same several times
            row = self._db.execute("SELECT * FROM sandboxes WHERE sandbox_id = ?", (sandbox_id,)).fetchone()
            self._last = SandboxRow.of(row) if row else None
        return self._last

    def forget(self) -> None:
        """The tables change."""
        self._last = None

    def live(self, *, principal: str = "") -> list[SandboxRow]:
        """Those of which there is something on the host, of one principal or of all, oldest first."""
        rows = self._db.execute(
            f"SELECT * FROM sandboxes WHERE {_LIVE} AND (?1 = '' OR principal = ?1) ORDER BY number",  # noqa: S608 - a constant
            (principal,),
        )
        return [SandboxRow.of(row) for row in rows]

    def count(self) -> int:
        """How many there are `live`."""
        query = f"SELECT count(*) FROM sandboxes WHERE {_LIVE}"  # noqa: S608 - a constant
        return int(self._db.execute(query).fetchone()[0])

    def by_state(self) -> dict[str, int]:
        """How many there are in each state but `deleted`."""
        rows = self._db.execute("SELECT state, count(*) FROM sandboxes WHERE state <> 'deleted' GROUP BY state")
        return dict.fromkeys(_SHOWN, 0) | {str(state): int(count) for state, count in rows}

    def count_of(self, session_id: str) -> int:
        """How many of the session are not deleted."""
        query = "SELECT count(*) FROM sandboxes WHERE session_id = ? AND state <> 'deleted'"
        return int(self._db.execute(query, (session_id,)).fetchone()[0])

    def of_session(self, session_id: str) -> list[SandboxRow]:
        """Those of the session that are not deleted."""
        rows = self._db.execute("SELECT * FROM sandboxes WHERE session_id = ? AND state <> 'deleted'", (session_id,))
        return [SandboxRow.of(row) for row in rows]

    def page(
        self,
        principal: str,
        *,
        after: int,
        limit: int,
        states: Sequence[str],
        session_id: str = "",
        labels: Mapping[str, str] = {},
    ) -> list[SandboxRow]:
        """The principal's next `limit` sandboxes with a higher number than `after`, oldest first.

        In one of the states, of the session ("": of any), with all of the labels.
        """
        rows = self._db.execute(_PAGE, (principal, after, session_id, _json(states), _json(labels), limit))
        return [SandboxRow.of(row) for row in rows]

    def leased(self) -> list[tuple[SandboxRow, bool]]:
        """Those that run or are paused, each with whether a call is under way in it."""
        rows = self._db.execute(f"SELECT *, {_BUSY} AS busy FROM sandboxes WHERE {_LEASED}")  # noqa: S608 - a constant
        return [(SandboxRow.of(row), bool(row["busy"])) for row in rows]

    def busy(self, sandbox_id: str) -> bool:
        """Whether a call is under way in it."""
        query = "SELECT 1 FROM calls WHERE sandbox_id = ? AND outcome IS NULL AND allowed_us > 0"
        return self._db.execute(query, (sandbox_id,)).fetchone() is not None

    def fold(self, index: int, record: SandboxRecord) -> None:
        """A sandbox was made, or changed."""
        if record.template:
            self._db.execute(
                "INSERT INTO sandboxes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '[]')",
                (
                    record.sandbox_id,
                    index,
                    record.session_id,
                    record.principal,
                    record.template,
                    record.image_digest,
                    record.network,
                    _json(record.limits),
                    _json(record.labels),
                    record.time_us,
                    record.state,
                    record.cause,
                    record.time_us,
                    record.expires_us,
                    record.idle_timeout_s,
                    record.idle_action,
                    record.time_us,
                ),
            )
            return
        self._db.execute(
            "UPDATE sandboxes SET state = ?1, changed_us = ?3,"
            " cause = iif(?2 = '', cause, ?2), expires_us = iif(?4 = 0, expires_us, ?4),"
            " active_us = iif(state = 'paused' AND ?1 = 'running', ?3, active_us) WHERE sandbox_id = ?5",
            (record.state, record.cause, record.time_us, record.expires_us, record.sandbox_id),
        )

    def fold_activity(self, sandbox_id: str, time_us: int) -> None:
        """A call in it began or ended."""
        self._db.execute("UPDATE sandboxes SET active_us = ? WHERE sandbox_id = ?", (time_us, sandbox_id))


def _json(value: Any) -> str:  # noqa: ANN401 - anything msgspec encodes
    return msgspec.json.encode(value).decode()
