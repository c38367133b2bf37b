"""The MCP server over streamable HTTP: who may ask, from where, and how much.

A listener speaks as one principal to whoever reaches it, so every request carries a token. Host and Origin are checked
before anything else is looked at, since a web page can make a browser send requests to loopback under a name of its
own. A session is one `Mcp-Session-Id`; the protocol of 2026 has none over HTTP, so it is not spoken here and clients
fall back.
"""

import hmac
import json
import os
import pathlib
import stat
from collections.abc import Callable
from typing import Any, Final

import mcp_types as types
import msgspec
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from opensafe import listening
from opensafe.errors import InvalidArgument, NotPermitted

from .server_place import Places

PATH: Final = "/mcp"
#: Bytes of one request's body.
MAX_BODY: Final = 8 * 1024 * 1024
#: Connections at once, each with one body at most.
MAX_CONNECTIONS: Final = 64
#: Bytes of a larger body that are read past, so that its sender gets to read the answer.
_DISCARDED: Final = 64 * 1024 * 1024
MIN_TOKEN: Final = 16
_MAX_TOKEN: Final = 4096

Scope = dict[str, Any]


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen and for whom. token: "" for everybody who reaches it, which only loopback may have.

    names: what a Host header may say beside the address itself. idle_s: how long a session lives without a request.
    """

    host: str
    port: int
    token: str
    names: tuple[str, ...] = ()
    sessions: int = 16
    idle_s: float = 300.0


def read_token(path: pathlib.Path) -> str:
    """The token in a file that is its owner's alone. Raises InvalidArgument, NotPermitted."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InvalidArgument(f"the token file can't be opened: {error.strerror}", value=path) from error
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise InvalidArgument("the token file is no regular file", value=path)
        if about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o077:
            raise NotPermitted(
                "others may read or change the token file",
                value=f"{path}, mode {about.st_mode & 0o777:04o}, owner {about.st_uid}",
                remedy=f"chown it to the user that serves, and chmod 600 {path}.",
            )
        content = os.read(descriptor, _MAX_TOKEN + 2)
    finally:
        os.close(descriptor)
    token = content.strip().decode("ascii", "replace")
    if not MIN_TOKEN <= len(token) <= _MAX_TOKEN or not token.isprintable() or not token.isascii() or " " in token:
        raise InvalidArgument(
            "the token file holds no token",
            value=path,
            limit=f"{MIN_TOKEN} to {_MAX_TOKEN} characters of ASCII in one line",
            remedy="Make one: `(umask 077; openssl rand -hex 32 >FILE)`.",
        )
    return token


async def serve(server: Server[Places], door: Door, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. ready: is told the URL. Raises NotPermitted, InvalidArgument."""
    if not door.token and not listening.is_loopback(door.host):
        raise NotPermitted(
            "beyond loopback nobody is served without a token", value=door.host, remedy="Give --token-file FILE."
        )
    with listening.listener(door.host, door.port, MAX_CONNECTIONS) as listener:
        port = listener.getsockname()[1]
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=MAX_BODY,
            session_idle_timeout=door.idle_s,
            max_sessions=door.sessions,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate does it
        )
        config = uvicorn.Config(
            Gate(app, door, port),
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="on",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
        ready(f"{listening.url(door.host, port)}{PATH}")
        await uvicorn.Server(config).serve(sockets=[listener])


class Gate:
    """What a request has to get past before the protocol sees it."""

    def __init__(self, app: Any, door: Door, port: int) -> None:  # noqa: ANN401 - an ASGI application
        self._app = app
        self._token = door.token.encode()
        self._hosts = listening.known_as(door.host, port, door.names)
        self._origins = {f"{scheme}://{host}" for scheme in ("http", "https") for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's
        """One ASGI exchange."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, headers, body = refusal
        if status == 413:
            await _discard(receive)  # a connection closed on unread bytes is reset, and the answer with it
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> tuple[int, list[tuple[bytes, bytes]], bytes] | None:
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.lower(), []).append(value)
        hosts, origins = given.get(b"host", []), given.get(b"origin", [])
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._hosts:
            return 421, [], _body("this server is not known under that Host; `--allow-host NAME` makes it so")
        if any(origin.decode("latin-1").lower() not in self._origins for origin in origins):
            return 403, [], _body("pages of that Origin are not served")
        if not self._authorized(given.get(b"authorization", [])):
            return 401, [(b"www-authenticate", b'Bearer realm="opensafe"')], _body("a valid bearer token is needed")
        if any(not length.isdigit() or int(length) > MAX_BODY for length in given.get(b"content-length", [])):
            return 413, [], _body(f"a request has at most {MAX_BODY} bytes; send it in parts")
        versions = given.get(b"mcp-protocol-version", [])
        if any(version.decode("latin-1") not in HANDSHAKE_PROTOCOL_VERSIONS for version in versions):
            supported = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": versions[0].decode("latin-1")}
            return 400, [], _body("sessions are needed: initialize one", types.UNSUPPORTED_PROTOCOL_VERSION, supported)
        return None

    def _authorized(self, headers: list[bytes]) -> bool:
        if not self._token:
            return True
        if len(headers) != 1:
            return False
        scheme, _, token = headers[0].partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


def _body(message: str, code: int = types.INVALID_REQUEST, data: dict[str, Any] | None = None) -> bytes:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()


async def _discard(receive: Any) -> None:  # noqa: ANN401 - ASGI's
    size = 0
    while size < _DISCARDED:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            return
