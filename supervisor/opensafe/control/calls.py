"""Calls looked at from outside their streams: list them, find one, signal it.

What the index has is what is told; of a call under way the live one adds what of its output can be had now.
"""

from typing import Final

import msgspec

from opensafe.errors import Conflict, InvalidArgument, NotFound
from opensafe.model.calls import Principal
from opensafe.model.ids import is_call_id
from opensafe.state.rows import CallRow
from opensafe.state.store import Store

from .live import LiveCalls
from .paging import page_size
from .sessions import Sessions

PAGE: Final = 100
PAGE_MAX: Final = 1000


class Page(msgspec.Struct, frozen=True):
    """Calls, and the cursor of what follows: "" after the last."""

    rows: list[CallRow]
    next_cursor: str


class Calls:
    """One session's calls, for its owner."""

    def __init__(self, sessions: Sessions, store: Store, live: LiveCalls) -> None:
        self._sessions = sessions
        self._store = store
        self._live = live

    def page(self, principal: Principal, session_id: str, *, state: str, tag: str, size: int, cursor: str) -> Page:
        """The latest first. Raises NotFound, InvalidArgument."""
        self._sessions.require(principal, session_id)
        size = page_size(size, usual=PAGE, most=PAGE_MAX)
        rows = self._store.calls(session_id, state=state, tag=tag, before=_place(cursor), most=size + 1)
        last = rows[size - 1] if len(rows) > size else None
        return Page(rows[:size], f"{last.decided_us}.{last.call_id}" if last else "")

    def find(self, principal: Principal, session_id: str, call_id: str = "", *, tag: str = "") -> CallRow:
        """The call, or without an id the latest of a tag. Raises NotFound."""
        self._sessions.require(principal, session_id)
        if call_id:
            row = self._store.call(session_id, call_id)
        else:
            row = next(iter(self._store.calls(session_id, tag=tag, most=1)), None) if tag else None
        if row is None or row.purpose != "call":
            raise NotFound("no such call in the session", value=call_id or tag, remedy="ListCalls has those there are.")
        return row

    def retained(self, row: CallRow) -> tuple[int, int]:
        """From which byte to which its output can be had now."""
        live = self._live.get((row.session_id, row.call_id))
        if live is not None:
            return live.journal.start, live.journal.end
        written = row.outcome.stdout_bytes + row.outcome.stderr_bytes if row.outcome is not None else 0
        return written, written

    async def signal(
        self, principal: Principal, session_id: str, call_id: str, number: int, *, whole_tree: bool
    ) -> None:
        """Signal a running call. Raises NotFound, Conflict where it does not run, InvalidArgument."""
        row = self.find(principal, session_id, call_id)
        live = self._live.get((session_id, call_id))
        if row.outcome is not None or live is None:
            raise Conflict("the call does not run", value=call_id, remedy="GetCall says what became of it.")
        await live.signal(number, whole_tree=whole_tree)


def _place(cursor: str) -> tuple[int, str] | None:
    if not cursor:
        return None
    time, _, call_id = cursor.partition(".")
    if not (time.isascii() and time.isdigit() and len(time) < 19 and is_call_id(call_id)):
        raise InvalidArgument("the cursor is none of ours", value=cursor[:200], remedy="Send a page's next_cursor.")
    return int(time), call_id
