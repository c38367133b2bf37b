"""What the screen Policies shows of the daemon: what is in force, what happened to it, its rules, and shadow.

Most of it no record tells, so the daemon is asked: anew where its status says that something is other, for shadow once
a second. While it is away the last answers stay.
"""

import time
from typing import Final

import msgspec

from opensafe.client import AuditRecord, DaemonStatus, RuleList
from opensafe.errors import NotPermitted, OpenSafeError
from opensafe.model.records import BundleRecord
from opensafe.model.shadow import ShadowReport

from .coverage import Rule, coverage
from .feed import Feed
from .roles import SHADOWING, may

#: Lines of the history on a page.
PAGE: Final = 20
_AGAIN_S: Final = 1.0


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle was activated, refused or removed. index: of its record."""

    index: int
    record: BundleRecord


class Overview:
    """One reader's. before: where the page of the history ends, 0 for the newest."""

    def __init__(self, feed: Feed, before: int = 0) -> None:
        self._feed = feed
        self._before = before
        self._of: tuple[object, ...] = ()
        self._asked = -_AGAIN_S
        self._rules = RuleList(revision="", notes=())
        self.history: tuple[Event, ...] = ()
        self.older = 0
        self.shadow: ShadowReport | None = None

    @property
    def status(self) -> DaemonStatus | None:
        """The last that the daemon told."""
        return self._feed.status

    @property
    def since(self) -> Event | None:
        """When what is in force came to be, where the history's page shows it."""
        digest = self.status.bundle_digest if self.status else ""
        return next(
            (one for one in self.history if one.record.state == "activated" and one.record.digest == digest), None
        )

    def rules(self) -> list[Rule]:
        """Those in force with their hits in the records at hand."""
        return coverage(self._rules.notes, self._feed.board.fired)

    async def refresh(self) -> bool:
        """Ask for what may be other, at most once a second: whether it was time. What is not answered stays."""
        now = time.monotonic()
        if now - self._asked < _AGAIN_S:
            return False
        self._asked = now
        try:
            if self._feed.status is None:
                self._feed.status = await self._feed.client.status()
            status = self._feed.status
            refusal = status.last_refusal.unix_ns if status.last_refusal else 0
            if self._of != (of := (status.bundle_digest, refusal)):
                self._rules = await self._feed.client.list_rules()
                await self._look_back()
                self._of = of
            if may(status, SHADOWING):
                self.shadow = await self._feed.client.get_shadow()
        except NotPermitted:
            self.shadow = None
        except OpenSafeError:
            pass  # the feed knows, and the page tells it
        return True

    async def _look_back(self) -> None:
        page = await self._feed.client.search_audit(kinds=("bundle",), before_index=self._before, page_size=PAGE)
        self.history = tuple(_event(record) for record in page.records)
        self.older = page.next_before


def _event(record: AuditRecord) -> Event:
    return Event(index=record.index, record=msgspec.json.decode(record.line, type=BundleRecord))
