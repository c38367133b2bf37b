"""Messages of netlink(7), as far as pyroute2 has no words for what is asked: header, walk, and the kernel's answer."""

import os
import struct
from collections.abc import Iterator
from typing import Final

REQUEST: Final = 0x1
ACKNOWLEDGE: Final = 0x4
DUMP: Final = 0x300
ERROR: Final = 2
DONE: Final = 3
#: Length, type, flags, sequence number, port.
HEADER: Final = struct.Struct("=IHHII")
#: Length and type of an attribute.
ATTRIBUTE: Final = struct.Struct("=HH")
#: Of an attribute's type, without the bits that say how it is written.
_TYPE: Final = 0x3FFF
#: The protocol of packet filters, and what their messages begin with: family, version, number (linux/netfilter).
NETFILTER: Final = 12
FAMILY: Final = struct.Struct("!BBH")


def message(kind: int, flags: int, body: bytes) -> bytes:
    """A request."""
    return HEADER.pack(HEADER.size + len(body), kind, REQUEST | flags, 1, 0) + body


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded to 4 bytes, which its length does not count."""
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(value), kind) + value.ljust((len(value) + 3) & ~3, b"\0")


def pieces(data: bytes, header: struct.Struct = HEADER) -> Iterator[tuple[int, bytes]]:
    """Type and body of each message, or attribute: both begin with their length and are aligned to 4.

    Ends at what has not that form; never raises.
    """
    offset = 0
    while offset + header.size <= len(data):
        length, kind = header.unpack_from(data, offset)[:2]
        if not header.size <= length <= len(data) - offset:
            return
        yield kind, data[offset + header.size : offset + length]
        offset += (length + 3) & ~3


def attributes(data: bytes) -> dict[int, bytes]:
    """Those in `data` by their type, of equal ones the last."""
    return {kind & _TYPE: value for kind, value in pieces(data, ATTRIBUTE)}


def code(body: bytes) -> int:
    """Of an ERROR: errno, or 0 for an acknowledgement."""
    return -int(struct.unpack_from("=i", body)[0])


def check(answer: bytes, *, but: int = 0) -> bool:
    """Whether the answer acknowledges. False where it is no word on that, or the one errno that may be.

    Raises OSError for another.
    """
    for kind, body in pieces(answer):
        if kind == ERROR:
            error = code(body)
            if error not in (0, but):
                raise OSError(error, os.strerror(error))
            return not error
    return False
