"""The proxy of a site that has no other way out: tunnels (CONNECT) and requests in absolute form, each told.

It resolves names itself, by the plan, as such proxies do. What it says in its own name it signs as Squid does, so that
a guest that hears it can be told from one that hears a server.
"""

import asyncio
import contextlib
import urllib.parse
from collections.abc import Callable
from typing import Final

from . import plan, web

_CHUNK: Final = 64 * 1024
#: Its own words, which nobody in a sandbox may hear.
MARK: Final = "squid-of-world"
_OWN: Final = f"Server: {MARK}\r\nVia: 1.1 {MARK}\r\nX-Squid-Error: ERR_{MARK} 0\r\nContent-Length: {len(MARK)}\r\n"


async def serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[web.Request, str], None]
) -> None:
    """Answer until the client is done. seen: told of each request and the host that it is for.

    Raises what the streams raise; ValueError for what is no request.
    """
    while request := await web.read(reader):
        method, target = request.line.decode("latin-1").split()[:2]
        tunnel = method == "CONNECT"
        url = urllib.parse.urlsplit(f"//{target}" if tunnel else target)
        name = url.hostname or ""
        seen(request, name)
        if refusal := _refusal(name, request.fields.get("proxy-authorization", "")):
            writer.write(f"HTTP/1.1 {refusal}\r\nProxy-Authenticate: Basic realm={MARK}\r\n{_OWN}\r\n{MARK}".encode())
            continue
        address = (plan.addresses(name, 0) or (plan.DENIED,))[0]
        theirs, to_them = await asyncio.open_connection(address, url.port or plan.HTTP)
        try:
            if tunnel:
                writer.write(f"HTTP/1.1 200 Connection established\r\nVia: 1.1 {MARK}\r\n\r\n".encode())
                await _splice((reader, writer), (theirs, to_them))
                return
            await _pass_on(request, url.path, theirs, to_them, writer)
        finally:
            to_them.close()


def _refusal(name: str, authorization: str) -> str:
    if name.startswith("unwanted."):
        return "403 Forbidden"
    if name.startswith("known.") and authorization != plan.PROXY_AUTHORIZATION:
        return "407 Proxy Authentication Required"
    return ""


async def _pass_on(
    request: web.Request,
    path: str,
    theirs: asyncio.StreamReader,
    to_them: asyncio.StreamWriter,
    writer: asyncio.StreamWriter,
) -> None:
    """One request without a body, and its answer, to which it adds its own fields."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in request.fields.items() if name != "proxy-authorization")
    method = request.line.split()[0].decode("latin-1")
    to_them.write(f"{method} {path or '/'} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n".encode("latin-1"))
    writer.write(await theirs.readline() + f"Via: 1.1 {MARK}\r\nX-Cache: MISS from {MARK}\r\n".encode())
    await _copy(theirs, writer)


async def _splice(*ends: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    (near, to_near), (far, to_far) = ends
    copying = [asyncio.ensure_future(_copy(near, to_far)), asyncio.ensure_future(_copy(far, to_near))]
    try:
        await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in copying:
            one.cancel()
        await asyncio.gather(*copying, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
