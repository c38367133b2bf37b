"""HTTP/1.1 (RFC 9112) as far as clients of the suite need it, and a WebSocket (RFC 6455) that echoes.

The servers are written by hand because they must log what a library would tidy up: the request line and the Host field
as they were sent, and the bytes of requests that are none.
"""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

_HEAD_MAX: Final = 64 * 1024
_BODY_MAX: Final = 1 << 30
_CHUNK: Final = 64 * 1024
_FRAME_MAX: Final = 0xFFFF
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Request(msgspec.Struct, frozen=True):
    """One request's head. line: as sent. fields: by lower-case name; of a repeated one the last."""

    line: bytes
    fields: dict[str, str]

    @property
    def path(self) -> str:
        """The target without query; of the absolute form the path alone."""
        words = self.line.split()
        target = words[1].decode("latin-1") if len(words) > 1 else ""
        if "://" in target:
            target = "/" + target.partition("://")[2].partition("/")[2]
        return target.partition("?")[0]

    @property
    def query(self) -> str:
        """What follows the question mark."""
        return self.line.decode("latin-1").partition("?")[2].partition(" ")[0]

    @property
    def host(self) -> str:
        """The Host field as sent."""
        return self.fields.get("host", "")


async def serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    pages: Mapping[str, bytes],
    seen: Callable[[Request], None],
) -> None:
    """Answer requests until the client is done. Raises what the streams raise; ValueError for what is no request."""
    while head := await _head(reader):
        request = _parse(head)
        seen(request)
        if request.fields.get("upgrade", "").lower() == "websocket":
            await _websocket(reader, writer, request)
            return
        size = await _body(reader, request)
        await _answer(writer, request, pages, size)
        if request.fields.get("connection", "").lower() == "close":
            return


async def read(reader: asyncio.StreamReader) -> Request | None:
    """The head of the next request, None where there is none. Raises as `serve` does."""
    head = await _head(reader)
    return _parse(head) if head else None


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as ended:
        if ended.partial:
            raise ValueError("no request") from None
        return b""


def _parse(head: bytes) -> Request:
    first, *lines = head[:_HEAD_MAX].split(b"\r\n")
    fields = {}
    for line in lines:
        name, _, value = line.decode("latin-1").partition(":")
        if name:
            fields[name.lower()] = value.strip()
    if not first.rpartition(b" ")[2].startswith(b"HTTP/1."):
        raise ValueError("no request")
    return Request(first, fields)


async def _body(reader: asyncio.StreamReader, request: Request) -> int:
    """Read and count it."""
    if request.fields.get("transfer-encoding", "").lower() == "chunked":
        total = 0
        while size := int((await reader.readline()).partition(b";")[0], 16):
            total += size
            await reader.readexactly(size + 2)
        await reader.readline()
        return total
    length = min(int(request.fields.get("content-length", "0")), _BODY_MAX)
    left = length
    while left:
        read = await reader.read(min(left, _CHUNK))
        if not read:
            raise ValueError("the body is cut off")
        left -= len(read)
    return length


async def _answer(writer: asyncio.StreamWriter, request: Request, pages: Mapping[str, bytes], size: int) -> None:
    if request.path == "/redirect":
        writer.write(f"HTTP/1.1 302 Found\r\nLocation: {request.query}\r\nContent-Length: 0\r\n\r\n".encode("latin-1"))
    elif request.path == "/echo":
        echo = f"X-Echo: {request.fields.get('authorization', '')}\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\n{echo}X-Other: 1\r\n{echo}Content-Length: 0\r\n\r\n".encode("latin-1"))
    elif request.path.startswith("/bytes/"):
        await _bulk(writer, int(request.path.removeprefix("/bytes/")))
    else:
        content = pages.get(request.path)
        if content is None and request.path in ("/", "/upload"):
            peer = writer.get_extra_info("peername")
            told = {"peer": f"{peer[0]}:{peer[1]}", "host": request.host, "received": size, "fields": request.fields}
            content = msgspec.json.encode(told)
        status = "200 OK" if content is not None else "404 Not Found"
        content = content or b""
        kind = "text/html" if content.startswith(b"<!DOCTYPE") else "application/octet-stream"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + (b"" if request.line.startswith(b"HEAD ") else content))
    await writer.drain()


async def _bulk(writer: asyncio.StreamWriter, size: int) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
    block = bytes(_CHUNK)
    for start in range(0, size, _CHUNK):
        writer.write(block[: size - start])
        await writer.drain()


async def _websocket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request) -> None:
    key = request.fields.get("sec-websocket-key", "").encode()
    accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
    head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    writer.write(f"{head}Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    while True:
        first, second = await reader.readexactly(2)
        length = second & 127
        if length > 125:
            length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8), "big")
        mask = await reader.readexactly(4) if second & 128 else bytes(4)
        content = bytes(
            byte ^ mask[at % 4] for at, byte in enumerate(await reader.readexactly(min(length, _FRAME_MAX)))
        )
        size = bytes([len(content)]) if len(content) < 126 else b"\x7e" + len(content).to_bytes(2, "big")
        writer.write(bytes([first]) + size + content)
        await writer.drain()
        if first & 15 == 8:
            return
