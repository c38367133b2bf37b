"""A server that speaks PostgreSQL's protocol (3.0) far enough for a client that asks something; the client begins.

Every query has one row with the same text. It asks for no password, and has no TLS.
"""

import asyncio
import struct
from typing import Final

TEXT: Final = b"hello from the world's database"
_VERSION: Final = 196608
_SSL_REQUEST: Final = 80877103
_LONGEST: Final = 10_000
_READY: Final = b"Z" + struct.pack("!i", 5) + b"I"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the client says goodbye. Raises ValueError for what is not the protocol, and what a stream raises."""
    while True:
        length, code = struct.unpack("!ii", await reader.readexactly(8))
        await reader.readexactly(_size(length, 8))
        if code == _VERSION:
            break
        if code != _SSL_REQUEST:
            raise ValueError(f"{code} is no version of the protocol")
        writer.write(b"N")
    writer.write(_message(b"R", struct.pack("!i", 0)) + _message(b"S", b"server_version\0" + b"15.0\0") + _READY)
    while True:
        kind, length = struct.unpack("!ci", await reader.readexactly(5))
        await reader.readexactly(_size(length, 4))
        if kind == b"X":
            return
        if kind == b"Q":
            field = b"text\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0)
            row = struct.pack("!hi", 1, len(TEXT)) + TEXT
            writer.write(_message(b"T", struct.pack("!h", 1) + field) + _message(b"D", row))
            writer.write(_message(b"C", b"SELECT 1\0") + _READY)
            await writer.drain()


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _size(length: int, head: int) -> int:
    if not head <= length <= _LONGEST:
        raise ValueError(f"a message of {length} bytes")
    return length - head
