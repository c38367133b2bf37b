"""What opens in a session: a call with all that is on record of it, and why it was judged so."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opensafe.console.app import feed, of, signed_in
from opensafe.console.page import pretty
from opensafe.errors import NotFound
from opensafe.model import records
from opensafe.model.explanation import Explanation
from opensafe.model.records import DecisionRecord, Record

_INDEX_MAX = 2**53


def routes() -> list[Route]:
    """GET /sessions/ID/calls/INDEX."""
    return [Route("/sessions/{id}/calls/{index:int}", signed_in(show), methods=["GET"])]


async def show(request: Request) -> Response:
    """A call or a refusal, by the index of its record: the part that htmx asked for, else a page with it.

    Raises NotFound, Unavailable.
    """
    source, name, index = feed(request), request.path_params["id"], min(request.path_params["index"], _INDEX_MAX)
    found = await source.traces.record(name, index)
    step = (await source.traces.before(name, index + 1)).step(index)
    values: dict[str, Any] = {
        "session": name,
        "index": index,
        "step": step,
        "records": step.records if step else [index],
        "decided": None,
        "explained": None,
    }
    try:
        record: Record | None = records.decode(found.line)
    except (msgspec.DecodeError, RecursionError):  # of a newer daemon
        record = None
    if isinstance(record, DecisionRecord):
        deciding = {id(hit) for hit in record.result.deciding()}
        values["decided"] = record
        values["rules"] = sorted(record.result.rules, key=lambda hit: (id(hit) not in deciding, hit.id))
        values["arguments"] = pretty(msgspec.json.encode(record.input.call.arguments))
        values["explained"] = await _explained(request, record.decision_id)
    if request.headers.get("hx-request"):
        return of(request).pages.answer(request, "session/call.html", **values)
    return of(request).pages.answer(request, "session_call.html", **values)


async def _explained(request: Request, decision_id: str) -> Explanation | None:
    """None for one that the daemon has no longer in mind."""
    try:
        return await feed(request).client.explain(decision_id)
    except NotFound:
        return None
