"""The application put together: who is asked for a sign-in, which screens there are, and what becomes of errors."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, cast
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from opensafe.errors import OpenSafeError
from opensafe.model.canonical import MAX_SAFE_INTEGER
from opensafe.model.checkpoint import VerifierKey

from . import guard, stream, words
from .assets import Assets
from .candidates import Candidates
from .feed import Feed
from .guard import Guard
from .notices import Notices
from .page import Pages
from .proving import Proving
from .signing_in import Doorkeeper, Person
from .stream import Streams

COOKIE: Final = "opensafe_console"
LANGUAGE: Final = "opensafe_language"


class Console(msgspec.Struct, kw_only=True):
    """What handlers work with: at `request.app.state.console`.

    feeds: by principal. candidates: bundles that people try. header: by which a proxy in front names its user; ""
    where there is none. secure: browsers reach it over TLS (a proxy ends it), so cookies are for TLS alone. notices:
    what people are told of what they did, on the page that follows. proving: reports and runs of proof. key: by which
    the audit log's checkpoints have to be signed; None where nobody said. streams: how many who has open.
    """

    doors: Doorkeeper
    feeds: Mapping[str, Feed]
    pages: Pages
    candidates: Candidates
    proving: Proving = msgspec.field(default_factory=Proving)
    key: VerifierKey | None = None
    header: str = ""
    secure: bool = False
    notices: Notices = msgspec.field(default_factory=Notices)
    streams: Streams = msgspec.field(default_factory=Streams)


Handler = Callable[[Request], Awaitable[Response]]


def of(request: Request) -> Console:
    """The console that the request came to."""
    return cast("Console", request.app.state.console)


def person(request: Request) -> Person:
    """Who asks, signed in."""
    return cast("Person", request.state.person)


def feed(request: Request) -> Feed:
    """What whoever asks may see."""
    return of(request).feeds[person(request).principal]


def lasts(request: Request) -> Callable[[], bool]:
    """Whether the session of whoever asks is not over."""
    if person(request).vouched:
        return lambda: True
    cookie = request.cookies.get(COOKIE, "")
    return lambda: of(request).doors.live(cookie)


async def form(request: Request) -> dict[str, str]:
    """A form's fields; the last counts where a name comes twice. Raises HTTPException without its CSRF token."""
    fields = await fields_of(request)
    confirm(request, fields.get("csrf", "") or request.headers.get("x-csrf-token", ""))
    return fields


async def fields_of(request: Request) -> dict[str, str]:
    """The fields of a form that needs no token. Raises HTTPException."""
    text = (await request.body()).decode(errors="replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=64))
    except ValueError:
        raise HTTPException(400, "a form has at most 64 fields") from None


def number(text: str) -> int:
    """A number out of a URL, at most what canonical JSON has; 0 where it is none."""
    return min(int(text), MAX_SAFE_INTEGER) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def confirm(request: Request, token: str) -> None:
    """Raises HTTPException unless the token is the one of this person's pages."""
    if not hmac.compare_digest(token.encode(), person(request).csrf.encode()):
        raise HTTPException(403, "this form is not from a page of this session; load the page again")


def signed_in(handler: Handler) -> Handler:
    """Only for people who are signed in; the others are sent to sign in."""

    async def handle(request: Request) -> Response:
        console, streams = of(request), request.url.path.endswith("/events")
        if console.header:
            found: Person | None = _vouched(request)
        else:
            found = console.doors.find(request.cookies.get(COOKIE, ""), by_person=not streams)
        if found is None and streams:
            return Response(stream.event("ended", "", 0), media_type="text/event-stream")
        if found is None:
            if request.headers.get("hx-request"):
                return Response(status_code=204, headers={"HX-Redirect": "/sign-in"})
            return RedirectResponse("/sign-in", 303)
        request.state.person = found
        answer = await handler(request)
        return console.streams.bounded(found.id, answer) if streams else answer

    return handle


def _vouched(request: Request) -> Person:
    """Whom the proxy names, exactly once. Raises HTTPException."""
    users = request.headers.getlist(of(request).header)
    found = of(request).doors.vouched(users[0]) if len(users) == 1 else None
    if found is None:
        raise HTTPException(403, f"no principal of this console is for {users!r}")
    return found


def set_cookie(console: Console, response: Response, name: str, value: str, *, script: bool = False) -> None:
    """One that only this site sends back, and no script reads."""
    response.set_cookie(name, value, path="/", httponly=not script, samesite="strict", secure=console.secure)


def build(console: Console, names: frozenset[str], routes: list[Route], assets: Assets) -> Starlette:
    """The ASGI application. names: what a Host header may say."""
    app = Starlette(
        routes=[Route("/assets/{hash}/{name:path}", assets.serve), *routes],
        middleware=[Middleware(Guard, names=names, client=_client), Middleware(_Languages)],
        exception_handlers={
            guard.TooLargeError: guard.too_large,
            HTTPException: _refused,
            OpenSafeError: _failed,
        },
    )
    app.router.redirect_slashes = False
    app.state.console = console
    return app


class _Languages:
    """Notes the language to answer in."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: object, send: object) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            request.state.language = words.chosen(
                request.cookies.get(LANGUAGE), request.headers.get("accept-language", "")
            )
        await self._app(scope, receive, send)


def _client(scope: Scope) -> str:
    """A session has a rate of its own; those without one share that of their address."""
    request = Request(scope)
    cookie, peer = request.cookies.get(COOKIE), scope.get("client")
    console = cast("Console", scope["app"].state.console)
    if (header := console.header) and (user := request.headers.get(header)):
        return f"user {user}"
    return f"session {hash(cookie)}" if cookie and console.doors.live(cookie) else f"peer {peer[0] if peer else 'unix'}"


async def _refused(request: Request, error: Exception) -> Response:
    """A page that says what is wrong."""
    wrong = cast("HTTPException", error)
    return of(request).pages.answer(request, "refused.html", status=wrong.status_code, why=wrong.detail, remedy="")


async def _failed(request: Request, error: Exception) -> Response:
    """What the daemon refused, in its words."""
    wrong = cast("OpenSafeError", error)
    status = {"NOT_PERMITTED": 403, "NOT_FOUND": 404, "UNAVAILABLE": 503}.get(wrong.reason, 400)
    return of(request).pages.answer(request, "refused.html", status=status, why=str(wrong), remedy="")
