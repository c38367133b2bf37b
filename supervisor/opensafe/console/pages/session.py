"""The screen Session: all sessions, and of one everything on record. What is newest of it is live."""

import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from opensafe.console.app import feed, lasts, number, of, signed_in
from opensafe.console.feed import Feed
from opensafe.console.page import Pages, size
from opensafe.console.stream import events
from opensafe.console.trace import Trace

#: Sessions of a page, and steps of a trace.
SESSIONS_SHOWN: Final = 50
STEPS_SHOWN: Final = 100
#: Files, peers and sandboxes that are shown, the last first.
PARTS_SHOWN: Final = 200
REGIONS: Final = ("head", "budget", "files", "network", "sandboxes", "trace")
_FILTER_MAX: Final = 100


def routes() -> list[Route]:
    """GET /sessions and /sessions/ID, and their streams."""
    return [
        Route("/sessions", signed_in(show_all), methods=["GET"]),
        Route("/sessions/events", signed_in(follow_all), methods=["GET"]),
        Route("/sessions/{id}", signed_in(show), methods=["GET"]),
        Route("/sessions/{id}/events", signed_in(follow), methods=["GET"]),
    ]


async def show_all(request: Request) -> Response:
    """The list; `id` leads to that session."""
    if wanted := request.query_params.get("id", "").strip():
        return RedirectResponse(f"/sessions/{quote(wanted, safe='')}", 303)
    return of(request).pages.answer(request, "sessions.html", **_listed(feed(request), request.query_params))


async def follow_all(request: Request) -> Response:
    """The list as it changes."""
    pages, language, source, query = of(request).pages, request.state.language, feed(request), request.query_params

    def regions() -> Mapping[str, str]:
        return {"list": pages.draw("session/list.html", language, _listed(source, query))}

    return events(source, regions, lasts(request))


async def show(request: Request) -> Response:
    """One session. before: only steps before that index. Raises NotFound, Unavailable."""
    before = number(request.query_params.get("before", ""))
    traces, name = feed(request).traces, request.path_params["id"]
    trace = await (traces.before(name, before) if before else traces.of(name))
    values = _values(feed(request), trace, before)
    return of(request).pages.answer(request, "session.html", before=before, **values)


async def follow(request: Request) -> Response:
    """The newest part of one session, as it changes. Raises NotFound, Unavailable."""
    pages, language, source = of(request).pages, request.state.language, feed(request)
    name = request.path_params["id"]
    await source.traces.of(name)
    drawn = _Drawn()

    async def regions() -> Mapping[str, str]:
        return drawn.of(pages, language, source, await source.traces.of(name))

    return events(source, regions, lasts(request))


class _Drawn:
    """A session's regions as they were drawn last: they stay so while nothing of it is new."""

    def __init__(self) -> None:
        self._at: tuple[int, int, bool] = (-1, -1, False)
        self._kept: dict[str, str] = {}

    def of(self, pages: Pages, language: str, source: Feed, trace: Trace) -> Mapping[str, str]:
        at = (trace.next, time.time_ns() // 10**10, not source.why_lost)  # ages move on every ten seconds
        if at != self._at:
            self._at = at
            values = _values(source, trace, 0)
            self._kept = {name: pages.draw(f"session/{name}.html", language, values) for name in REGIONS}
        return self._kept


def _listed(source: Feed, query: Mapping[str, str]) -> dict[str, Any]:
    agent, principal = query.get("agent", "")[:_FILTER_MAX], query.get("principal", "")[:_FILTER_MAX]
    known = [one for one in reversed(source.board.sessions.values()) if one.id]
    found = [one for one in known if agent in ("", one.agent) and principal in ("", one.principal)]
    last = max(0, len(found) - 1) // SESSIONS_SHOWN + 1
    page = min(number(query.get("page", "")) or 1, last)
    return {
        "sessions": found[(page - 1) * SESSIONS_SHOWN : page * SESSIONS_SHOWN],
        "found": len(found),
        "known": len(known),
        "agents": sorted({one.agent for one in known if one.agent} | ({agent} - {""})),
        "principals": sorted({one.principal for one in known if one.principal} | ({principal} - {""})),
        "agent": agent,
        "principal": principal,
        "page": page,
        "last": last,
    }


def _values(source: Feed, trace: Trace, before: int) -> dict[str, Any]:
    """before: 0 for the newest steps."""
    steps = [one for one in trace.steps if not before or one.index < before]
    shown = steps[-STEPS_SHOWN:][::-1]
    more = len(steps) > STEPS_SHOWN or bool(trace.older)
    return {
        "feed": source,
        "trace": trace,
        "budget": _budget(trace),
        "steps": shown,
        "older": shown[-1].index if shown and more else trace.older if more else 0,
        "files": list(reversed(trace.files.values()))[:PARTS_SHOWN],
        "places": list(reversed(trace.places.values()))[:PARTS_SHOWN],
        "sandboxes": list(reversed(trace.sandboxes.values()))[:PARTS_SHOWN],
    }


class _Spent(msgspec.Struct, frozen=True):
    """A line of the budget, in the units of people. limit: "" where the session has none of its own."""

    name: str
    used: str
    limit: str
    share: float


def _budget(trace: Trace) -> list[_Spent]:
    """What was used of, or is limited; calls in any case."""
    rows: list[_Spent] = []
    for name, used in trace.used.items():
        limit = trace.limits.get(name)
        if used or limit is not None or name == "calls":
            share = 0.0 if limit is None else used / limit if limit else 1.0
            rows.append(_Spent(name, _amount(name, used), "" if limit is None else _amount(name, limit), share))
    return rows


def _amount(name: str, number: int) -> str:
    if name.endswith("_bytes"):
        return size(number)
    return f"{number / 10**6:.4f}" if name == "cost_microusd" else str(number)
