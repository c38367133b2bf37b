"""A principal's sandboxes as a list, page by page, and as a stream of what changes."""

import base64
import binascii
import hashlib
from collections.abc import AsyncGenerator
from typing import Final, Literal

import msgspec

from opensafe.audit.log import AuditLog
from opensafe.errors import AuditError, InvalidArgument, LimitExceeded
from opensafe.model.calls import Principal
from opensafe.model.records import SandboxRecord
from opensafe.state.rows import SandboxRow
from opensafe.state.store import Store

from .paging import page_size
from .sandboxes import Labels

_PAGE: Final = 100
_PAGE_MAX: Final = 1000

State = Literal["running", "paused", "deleting", "deleted", "lost"]
#: What a list shows where it does not ask for states.
SHOWN: Final[tuple[State, ...]] = ("running", "paused", "deleting", "lost")


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows: sandboxes with all of the labels, in one of the states, of the session ("": of any)."""

    labels: Labels = {}
    states: tuple[State, ...] = SHOWN
    session_id: str = ""


class SandboxList:
    """Reads the index and follows the log."""

    def __init__(self, log: AuditLog, store: Store) -> None:
        self._log = log
        self._store = store

    def page(
        self, principal: Principal, wanted: Filter, asked: int = 0, cursor: str = ""
    ) -> tuple[list[SandboxRow], str]:
        """The next page, of the size `asked` for, oldest first, and the cursor of the one after ("" after the last).

        A cursor is a place and no count: what is made or removed between two pages neither repeats nor hides another.
        Raises InvalidArgument for a cursor of another filter.
        """
        size = page_size(asked, usual=_PAGE, most=_PAGE_MAX)
        rows = self._store.sandboxes.page(
            principal.name,
            after=_place(cursor, wanted),
            limit=size + 1,
            states=wanted.states or SHOWN,
            session_id=wanted.session_id,
            labels=wanted.labels,
        )
        more = len(rows) > size
        return rows[:size], _cursor(rows[size - 1].number, wanted) if more else ""

    async def watch(self, principal: Principal) -> AsyncGenerator[SandboxRow, None]:
        """Those that live now, then each as a change leaves it.

        Nothing is kept for a watcher: it reads the log's latest records. Raises LimitExceeded where it is too slow for
        those.
        """
        position = self._log.durable
        for row in self._store.sandboxes.live(principal=principal.name):
            yield row
        try:
            async for written in self._log.follow(position):
                if written.kind != "sandbox":
                    continue
                record = written.record
                if isinstance(record, SandboxRecord) and record.principal == principal.name:
                    row_now = self._store.sandbox(record.sandbox_id)
                    if row_now is not None:
                        yield _as_of(row_now, record)
        except AuditError as error:
            raise LimitExceeded(
                "the watcher fell behind", limit=error.limit, remedy="Watch again: it begins with what there is."
            ) from error


def _as_of(row: SandboxRow, record: SandboxRecord) -> SandboxRow:
    """The sandbox as the record left it."""
    return msgspec.structs.replace(
        row,
        state=record.state,
        cause=record.cause or row.cause,
        changed_us=record.time_us,
        expires_us=record.expires_us or row.expires_us,
    )


def _cursor(number: int, wanted: Filter) -> str:
    return base64.urlsafe_b64encode(f"{number}:{_mark(wanted)}".encode()).decode()


def _place(cursor: str, wanted: Filter) -> int:
    if not cursor:
        return -1
    try:
        number, _, mark = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii").partition(":")
        if mark == _mark(wanted) and 0 <= int(number) < 1 << 53:
            return int(number)
    except (ValueError, binascii.Error):
        pass
    raise InvalidArgument(
        "the cursor is not one of this list", value=cursor, remedy="Begin without a cursor, and keep the filter."
    )


def _mark(wanted: Filter) -> str:
    """Tells one filter's cursors from another's."""
    return hashlib.sha256(msgspec.json.encode(wanted, order="deterministic")).hexdigest()[:16]
