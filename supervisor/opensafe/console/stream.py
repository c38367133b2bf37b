"""Server-sent events: regions of a screen as HTML, whenever they are other than the browser has them.

What is sent is the state as it is, so a browser that was away needs nothing of what it missed. One that does not
read is not waited for: the next state goes out when there is room.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

from starlette.responses import Response, StreamingResponse

from .feed import Feed

#: At most one state in so many seconds; and one after so many whatever happens, since ages are shown.
TICK_S: Final = 0.1
BEAT_S: Final = 1.0
#: A stream ends after so long, and the browser asks again: who it is for is looked at anew.
LIFE_S: Final = 600.0

#: Streams of one sign-in at once; a page beyond them shows what was when it was loaded.
STREAMS_MAX: Final = 12

Piece = TypeVar("Piece")

#: Draws the screen's regions, by the name of their event; asks the daemon first where they show what no record tells.
Regions = Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]


def events(feed: Feed, regions: Regions, lasts: Callable[[], bool]) -> StreamingResponse:
    """The stream of a screen, until the browser goes, the feed ends, or the session is over (an event `ended`)."""
    return StreamingResponse(_told(feed, regions, lasts), media_type="text/event-stream")


class Streams:
    """How many each sign-in has open."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def bounded(self, whose: str, answer: Response) -> Response:
        """The answer, if it is a stream: counted until its end, or empty where there are too many."""
        if not isinstance(answer, StreamingResponse):
            return answer
        if self._open[whose] >= STREAMS_MAX:
            return Response("retry: 30000\n\n", media_type="text/event-stream")
        answer.body_iterator = self._counted(whose, answer.body_iterator)
        return answer

    async def _counted(self, whose: str, pieces: AsyncIterable[Piece]) -> AsyncIterator[Piece]:
        self._open[whose] += 1
        try:
            async for piece in pieces:
                yield piece
        finally:
            self._open[whose] -= 1
            if not self._open[whose]:
                del self._open[whose]


async def _told(feed: Feed, regions: Regions, lasts: Callable[[], bool]) -> AsyncIterator[str]:
    sent: dict[str, int] = {}
    yield "retry: 500\n\n"
    seen, begun = -1, time.monotonic()
    while lasts():
        seen = await feed.news(seen, BEAT_S)
        if feed.over or time.monotonic() - begun > LIFE_S:
            return
        drawn = regions()
        state = ""
        for name, fragment in (drawn if isinstance(drawn, Mapping) else await drawn).items():
            known = hash(fragment)
            if sent.get(name) != known:
                sent[name] = known
                state += event(name, fragment, feed.board.next)
        if state:
            yield state  # in one piece: a browser that is gone is noticed behind each
        await asyncio.sleep(TICK_S)  # what comes meanwhile is one state
    yield event("ended", "", feed.board.next)


def event(name: str, data: str, identity: int) -> str:
    """One event in the form of the HTML standard, 9.2.6: each line of its data behind a field name."""
    lines = "\n".join(f"data: {line}" for line in data.splitlines() or [""])
    return f"event: {name}\nid: {identity}\n{lines}\n\n"
