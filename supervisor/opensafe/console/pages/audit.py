"""The screen Audit: the record searched, one record with its proof, verification and evidence."""

import re
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from opensafe.client import AuditRecord, Client
from opensafe.console import inclusion
from opensafe.console.app import feed, form, number, of, signed_in
from opensafe.console.found import found
from opensafe.console.page import pretty
from opensafe.console.reports import stamp
from opensafe.console.roles import AUDITOR, may
from opensafe.errors import AuditError, Conflict, InvalidArgument, NotFound, OpenSafeError
from opensafe.model.decision import Action
from opensafe.model.records import KINDS

PAGE: Final = 50
#: Findings of a verification that are shown.
FINDINGS_MAX: Final = 200
_FIELDS: Final = ("kind", "action", "rule", "session", "call", "principal", "text", "since", "until")
_INDEX_MAX: Final = 2**53


def routes() -> list[Route]:
    """GET /audit, /audit/records/INDEX and its files; POST /audit/verify, /audit/evidence."""
    return [
        Route("/audit", signed_in(search), methods=["GET"]),
        Route("/audit/records/{index:int}", signed_in(record), methods=["GET"]),
        Route("/audit/records/{index:int}/proof", signed_in(proof), methods=["GET"]),
        Route("/audit/records/{index:int}/proof.json", signed_in(proof_file), methods=["GET"]),
        Route("/audit/records/{index:int}/line.json", signed_in(line_file), methods=["GET"]),
        Route("/audit/verify", signed_in(verify), methods=["POST"]),
        Route("/audit/evidence", signed_in(evidence), methods=["POST"]),
    ]


async def search(request: Request) -> Response:
    """The form, and a page of what matches. Raises InvalidArgument, Unavailable."""
    client, asked = feed(request).client, {name: request.query_params.get(name, "").strip() for name in _FIELDS}
    before = number(request.query_params.get("before", ""))
    page = await client.search_audit(
        session_id=asked["session"],
        call_id=asked["call"],
        principal=asked["principal"],
        kinds=(asked["kind"],) if asked["kind"] in KINDS else (),
        action=Action(asked["action"]) if asked["action"] in tuple(Action) else None,
        rule=asked["rule"],
        text=asked["text"],
        since_us=_moment(asked["since"]),
        until_us=_moment(asked["until"]),
        before_index=before,
        page_size=PAGE,
    )
    kept = {name: value for name, value in asked.items() if value}
    values: dict[str, Any] = {
        "asked": asked,
        "filtered": bool(kept),
        "kinds": KINDS,
        "actions": tuple(Action),
        "rows": [found(one) for one in page.records],
        "before": before,
        "next_before": page.next_before,
        "older": f"/audit?{urlencode(kept | {'before': page.next_before})}",
        "newest": f"/audit?{urlencode(kept)}" if kept else "/audit",
        "sees_all": may(feed(request).status, AUDITOR),
    }
    return of(request).pages.answer(request, "audit.html", **values)


async def record(request: Request) -> Response:
    """One record as it stands in the log. Raises NotFound, Unavailable."""
    one = await _record(feed(request).client, _index(request))
    return _answer(request, "record", {"index": one.index, "leaf": one.leaf, "text": pretty(one.line)})


async def proof(request: Request) -> Response:
    """Its proof, checked here. Raises NotFound, Unavailable."""
    client, index = feed(request).client, _index(request)
    one = await _record(client, index)
    values: dict[str, Any] = {"index": index, "leaf": one.leaf, "proven": None, "unsigned": "", "broken": ""}
    try:
        values["proven"] = inclusion.check(await client.prove_record(index), index, one.line, of(request).key)
    except Conflict as error:
        values["unsigned"] = str(error)
    except AuditError as error:
        values["broken"] = str(error)
    return _answer(request, "proof", values)


async def proof_file(request: Request) -> Response:
    """Its proof as a file, for `opensafe audit verify --proof`. Raises NotFound, Conflict, Unavailable."""
    index = _index(request)
    return _file(await feed(request).client.prove_record(index), f"opensafe-proof-{index}.json")


async def line_file(request: Request) -> Response:
    """Its line as a file. Raises NotFound, Unavailable."""
    index = _index(request)
    return _file((await _record(feed(request).client, index)).line, f"opensafe-record-{index}.json")


async def verify(request: Request) -> Response:
    """Have the daemon verify its record now. What it refuses is shown in the result's place."""
    await form(request)
    began = time.monotonic()
    values: dict[str, Any] = {"report": None, "refused": "", "shown": FINDINGS_MAX}
    try:
        values["report"] = await feed(request).client.verify_audit()
    except OpenSafeError as error:
        values["refused"] = str(error)
    return _answer(request, "verified", values | {"took_ns": int((time.monotonic() - began) * 1e9)})


async def evidence(request: Request) -> Response:
    """Evidence as a download. Raises NotPermitted, NotFound, InvalidArgument, Unavailable."""
    session = (await form(request)).get("session", "").strip()
    pieces = feed(request).client.export_evidence(session_id=session)
    first = await anext(pieces, b"")  # what refuses it makes a page, and no broken file
    named = re.sub(r"[^A-Za-z0-9_-]", "_", session)[:80] or "log"
    name = f"opensafe-evidence-{named}-{stamp(datetime.now(UTC))}.tar.gz"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_all(first, pieces), media_type="application/gzip", headers=headers)


async def _all(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _record(client: Client, index: int) -> AuditRecord:
    page = await client.search_audit(before_index=index + 1, page_size=1)
    if not page.records or page.records[0].index != index:
        raise NotFound("there is no such record, or it is not yours to see", value=index)
    return page.records[0]


def _index(request: Request) -> int:
    index = int(request.path_params["index"])
    if index >= _INDEX_MAX:
        raise NotFound("no record has such an index", value=index)
    return index


def _moment(text: str) -> int:
    """A time of the form, in UTC, as microseconds; 0 for none. Raises InvalidArgument."""
    if not text:
        return 0
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument("no time", value=text, remedy="Write it as 2026-01-31T12:00.") from None
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 10**6)


def _answer(request: Request, name: str, values: Mapping[str, Any]) -> Response:
    """A part that htmx asked for, else a page with that part."""
    part = f"audit/{name}.html"
    if request.headers.get("hx-request"):
        return of(request).pages.answer(request, part, **values)
    return of(request).pages.answer(request, "audit_part.html", part=part, **values)


def _file(content: bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/json", headers=headers)
