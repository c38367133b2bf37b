"""Who is where in the world: addresses, names, ports. All of it is documentation space or a trap.

A trap is an address that no sandbox may reach under any name. It answers, so that a mistake is seen and not timed out.
"""

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

#: Any address of it is served, so that a probe may have one for itself.
NETWORK: Final = "198.51.100.0/24"
ALLOWED: Final = "198.51.100.10"
DENIED: Final = "198.51.100.20"
RESOLVER: Final = "198.51.100.53"
#: In NETWORK, but nobody answers: what is sent there is dropped without a word.
SILENT: Final = "198.51.100.250"
PRIVATE: Final = "10.9.9.9"
PRIVATE_NETWORK: Final = "10.9.9.0/24"
METADATA: Final = ("169.254.169.254", "169.254.170.2", "100.100.100.200")
#: What no filter may take for public.
TRAPS: Final = (PRIVATE_NETWORK, *(f"{address}/32" for address in METADATA))

NETWORK6: Final = "2001:db8:51::/64"
ALLOWED6: Final = "2001:db8:51::10"

#: The link to the host, and the one to the plain namespace.
HOST, WORLD = "203.0.113.1", "203.0.113.2"
PLAIN_GATEWAY, PLAIN = "203.0.113.5", "203.0.113.6"
HOST6, WORLD6 = "2001:db8:52::1", "2001:db8:52::2"
PLAIN_GATEWAY6, PLAIN6 = "2001:db8:53::1", "2001:db8:53::2"

HTTP, TLS, DNS = 80, 443, 53
#: The server speaks first.
BANNER: Final = 9001
BANNER_TEXT: Final = b"220 world.test ready\r\n"
#: A database, whose client speaks first.
POSTGRES: Final = 5432
#: TLS here as well.
MORE_TLS: Final = (853, 8443)
#: A proxy, at every address, for a site that has no other way out; and whom it knows.
PROXY: Final = 3128
PROXY_ADDRESS: Final = "198.51.100.31"
PROXY_AUTHORIZATION: Final = "Basic d29ybGQ6cHJveHk="
#: What is sent here is read and written down.
SINKS: Final = (22, 25, 6379, 15001, 9901)
UDP_SINKS: Final = (123, 443, 9999)

#: Names with this label before them have the certificate of another.
MISNAMED: Final = "misnamed."

#: Names with this label before them speak HTTP/2 to clients that can.
HTTP2: Final = "h2."

#: How long an answer may be kept.
TTL_S: Final = 1

#: An address in a name, and how the name has it: alone, beside a good one, behind one that is silent, or later.
_SPELT: Final = re.compile(
    r"(?:^|\.)(ip|mixed|dead|rebind)-(\d{1,3})-(\d{1,3})-(\d{1,3})-(\d{1,3})(?:\.[a-z-]+)*\.test$"
)
_NAMES: Final[dict[str, str]] = {
    "allowed.test": ALLOWED,
    "git.test": ALLOWED,
    "pypi.test": ALLOWED,
    "notallowed.test": DENIED,
    "denied.test": DENIED,
    "proxy.test": PROXY_ADDRESS,
    "private.test": PRIVATE,
    "metadata.test": METADATA[0],
    "loopback.test": "127.0.0.1",
}
#: Names that stand for another one.
ALIASES: Final = {"alias-private.test": "private.test", "alias.test": "allowed.test"}


def addresses(name: str, turn: int) -> tuple[str, ...]:
    """IPv4 addresses of a lower-case name without trailing dot; none where there is no such name.

    turn: how often it was asked for before. `KIND-A-B-C-D.….test` has the address A.B.C.D: `ip` alone, `mixed` beside
    ALLOWED, `dead` behind SILENT, `rebind` in turn with ALLOWED. Labels may stand before any name.
    """
    if found := _SPELT.search(name):
        kind, *numbers = found.groups()
        return _spelt(kind, ".".join(numbers), turn)
    fixed = next((_NAMES[candidate] for candidate in _above(name) if candidate in _NAMES), "")
    return (fixed,) if fixed else ()


def spell(address: str, kind: str = "ip") -> str:
    """The label that stands for an address."""
    return f"{kind}-{address.replace('.', '-')}"


def address6(name: str) -> str:
    """The IPv6 address of a name; "" where it has none."""
    return ALLOWED6 if name in ("allowed.test", "six.test") else ""


def _above(name: str) -> Iterator[str]:
    labels = name.split(".")
    yield from (".".join(labels[start:]) for start in range(len(labels) - 1))


def _spelt(kind: str, address: str, turn: int) -> tuple[str, ...]:
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        return ()
    match kind:
        case "mixed":
            return (ALLOWED, address)
        case "dead":
            return (SILENT, address)
        case "rebind":
            return (address if turn % 2 else ALLOWED,)
        case _:
            return (address,)
