"""Traces of the sessions that somebody looks at: read back from the record once, and followed from there.

What the feed tells while a trace is read is kept and folded in behind it: nothing is missed and nothing comes twice.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from typing import Final

import msgspec

from opensafe.client import AuditRecord, Client
from opensafe.errors import InvalidArgument, NotFound
from opensafe.model import records
from opensafe.model.records import DecisionRecord, Record, RefusalRecord, SessionRecord

from .trace import CALLS_MAX, Trace

#: Sessions that are followed at once; the one that was longest not looked at makes room.
FOLLOWED_MAX: Final = 8
#: Records of a session that are read back, in pages of so many, and how often it is asked for them.
_RECORDS_MAX: Final = 3 * CALLS_MAX
_PAGE: Final = 500
_PAGES_MAX: Final = 16
#: Records behind an older part of a session, in which the ends of its last calls stand.
_BEHIND: Final = 2000


class Traces:
    """Those of one principal, who sees no others. client: of its feed, by which records are asked for."""

    def __init__(self) -> None:
        self.client: Client
        self._followed: OrderedDict[str, Trace] = OrderedDict()
        self._reading = asyncio.Lock()
        self._wanted = ""
        self._meanwhile: deque[tuple[int, Record]] = deque(maxlen=_RECORDS_MAX)

    def forget(self) -> None:
        """All of it: the record is another one."""
        self._followed.clear()

    def take(self, index: int, record: Record) -> None:
        """What the feed tells."""
        session = getattr(record, "session_id", "")
        if not session:
            return
        if session == self._wanted:
            self._meanwhile.append((index, record))
        if (trace := self._followed.get(session)) is not None:
            trace.take(index, record)

    async def of(self, session_id: str) -> Trace:
        """The session's newest part, which goes on. Raises NotFound, Unavailable."""
        if (known := self._followed.get(session_id)) is not None:
            self._followed.move_to_end(session_id)
            return known
        async with self._reading:
            trace = self._followed.get(session_id)
            if trace is None:
                self._wanted = session_id
                self._meanwhile.clear()
                try:
                    trace = await self._read(session_id, 0)
                finally:
                    self._wanted = ""
                if len(self._meanwhile) == self._meanwhile.maxlen:  # it made room for more: this alone is whole
                    trace = Trace(session_id, self._meanwhile[0][0])
                for index, record in self._meanwhile:
                    trace.take(index, record)
                self._meanwhile.clear()
            if not trace.known:
                raise _unknown(session_id)
            self._followed[session_id] = trace
            self._followed.move_to_end(session_id)
            while len(self._followed) > FOLLOWED_MAX:
                self._followed.popitem(last=False)
            return trace

    async def before(self, session_id: str, index: int) -> Trace:
        """The part before the step of that index: of the followed one where it holds that, else read for this.

        Raises NotFound, Unavailable.
        """
        trace = await self.of(session_id)
        if not trace.older or index > trace.older:
            return trace
        async with self._reading:
            return await self._read(session_id, index + _BEHIND, steps_before=index)

    async def record(self, session_id: str, index: int) -> AuditRecord:
        """One record of the session. Raises NotFound, Unavailable."""
        try:
            page = await self.client.search_audit(session_id=session_id, before_index=index + 1, page_size=1)
        except InvalidArgument:
            raise _unknown(session_id) from None
        if not page.records or page.records[0].index != index:
            raise NotFound("the session has no such record", value=index)
        return page.records[0]

    async def _read(self, session_id: str, before: int, *, steps_before: int = 0) -> Trace:
        """What stands on record before an index; 0: to the end. steps_before: no step from there on, but ends."""
        found: list[tuple[int, Record]] = []
        for _ in range(_PAGES_MAX):
            try:
                page = await self.client.search_audit(session_id=session_id, before_index=before, page_size=_PAGE)
            except InvalidArgument:  # no session has such an id
                raise _unknown(session_id) from None
            for one in page.records:
                with contextlib.suppress(msgspec.DecodeError, RecursionError):  # of a newer daemon; the feed tells
                    found.append((one.index, records.decode(one.line)))
            before = page.next_before
            if found and isinstance(found[-1][1], SessionRecord) and found[-1][1].state != "closed":
                before = 0  # its first record
            if not before or len(found) >= _RECORDS_MAX:
                break
        trace = Trace(session_id, before)
        for index, record in reversed(found):
            if not steps_before or index < steps_before or not isinstance(record, DecisionRecord | RefusalRecord):
                trace.take(index, record)
        return trace


def _unknown(session_id: str) -> NotFound:
    return NotFound("no record of such a session is known here", value=session_id[:100])
