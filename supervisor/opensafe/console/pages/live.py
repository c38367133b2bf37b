"""The screen Live: the last violation, rules of the last five minutes, the runtime, calls of one session or all."""

import time
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opensafe.console.app import feed, lasts, of, person, signed_in
from opensafe.console.feed import Feed
from opensafe.console.page import Pages
from opensafe.console.stream import events

REGIONS = ("banner", "rules", "runtime", "trace")
#: Calls that the screen shows, the newest first.
SHOWN = 40
_RULES_SHOWN = 20
_SESSIONS_SHOWN = 8


def routes() -> list[Route]:
    """GET / and its stream."""
    return [Route("/", signed_in(show), methods=["GET"]), Route("/live/events", signed_in(follow), methods=["GET"])]


async def show(request: Request) -> Response:
    """The whole screen."""
    wanted = request.query_params.get("session", "")
    values = _values(feed(request), wanted)
    return of(request).pages.answer(request, "live.html", **values)


async def follow(request: Request) -> Response:
    """Its regions, as they change."""
    pages, language = of(request).pages, request.state.language
    source, wanted = feed(request), request.query_params.get("session", "")
    values = {"person": person(request)}

    def regions() -> Mapping[str, str]:
        return _regions(pages, language, values | _values(source, wanted))

    return events(source, regions, lasts(request))


def _regions(pages: Pages, language: str, values: Mapping[str, object]) -> Mapping[str, str]:
    return {name: pages.draw(f"live/{name}.html", language, values) for name in REGIONS}


def _values(source: Feed, wanted: str) -> dict[str, Any]:
    """wanted: the session to show; "" for all."""
    board, now_us = source.board, time.time_ns() // 1000
    session = board.sessions.get(wanted)
    calls = session.calls if session else () if wanted else board.calls
    return {
        "feed": source,
        "board": board,
        "violation": board.violation,
        "rules": board.rules(now_us)[:_RULES_SHOWN],
        "runs": board.runs_per_s(now_us),
        "wanted": wanted,
        "session": session,
        "active": board.active(_SESSIONS_SHOWN),
        "calls": list(calls)[-SHOWN:][::-1],
    }
