"""HTTP/2 (RFC 9113) as far as clients of the suite need it: each request gets the same page.

Header blocks are not decompressed: the name is on record from the handshake, and clients of the suite want one page.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Final

#: What TLS calls it (RFC 9113, section 3.2).
ALPN: Final = "h2"
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = struct.Struct("!BHBBI")
#: The largest frame that a peer may send unasked (section 4.2).
_FRAME_MAX: Final = 1 << 14
_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY = 0, 1, 4, 6, 7
_ACK = _END_STREAM = 1
_END_HEADERS: Final = 4
#: `:status: 200` by its place in the static table (RFC 7541, appendix A).
_OK: Final = b"\x88"


async def serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, page: bytes, seen: Callable[[], None]
) -> None:
    """Answer requests until the client is done. seen: is called for each.

    Raises what the streams raise; ValueError for what is no HTTP/2.
    """
    if await reader.readexactly(len(_PREFACE)) != _PREFACE:
        raise ValueError("no preface")
    writer.write(_frame(_SETTINGS, 0, 0))
    while True:
        high, low, kind, flags, stream = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        size = high << 16 | low
        if size > _FRAME_MAX:
            raise ValueError("a frame is too large")
        content = await reader.readexactly(size)
        if kind == _GOAWAY:
            return
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            writer.write(_frame(kind, _ACK, 0, content if kind == _PING else b""))
        if kind == _HEADERS:
            seen()
        if kind in (_HEADERS, _DATA) and flags & _END_STREAM:
            writer.write(_frame(_HEADERS, _END_HEADERS, stream, _OK) + _frame(_DATA, _END_STREAM, stream, page))
        await writer.drain()


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return _HEAD.pack(len(content) >> 16, len(content) & 0xFFFF, kind, flags, stream) + content
