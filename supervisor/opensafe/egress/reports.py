"""Verdicts on their way to the record: allowed ones each, and refusals so that a loop in a guest can't flood it.

The first refusal of its kind is told at once, equal ones within the next second as one record with their number. Kinds
kept apart are bounded, of a sandbox and in all; what is beyond is counted, and told as one record of the sandbox that
names no rule: so no guest hides what another does.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from opensafe.model.connection import Connection
from opensafe.model.ids import now_us

_SECOND: Final = 1.0
#: Different refusals within a second that are kept apart, in all and of one sandbox.
_KINDS: Final = 1024
_KINDS_A_SANDBOX: Final = 64

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
        self._kinds_of: Counter[str] = Counter()
        self._beyond: Counter[str] = Counter()

    def allowed(self, connection: Connection) -> None:
        """Tell it."""
        self._report(connection)

    def refused(self, connection: Connection) -> None:
        """Tell it now, or with others like it within a second."""
        one = connection
        kind = (one.sandbox_id, one.exec_id, one.layer, one.name, one.port, one.rules)
        before = self._repeats.get(kind)
        crowded = len(self._repeats) >= self._kinds or self._kinds_of[one.sandbox_id] >= _KINDS_A_SANDBOX
        if before is None and crowded:
            self._beyond[one.sandbox_id] += 1
            return
        if not self._repeats:
            self._later(_SECOND, self.flush)
        # The first has been told, so that what is kept counts one more than is still to be told.
        count = before.count + 1 if before is not None else 1
        self._repeats[kind] = msgspec.structs.replace(connection, count=count)
        self._kinds_of[one.sandbox_id] += before is None
        if before is None:
            self._report(connection)

    def flush(self) -> None:
        """Tell what was counted so far."""
        repeats, self._repeats = self._repeats, {}
        beyond, self._beyond = self._beyond, Counter()
        self._kinds_of.clear()
        for one in repeats.values():
            if one.count > 1:
                self._report(msgspec.structs.replace(one, count=one.count - 1))
        for sandbox_id, count in beyond.items():
            self._report(
                Connection(
                    time_us=now_us(),
                    state="refused",
                    sandbox_id=sandbox_id,
                    reason="too many different refusals",
                    count=count,
                )
            )
