"""Follows one principal's records, reviews and status for as long as the console runs, whatever becomes of the daemon.

After a break it goes on with the record after the last that it has: nothing is missed and nothing comes twice, where
no more than 10,000 came meanwhile.
"""

import asyncio
import contextlib
import logging
import pathlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Self

import msgspec

from opensafe.client import Client, DaemonStatus, Review
from opensafe.errors import InvalidArgument, OpenSafeError
from opensafe.model.records import decode

from .board import Board
from .roles import REVIEWER, may
from .traces import Traces

_LOG: Final = logging.getLogger(__name__)

_STATUS_S: Final = 2.0
#: What goes on for so long is well again.
_WELL_S: Final = 1.0
_PAUSE_S: Final = (0.2, 3.0)
#: Records that a console which starts looks back.
_BACK: Final = 10_000
_REVIEWS_MAX: Final = 1000


class Feed:
    """One principal's view. Made by `following`. `changed` counts up with everything that is new.

    status: the last that the daemon told; None before it did. cpus: that sandboxes kept busy between the last two, for
    principals that are told.
    reviews: those that wait, as they came, for a reviewer; None for whoever is none. heard: the latest of every review
    that was told of, of their own calls for others; a list leaves out large arguments.
    over: the console stops.
    """

    def __init__(self, principal: str, socket: pathlib.Path) -> None:
        self.principal, self.socket = principal, socket
        self.board = Board()
        self.traces = Traces()
        self.status: DaemonStatus | None = None
        self.cpus: float | None = None
        self.reviews: dict[str, Review] | None = {}
        self.heard: OrderedDict[str, Review] = OrderedDict()
        self._faults: dict[str, str] = {}
        self._another_log = False
        self.changed = 0
        self.over = False
        self._news = asyncio.Condition()
        self.client: Client

    @classmethod
    @contextlib.asynccontextmanager
    async def following(cls, principal: str, socket: pathlib.Path) -> AsyncIterator[Self]:
        """Follow until the block ends."""
        feed = cls(principal, socket)
        async with Client.connect(socket) as feed.client:
            feed.traces.client = feed.client
            tasks = [asyncio.create_task(feed._kept(part)) for part in (feed._records, feed._reviews, feed._status)]
            try:
                yield feed
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def why_lost(self) -> str:
        """What keeps the screens from going on; "" while nothing does."""
        return next(iter(self._faults.values()), "")

    async def news(self, seen: int, timeout_s: float) -> int:
        """Wait until `changed` is not `seen`, at most so long; the number now."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._news:
                await self._news.wait_for(lambda: self.changed != seen)
        return self.changed

    async def tell(self) -> None:
        """Something is new."""
        self.changed += 1
        async with self._news:
            self._news.notify_all()

    async def end(self) -> None:
        """Nothing more will be shown: whoever waits for news is to go."""
        self.over = True
        await self.tell()

    async def _records(self) -> None:
        start = self.board.next
        if self._another_log:  # what is shown is of one that is gone
            start, self.board, self._another_log = 0, Board(), False
            self.traces.forget()
        told = self.client.tail_audit(0 if start else _BACK, follow=True, from_index=start or None)
        async for record in told:
            try:
                known = decode(record.line)
                self.board.take(record.index, known)
                self.traces.take(record.index, known)
            except (msgspec.DecodeError, RecursionError):  # of a newer daemon: not shown
                self.board.next = max(self.board.next, record.index + 1)
            await self.tell()

    async def _reviews(self) -> None:
        self.reviews = {} if may(await self.client.status(), REVIEWER) else None
        self.heard.clear()  # what became meanwhile of those that waited is not told any more
        async for review in self.client.watch_reviews():
            await self.hear(review)

    async def refresh(self, review_id: str) -> Review:
        """One review, whole, as it is now; what is kept of it is known, too. Raises NotFound."""
        review = await self.client.get_review(review_id)
        known = self.heard.get(review_id)
        await self.hear(msgspec.structs.replace(review, arguments=known.arguments if known else None))
        return review

    async def hear(self, review: Review) -> None:
        """A review as a list gives it, as it is now."""
        self.heard[review.review_id] = review
        self.heard.move_to_end(review.review_id)
        if len(self.heard) > _REVIEWS_MAX:
            self.heard.popitem(last=False)
        if self.reviews is not None:
            if review.state == "pending":
                self.reviews[review.review_id] = review
                if len(self.reviews) > _REVIEWS_MAX:  # those that wait longest stay
                    del self.reviews[next(reversed(self.reviews))]
            else:
                self.reviews.pop(review.review_id, None)
        await self.tell()

    async def _status(self) -> None:
        before: tuple[float, int] | None = None
        while True:
            self.status = await self.client.status()
            now, used = time.monotonic(), self.status.sandbox_cpu_ns
            if used is not None:
                self.cpus = max(0, used - before[1]) / 1e9 / (now - before[0]) if before else None
                before = (now, used)
            await self.tell()
            await asyncio.sleep(_STATUS_S)  # there is no event for load

    async def _kept(self, part: Callable[[], Awaitable[None]]) -> None:
        """Do it again and again; what ends it is told until it has gone on for a while, and waited after."""
        pause, name = _PAUSE_S[0], part.__name__
        while True:
            began = time.monotonic()
            well = asyncio.get_running_loop().call_later(_WELL_S, self._faults.pop, name, None)
            try:
                await part()
            except InvalidArgument as error:
                self._faults.setdefault(name, str(error))
                self._another_log = True
            except OpenSafeError as error:
                self._faults.setdefault(name, str(error))
            except Exception as error:  # noqa: BLE001 - one fault must not end what everybody looks at
                self._faults.setdefault(name, f"{type(error).__name__}: {error}")
                _LOG.exception("following the daemon failed")
            finally:
                well.cancel()
            await self.tell()
            if time.monotonic() - began > _PAUSE_S[1]:
                pause = _PAUSE_S[0]
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_S[1])
