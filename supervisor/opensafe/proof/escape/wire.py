"""The daemon's socket without a client's manners: bytes of one's own as the message of any method.

Protocol Buffers' wire format (protobuf.dev/programming-guides/encoding): a field is a tag, number << 3 | type, and then
a varint (type 0) or a length and so many bytes (type 2).
"""

import pathlib
import urllib.parse
from collections.abc import Sequence
from typing import Any, Final, Self

import grpc
import msgspec

VARINT: Final = 0
BYTES: Final = 2
_ANSWER_S: Final = 20.0
_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),
)

#: What an HTTP/2 client begins with.
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SESSIONS: Final = "/opensafe.v1.SessionService/"
SANDBOXES: Final = "/opensafe.v1.SandboxService/"
HEALTH: Final = "/grpc.health.v1.Health/Check"
EXEC: Final = "/opensafe.v1.ExecService/"
POLICY: Final = "/opensafe.v1.PolicyService/"

Metadata = Sequence[tuple[str, str]]


class Reply(msgspec.Struct, frozen=True):
    """What a method answered: the status code's name, its text, and the messages."""

    code: str
    details: str = ""
    messages: tuple[bytes, ...] = ()


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first. Of a negative number two's complement in 64 bits."""
    left, out = number & (1 << 64) - 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*out, left))


def field(number: int, value: int | str | bytes) -> bytes:
    """One field, as its value's type says."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def message(**fields: int | str | bytes) -> bytes:
    """Fields by number, such as f1="text"."""
    return b"".join(field(int(name[1:]), value) for name, value in fields.items())


def read(data: bytes) -> dict[int, bytes]:
    """The last of each length-delimited field; others are passed over. Raises ValueError for what is no message."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == BYTES:
            size, at = _varint(data, at)
            found[tag >> 3] = data[at : at + size]
            at += size
        elif tag & 7 == VARINT:
            _, at = _varint(data, at)
        else:
            raise ValueError(f"type {tag & 7}")
    return found


class Channel:
    """One connection to a socket, for many requests."""

    def __init__(self, socket: pathlib.Path) -> None:
        address = urllib.parse.quote(str(socket))
        self._channel = grpc.aio.insecure_channel(f"unix:{address}", options=_OPTIONS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def ask(self, method: str, *sent: bytes, within_s: float = _ANSWER_S, metadata: Metadata = ()) -> Reply:
        """Send messages to a method and take what it answers. A failure is the reply's code."""
        begin: Any = self._channel.stream_stream(method)
        stream = begin(iter(sent), timeout=within_s, metadata=tuple(metadata))
        messages: list[bytes] = []
        try:
            while (one := await stream.read()) is not grpc.aio.EOF:
                messages.append(one)
            code, details = await stream.code(), await stream.details()
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details()
        return Reply(code.name, details or "", tuple(messages))


async def ask(socket: pathlib.Path, method: str, *sent: bytes, metadata: Metadata = ()) -> Reply:
    """As Channel.ask, over a connection of its own."""
    async with Channel(socket) as channel:
        return await channel.ask(method, *sent, metadata=metadata)


def request(method: str, payload: bytes) -> bytes:
    """All that a client sends for one unary request, from the connection's first byte (RFC 9113, RFC 7541).

    Headers go uncompressed: each a literal without indexing, name and value as they are.
    """
    headers = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "localhost"}
    headers |= {"content-type": "application/grpc", "te": "trailers"}
    block = b"".join(
        b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
        for name, value in headers.items()
    )
    body = b"\0" + len(payload).to_bytes(4, "big") + payload
    return PREFACE + _frame(4, 0, 0, b"") + _frame(1, 4, 1, block) + _frame(0, 1, 1, body)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
    raise ValueError("cut short")
