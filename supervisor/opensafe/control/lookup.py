"""What the record says, to those who may see it: on from one record, and what matches, back from another.

Files are read in a thread, a bounded piece at a time, and all principals share one: each has one piece under way at
most, so nobody's searches keep anybody else's waiting for longer than a piece, and the event loop has one thread
beside it and not a thousand. Who may see what is found is asked here, where the index of sessions is.
"""

import asyncio
import pathlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from functools import cache, partial
from typing import Final, Protocol, TypeVar

import msgspec

from opensafe.audit import search
from opensafe.audit.log import AuditLog
from opensafe.audit.past import Entry, ahead
from opensafe.errors import InvalidArgument, NotFound
from opensafe.model.calls import Principal
from opensafe.model.records import KINDS
from opensafe.state.store import Store

AUDITOR: Final = "auditor"
#: How far back a reader may begin.
BACK_MAX: Final = 10_000
PAGE: Final = 100
PAGE_MAX: Final = 500

_T = TypeVar("_T")


class Shown(Protocol):
    """A record as readers see it."""

    @property
    def index(self) -> int: ...
    @property
    def leaf(self) -> str: ...
    @property
    def line(self) -> bytes: ...
    @property
    def session_id(self) -> str: ...


class Page(msgspec.Struct, frozen=True):
    """Records, the newest first. next_before: where the next page goes on, 0 where there is none."""

    records: list[Entry]
    next_before: int


class Lookup:
    """One for all principals."""

    def __init__(self, log: AuditLog, store: Store, state: pathlib.Path) -> None:
        self._log = log
        self._store = store
        self._state = state
        self._own: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._thread = asyncio.Lock()

    async def last(self, principal: Principal, count: int, *, follow: bool) -> AsyncIterator[Shown]:
        """The last records of this run, then those that follow. Raises InvalidArgument, AuditError."""
        if not 0 <= count <= BACK_MAX:
            raise InvalidArgument("last is out of range", value=count, limit=f"0 to {BACK_MAX}")
        async for written in self._log.read(count, follow=follow):
            if self._sees(principal, written):
                yield written

    async def since(self, principal: Principal, index: int, *, follow: bool) -> AsyncIterator[Shown]:
        """The records from `index` on, BACK_MAX of those that are there at most, then those that follow.

        Raises InvalidArgument, AuditError.
        """
        size, end = self._log.head.size, self._log.durable
        if not 0 <= index <= size:
            raise InvalidArgument(
                "there is no such record, nor is it the next",
                value=index,
                limit=f"{size} records",
                remedy="Begin again without it: what was read before is of another log.",
            )
        index = max(index, end - BACK_MAX)
        while index < (self._log.remembered if follow else end):
            bound = self._log.durable if follow else end
            for one in await self.read(principal, partial(ahead, self._state, index, bound, search.PIECE_BYTES)):
                if self._sees(principal, one):
                    yield one
                index = one.index + 1
        if follow:
            async for written in self._log.follow(index):
                if self._sees(principal, written):
                    yield written

    async def search(
        self, principal: Principal, query: search.Query, *, named: str = "", before: int = 0, page: int = 0
    ) -> Page:
        """A page of matches. named: a principal, that records name or that their session is of.

        Raises InvalidArgument, AuditError.
        """
        _check(query, before, page)
        owner, all_seen = cache(self._owner), AUDITOR in principal.roles
        end = self._log.durable
        left, scanned, size = min(before or end, end), 0, 0
        found: list[Entry] = []
        while left and scanned < search.SCAN_BYTES:
            piece = await self.read(principal, partial(search.scan, self._state, query, left, end))
            left, scanned = piece.left, scanned + piece.scanned
            for one in piece.found:
                if not all_seen and owner(one.session_id) != principal.name:
                    continue
                if named and named != one.facets.principal and named != owner(one.session_id):
                    continue
                size += len(one.line)
                if found and size > search.PAGE_BYTES:
                    return Page(found, found[-1].index)
                found.append(one)
                if len(found) == (page or PAGE):
                    return Page(found, one.index)
        return Page(found, left)

    async def record(self, principal: Principal, index: int) -> Entry:
        """One record. Raises NotFound, also where it is not the principal's to see, and AuditError."""
        if 0 <= index < self._log.durable:
            [one] = await self.read(principal, partial(ahead, self._state, index, index + 1, 1))
            if self._sees(principal, one):
                return one
        raise NotFound("there is no such record", value=index)

    async def read(self, principal: Principal, work: Callable[[], _T]) -> _T:
        """What `work` returns, which reads a piece of the log, in the thread."""
        async with self._own[principal.name], self._thread:
            return await asyncio.to_thread(work)

    def _sees(self, principal: Principal, one: Shown) -> bool:
        return AUDITOR in principal.roles or self._owner(one.session_id) == principal.name

    def _owner(self, session_id: str) -> str:
        session = self._store.session(session_id) if session_id else None
        return session.principal if session is not None else ""


def _check(query: search.Query, before: int, page: int) -> None:
    if unknown := sorted(query.kinds.difference(KINDS)):
        raise InvalidArgument("there is no such kind of record", value=unknown[0], limit=", ".join(sorted(KINDS)))
    if len(query.text) > search.TEXT_MAX:
        raise InvalidArgument("text is too long", value=len(query.text), limit=f"{search.TEXT_MAX} characters")
    if not 0 <= page <= PAGE_MAX:
        raise InvalidArgument("page_size is out of range", value=page, limit=f"0 to {PAGE_MAX}")
    if before < 0:
        raise InvalidArgument("before_index is negative", value=before)
    if query.since_us < 0 or query.until_us < 0:
        raise InvalidArgument("a time is negative", value=min(query.since_us, query.until_us))
