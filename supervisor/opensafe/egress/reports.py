"""Verdicts on their way to the record: allowed ones each, and refusals so that a loop in a guest can't flood it.

The first refusal of its kind is told at once, equal ones within the next second as one record with their number. Kinds
kept apart are bounded; what is beyond is counted, and told as one record that names no rule.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from opensafe.model.connection import Connection
from opensafe.model.ids import now_us

_SECOND: Final = 1.0
#: Different refusals within a second that are kept apart.
_KINDS: Final = 1024

Later = Callable[[float, Callable[[], None]], object]


def _later(seconds: float, then: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, then)


class Reports:
    """Passes verdicts on to `report`. later: as the loop's call_later."""

    def __init__(self, report: Callable[[Connection], None], *, later: Later = _later, kinds: int = _KINDS) -> None:
        self._report = report
        self._later = later
        self._kinds = kinds
        self._repeats: dict[tuple[object, ...], Connection] = {}
        self._beyond = 0

    def allowed(self, connection: Connection) -> None:
        """Tell it."""
        self._report(connection)

    def refused(self, connection: Connection) -> None:
        """Tell it now, or with others like it within a second."""
        one = connection
        kind = (one.sandbox_id, one.exec_id, one.layer, one.name, one.port, one.rules)
        before = self._repeats.get(kind)
        if before is None and len(self._repeats) >= self._kinds:
            self._beyond += 1
            return
        if not self._repeats:
            self._later(_SECOND, self.flush)
        # The first has been told, so that what is kept counts one more than is still to be told.
        count = before.count + 1 if before is not None else 1
        self._repeats[kind] = msgspec.structs.replace(connection, count=count)
        if before is None:
            self._report(connection)

    def flush(self) -> None:
        """Tell what was counted so far."""
        repeats, self._repeats = self._repeats, {}
        beyond, self._beyond = self._beyond, 0
        for one in repeats.values():
            if one.count > 1:
                self._report(msgspec.structs.replace(one, count=one.count - 1))
        if beyond:
            self._report(
                Connection(time_us=now_us(), state="refused", reason="too many different refusals", count=beyond)
            )
