"""What a request has to get past before a page sees it, and the headers that every answer carries.

A web page elsewhere can make a browser send requests to loopback: so Host and Origin are checked first. Bodies and
rates are bounded before anything is parsed.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Bytes of a form, and of a policy bundle that is sent in.
FORM_MAX: Final = 64 * 1024
#: Characters of a path with its query.
TARGET_MAX: Final = 4096
BUNDLE_MAX: Final = 17 * 1024 * 1024
UPLOADS: Final = "/policies/candidate"
#: Requests that one client may send at once, and how many more a second. Sign-ins have a bucket of their own.
BURST, RATE = 120.0, 40.0
SIGN_IN_BURST, SIGN_IN_RATE = 10.0, 0.2
_CLIENTS_MAX: Final = 1024

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class _Bucket:
    """Token buckets by client, the longest unused forgotten first."""

    def __init__(self, burst: float, rate: float, clock: Callable[[], float]) -> None:
        self._burst, self._rate, self._clock = burst, rate, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> bool:
        now = self._clock()
        left, since = self._left.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        self._left[client] = (max(left - 1, 0.0), now)
        while len(self._left) > _CLIENTS_MAX:
            self._left.popitem(last=False)
        return left >= 1


class Guard:
    """An ASGI middleware. names: what a Host header may say, in lower case, with the port where it is not the default.

    client: by what a request's sender is told from others for the rate, given the scope.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: frozenset[str],
        client: Callable[[Scope], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._names, self._client = app, names, client
        self._requests = _Bucket(BURST, RATE, clock)
        self._sign_ins = _Bucket(SIGN_IN_BURST, SIGN_IN_RATE, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI exchange."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_with)
            return
        limit = BUNDLE_MAX if scope["path"] == UPLOADS else FORM_MAX
        await self._app(scope, _bounded(receive, limit), send_with)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._names:
            return _no(421, "this console is not known under that Host; --allow-host NAME makes it so")
        if len(scope["path"]) + len(scope["query_string"]) > TARGET_MAX:
            return _no(414, f"a path and its query have at most {TARGET_MAX} characters")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _no(405, "GET, HEAD and POST are served")
        if scope["method"] == "POST":
            site = headers.get("sec-fetch-site", "same-origin")
            origin = headers.get("origin")
            if site != "same-origin" or (origin is not None and urlsplit(origin).netloc.lower() not in self._names):
                return _no(403, "forms are taken from this console's own pages alone")
        if not self._requests.take(self._client(scope)):
            return _no(429, f"more than {RATE:.0f} requests a second; wait a moment")
        if scope["path"] == "/sign-in" and scope["method"] == "POST" and not self._sign_ins.take("all"):
            return _no(429, "too many sign-ins; wait a minute")
        return None


class TooLargeError(Exception):
    """A body is longer than its limit."""


def _bounded(receive: Receive, limit: int) -> Receive:
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise TooLargeError(f"a request has at most {limit} bytes here")
        return message

    return bounded


def _no(status: int, why: str) -> PlainTextResponse:
    return PlainTextResponse(f"{why}\n", status)


async def too_large(request: Any, error: Exception) -> PlainTextResponse:  # noqa: ANN401, ARG001 - Starlette's form
    """The answer to TooLargeError."""
    return _no(413, str(error))
