"""The screen Compare: two sessions' calls side by side."""

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opensafe.console.app import feed, of, signed_in
from opensafe.console.compared import calls_of, compare

#: Characters of a session's id.
_ID_MAX: Final = 100


def routes() -> list[Route]:
    """GET /compare."""
    return [Route("/compare", signed_in(show), methods=["GET"])]


async def show(request: Request) -> Response:
    """a, b: the sessions; without both the lists to choose from alone. Raises NotFound, Unavailable."""
    source, query = feed(request), request.query_params
    a, b = query.get("a", "").strip()[:_ID_MAX], query.get("b", "").strip()[:_ID_MAX]
    values: dict[str, Any] = {"a": a, "b": b, "only": query.get("only") == "1", "found": None}
    values["sessions"] = [one for one in reversed(source.board.sessions.values()) if one.id]
    if a and b:
        left, right = await source.traces.of(a), await source.traces.of(b)
        values["older"] = left.older or right.older
        values["found"] = await asyncio.to_thread(compare, calls_of(left), calls_of(right))
    return of(request).pages.answer(request, "compare.html", **values)
