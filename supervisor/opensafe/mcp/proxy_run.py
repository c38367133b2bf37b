"""One run of the proxy: its session with the daemon, and what is done in it."""

import contextlib
import json
import logging
from collections.abc import AsyncIterator

from opensafe.client import Client
from opensafe.errors import OpenSafeError

from . import server_http, server_stdio
from .proxy import Proxy, Wish
from .proxy_places import tell
from .server_http import Door


async def run(client: Client, wish: Wish, door: Door | None = None) -> None:
    """Serve over standard input and output until the client is gone, or at `door` over HTTP until a signal."""
    async with _session(client, wish) as session_id, Proxy(client, session_id, wish).server() as server:
        if door is None:
            await server_stdio.serve(server)
        else:
            await server_http.serve(server, door, lambda url: tell(f"serving MCP at {url}"))


async def manifest(client: Client, wish: Wish) -> str:
    """The server's tools as entries of a tool manifest, each pinned to what it shows now."""
    async with _session(client, wish) as session_id:
        listing = await Proxy(client, session_id, wish).listing()
    entries = [
        {
            "name": tool.registered,
            "description": tool.tool.description or "",
            "schema": {"properties": {}, **tool.tool.input_schema, "additionalProperties": False},
            "facts": [],
            "risk": "high",
            "server": wish.server,
            "description_sha256": tool.digest,
        }
        for tool in listing.tools.values()
    ]
    for entry in entries:
        entry["schema"].pop("$schema", None)  # type: ignore[attr-defined] # it is the dict above
    return json.dumps(entries, indent=2)


@contextlib.asynccontextmanager
async def _session(client: Client, wish: Wish) -> AsyncIterator[str]:
    logging.getLogger("mcp").addHandler(logging.NullHandler())  # it would print what the server says
    logging.getLogger("client").addHandler(logging.NullHandler())
    for name in ("mcp", "client"):
        logging.getLogger(name).propagate = False
    session_id = await client.create_session(wish.agent)
    try:
        yield session_id
    finally:
        with contextlib.suppress(OpenSafeError):
            await client.close_session(session_id)
