"""Ledger entries whose decision did not reach the disk: a power cut took it, and nothing was started on it.

Decision and entry are put on disk side by side, and nothing is started before both are there (ADR 0031). So a cut can
leave an entry alone. The next start says so in the ledger, before anything else is started; `audit verify` takes its
word for it only where the log has no such decision.
"""

import logging

from ..model.merkle import leaf
from .ledger import Ledger
from .segments import Segments

_log = logging.getLogger(__name__)


def void(ledger: Ledger, segments: Segments, signed: int) -> int:
    """Void what was entered on decisions that are not in the log; how many. Raises AuditError, OSError.

    signed: entries that the last checkpoint covers, and with them the decisions that they were made on.
    """
    missing = {entry.leaf: entry for entry in ledger.unended if entry.index >= signed}
    for number in range(segments.number, -1, -1):
        if not missing:
            return 0
        for line in segments.lines(number):
            missing.pop(leaf(line).hex(), None)
    for entry in missing.values():
        ledger.append("void", sandbox_id=entry.sandbox_id, exec_id=entry.exec_id, leaf=entry.leaf)
        what = entry.exec_id or entry.sandbox_id
        _log.warning("%s was not started: its decision was lost before it was on disk", what)
    return len(missing)
