"""What open sessions' calls wrote into files, so that it is known after a restart as well.

The log holds contents only sealed: a decision folded from it alone says that its files were written, and not with what.
The texts are put beside it while the front runs, in the transaction that folds the decision.
"""

import sqlite3
from collections.abc import Iterator, Mapping

import msgspec

from opensafe.model.decision import Action
from opensafe.model.records import DecisionRecord

_TEXTS = msgspec.json.Decoder(tuple[str, ...])


class WrittenIndex:
    """Of one connection, which is the store's."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        self._told = ""

    def of(self, session_id: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each path and its possible texts, none where they are not known."""
        for path, texts in self._db.execute("SELECT path, texts FROM written WHERE session_id = ?", (session_id,)):
            yield path, _TEXTS.decode(texts) if texts is not None else ()

    def told(self, decision_id: str) -> None:
        """What the calls of this decision write is put here: its record, which comes next, adds nothing."""
        self._told = decision_id

    def put(self, session_id: str, texts: Mapping[str, tuple[str, ...]]) -> None:
        """Keep these in place of what was known of the same files."""
        if texts and not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")
        for path, known in texts.items():
            value = msgspec.json.encode(known).decode() if known else None
            self._db.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?)", (session_id, path, value))

    def fold_decision(self, record: DecisionRecord) -> None:
        """Of an allowed call that nobody told of, the files are known to be written and no more."""
        if record.purpose != "call" or record.result.action is not Action.ALLOW or record.decision_id == self._told:
            return
        self.put(record.session_id, {fact.path: () for fact in record.input.call.writes})

    def fold_closed(self, session_id: str) -> None:
        """A session was closed."""
        self._db.execute("DELETE FROM written WHERE session_id = ?", (session_id,))
