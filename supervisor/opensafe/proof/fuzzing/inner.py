"""Addresses that no sandbox may reach, as ranges of numbers: the reference for what our code says of addresses.

After IANA's registries of special-purpose addresses (RFC 6890), and without the `ipaddress` module, on which our own
code is built.
"""

import socket
from typing import Final

_V4: Final = tuple(
    (int.from_bytes(socket.inet_aton(first)), int.from_bytes(socket.inet_aton(last)))
    for first, last in (
        ("0.0.0.0", "0.255.255.255"),  # noqa: S104 - a range, nothing is bound
        ("10.0.0.0", "10.255.255.255"), ("100.64.0.0", "100.127.255.255"),
        ("127.0.0.0", "127.255.255.255"), ("169.254.0.0", "169.254.255.255"), ("172.16.0.0", "172.31.255.255"),
        ("192.0.2.0", "192.0.2.255"), ("192.168.0.0", "192.168.255.255"), ("198.18.0.0", "198.19.255.255"),
        ("198.51.100.0", "198.51.100.255"), ("203.0.113.0", "203.0.113.255"), ("224.0.0.0", "255.255.255.255"),
    )
)  # fmt: skip
#: Of 2000::/3, all that IANA gives out for the internet, what no host of the internet has: prefix, bits.
_V6: Final = ((0x2001 << 112, 32), (0x20010DB8 << 96, 32), (0x2002 << 112, 16), (0x3FFF << 112, 20))
#: Mapped, NAT64, translated and compatible addresses: reached is the IPv4 address in the last 32 bits.
_CARRIERS: Final = (0xFFFF << 32, 0x64FF9B << 96, 0xFFFF << 48, 0)
_BITS_V4: Final = 32
_LOOPBACK: Final = 1


def carried(packed: bytes) -> bytes:
    """The IPv4 address that is reached at an IPv6 one that carries it, else the same. In network order."""
    number = int.from_bytes(packed)
    carries = len(packed) > 4 and number > _LOOPBACK and any(number >> 32 == each >> 32 for each in _CARRIERS)
    return packed[12:] if carries else packed


def is_inner(packed: bytes) -> bool:
    """Whether an address, 4 or 16 bytes in network order, is none of the internet's."""
    reached = carried(packed)
    number = int.from_bytes(reached)
    if len(reached) * 8 == _BITS_V4:
        return any(first <= number <= last for first, last in _V4)
    return number >> 125 != 1 or any(number >> 128 - bits == prefix >> 128 - bits for prefix, bits in _V6)


def packed(text: str) -> bytes:
    """An address as libc reads it. Raises OSError."""
    return socket.inet_pton(socket.AF_INET6, text) if ":" in text else socket.inet_aton(text)
