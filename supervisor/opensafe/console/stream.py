"""Server-sent events: regions of a screen as HTML, whenever they are other than the browser has them.

What is sent is the state as it is, so a browser that was away needs nothing of what it missed. One that does not
read is not waited for: the next state goes out when there is room.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from starlette.responses import StreamingResponse

from .feed import Feed

#: At most one state in so many seconds; and one after so many whatever happens, since ages are shown.
TICK_S: Final = 0.1
BEAT_S: Final = 1.0
#: A stream ends after so long, and the browser asks again: who it is for is looked at anew.
LIFE_S: Final = 600.0

#: Draws the screen's regions, by the name of their event; asks the daemon first where they show what no record tells.
Regions = Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]


def events(feed: Feed, regions: Regions, lasts: Callable[[], bool]) -> StreamingResponse:
    """The stream of a screen, until the browser goes, the feed ends, or the session is over (an event `ended`)."""
    return StreamingResponse(_told(feed, regions, lasts), media_type="text/event-stream")


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
