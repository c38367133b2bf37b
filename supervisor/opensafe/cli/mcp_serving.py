"""What `opensafe mcp serve` does: the server of opensafe.mcp over a pipe or over HTTP, until its end or a signal."""

import asyncio
import pathlib
import signal
from collections.abc import Coroutine
from typing import Any

import msgspec

from opensafe.errors import InvalidArgument

from . import present
from .exits import Exit


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; http: "" for stdio."""

    http: str
    token_file: pathlib.Path | None
    no_token: bool
    allow_host: tuple[str, ...]
    sessions: int
    idle_s: int
    lease_s: int
    agent: str
    template: str
    network: str
    principal: str | None


def perform(wish: Serving) -> int:
    """Serve; the exit status. Raises InvalidArgument, NotPermitted, also where the extra `mcp` is not installed."""
    try:
        from opensafe import listening
        from opensafe.mcp import server, server_http, server_stdio
        from opensafe.mcp.server_place import Wish
    except ImportError as error:
        raise InvalidArgument(str(error)) from None

    made = server.build(
        Wish(
            agent=wish.agent,
            principal=wish.principal,
            template=wish.template,
            network=wish.network,
            lease_s=wish.lease_s,
        )
    )
    if not wish.http:
        if wish.token_file is not None or wish.no_token or wish.allow_host:
            raise InvalidArgument("tokens and hosts belong to HTTP", remedy="Give --http HOST:PORT, too.")
        return asyncio.run(_until_signal(server_stdio.serve(made)))
    if wish.token_file is None and not wish.no_token:
        raise InvalidArgument(
            "without a token every user of this host could act as this principal",
            remedy="Give --token-file FILE, or on loopback --no-token.",
        )
    host, port = listening.address(wish.http, example="127.0.0.1:8765")
    door = server_http.Door(
        host=host,
        port=port,
        token="" if wish.token_file is None else server_http.read_token(wish.token_file),
        names=wish.allow_host,
        sessions=wish.sessions,
        idle_s=float(wish.idle_s),
    )
    asyncio.run(server_http.serve(made, door, lambda url: present.say(f"serving MCP at {url}")))
    return Exit.OK


async def _until_signal(serving: Coroutine[Any, Any, None]) -> int:
    """Let SIGTERM end it as the client's leaving does, so that its sandbox ends, too."""
    task = asyncio.ensure_future(serving)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return Exit.TERMINATED
    return Exit.OK
