"""What was signed of a log, held against the log while it is read.

A chain shows every change inside a log. That its end was cut, or a part written anew from some record on, only what was
signed shows: at each signed size the tree over the records must have the signed root, and the log must reach as far.
"""

import datetime as dt
from collections.abc import Iterable

import msgspec

from opensafe.model.checkpoint import Checkpoint, NoteError, VerifierKey, opened
from opensafe.model.merkle import Frontier


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that should not be. `where`: audit, ledger or checkpoint; `index`: of the record (note) there."""

    kind: str
    where: str
    index: int
    message: str


class Signed:
    """Signed checkpoints of one log, met in the order of their sizes."""

    def __init__(self, notes: Iterable[bytes], key: VerifierKey) -> None:
        self.findings: list[Finding] = []
        #: How many checkpoints the log was found to be as, and how many records the largest of them covers.
        self.met = 0
        self.covered = 0
        self._tree = Frontier()
        self._ledger: dict[int, list[Checkpoint]] = {}
        due: list[Checkpoint] = []
        for number, note in enumerate(notes):
            try:
                due.append(opened(note, key))
            except NoteError as error:
                self._found("not_signed", "checkpoint", number, f"checkpoint {number}: {error}")
        #: The smallest last.
        self._due = sorted(due, key=lambda one: one.size, reverse=True)
        for one in due:
            self._ledger.setdefault(one.ledger.size, []).append(one)

    def record(self, leaf: str) -> None:
        """The next record of the log, by its leaf hash."""
        self._tree.append(bytes.fromhex(leaf))
        while self._due and self._due[-1].size <= self._tree.size:
            self._compare(self._due.pop())

    def log_ended(self) -> None:
        """The log is read to its end: all that was signed must have come by."""
        if self._due:
            last, size = self._due[0], self._tree.size
            message = f"{last.size} records were signed at {_time(last)}, and the log ends after {size}"
            self._found("shorter_than_signed", "audit", size, message)

    def entry(self, size: int, leaf: str) -> None:
        """An entry of the ledger: how many there are with it, and its leaf hash."""
        for one in self._ledger.pop(size, ()):
            if one.ledger.leaf != leaf:
                message = f"entry {size - 1} is not the one that was signed at {_time(one)}"
                self._found("not_as_signed", "ledger", size - 1, message)

    def ledger_ended(self, size: int) -> None:
        """The ledger is read to its end, at so many entries."""
        longest = max((one for one in self._ledger if one > size), default=0)
        if longest:
            message = f"{longest} entries were signed at {_time(self._ledger[longest][0])}, and the ledger has {size}"
            self._found("shorter_than_signed", "ledger", size, message)

    def _compare(self, one: Checkpoint) -> None:
        if any(found.kind == "not_as_signed" and found.where == "audit" for found in self.findings):
            return  # all that was signed later differs as well
        if one.root == self._tree.root():
            self.met, self.covered = self.met + 1, one.size
            return
        message = f"records {self.covered} to {one.size - 1} are not those that were signed at {_time(one)}"
        self._found("not_as_signed", "audit", self.covered, message)

    def _found(self, kind: str, where: str, index: int, message: str) -> None:
        self.findings.append(Finding(kind=kind, where=where, index=index, message=message))


def _time(one: Checkpoint) -> str:
    made = dt.datetime.fromtimestamp(one.time_us / 1e6, dt.UTC)
    return made.isoformat(timespec="seconds")
