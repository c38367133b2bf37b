"""Listed endpoints in the gateway: which pairs of synthetic address and port lead to the splice, and where it may dial.

A socket belongs to the namespace in which it was made, so the splice, which runs outside, gets its sockets from here.
The rules let them go to pairs that were vetted, and what is vetted is checked here against what is listed: the helper
is not trusted to dial nothing else.
"""

import asyncio
import ipaddress
import pathlib
import socket
import time
from collections.abc import Callable, Iterable
from typing import Final

from . import firewall, namespaces

#: DNS, and what Envoy serves of a name.
NEVER_LISTED: Final = frozenset({53, 80, 443})
#: How long a pair stays vetted, and how much of that a socket gets at least: a dial takes five seconds.
_VETTED_S: Final = 30
_LEFT_S: Final = 10
_BACKLOG: Final = 64

Pair = tuple[str, int]


class Endpoints:
    """Of one gateway."""

    def __init__(self, namespace: pathlib.Path, synthetic: str, check: Callable[[ipaddress.IPv4Address], None]) -> None:
        """check: raises ValueError for what is not to be dialled."""
        self._namespace = namespace
        self._synthetic = ipaddress.IPv4Network(synthetic)
        self._check = check
        self._changing = asyncio.Lock()
        self._listed: frozenset[Pair] = frozenset()
        #: Until when they are vetted, by the monotonic clock.
        self._vetted: dict[Pair, float] = {}

    async def set(self, pairs: Iterable[Pair]) -> None:
        """Lead these to the splice, and no others. Raises ValueError where one can't be listed, OSError."""
        wanted = frozenset((str(ipaddress.IPv4Address(address)), port) for address, port in pairs)
        for address, port in wanted:
            if ipaddress.IPv4Address(address) not in self._synthetic:
                raise ValueError(f"{address} is no synthetic address")
            if port in NEVER_LISTED or not 0 < port < 1 << 16:
                raise ValueError(f"{port} is no port of an endpoint")
        if len(wanted) > firewall.ENDPOINTS:
            raise ValueError(f"{len(wanted)} endpoints, of which there may be {firewall.ENDPOINTS}")
        async with self._changing:
            if wanted != self._listed:
                await namespaces.inside(self._namespace, lambda: firewall.load(_listing(wanted)))
                self._listed = wanted
                self._vetted.clear()

    async def dial(self, address: str, port: int) -> socket.socket:
        """A socket that can be connected to this within some seconds, the caller's to close.

        Raises ValueError for an address that is not to be dialled or a port that nobody listed, OSError.
        """
        pair = str(ipaddress.IPv4Address(address)), port
        self._check(ipaddress.IPv4Address(address))
        async with self._changing:
            if port not in {listed for _, listed in self._listed}:
                raise ValueError(f"{port} is the port of no listed endpoint")
            now = time.monotonic()
            renewal = ""
            if self._vetted.get(pair, 0) - now < _LEFT_S:
                renewal = firewall.renewal("dialled", [_element(pair)], _VETTED_S)
            made = await namespaces.inside(self._namespace, lambda: _marked(renewal))
            if renewal:
                self._vetted = {one: until for one, until in self._vetted.items() if until > now}
                self._vetted[pair] = now + _VETTED_S
            return made


def listener() -> socket.socket:
    """That of the splice, in the namespace of this thread. Raises OSError."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("0.0.0.0", firewall.SPLICE))  # noqa: S104 - of the gateway's namespace
    made.listen(_BACKLOG)
    return made


def _marked(renewal: str) -> socket.socket:
    if renewal:
        firewall.load(renewal)
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, firewall.MARK)
    except BaseException:
        made.close()
        raise
    return made


def _listing(pairs: Iterable[Pair]) -> str:
    """Rules' text: these are listed, and nothing is vetted for those that were."""
    table = f"inet {firewall.TABLE}"
    lines = [f"flush set {table} {name}" for name in ("dialled", "names", "endpoints")]
    listed = sorted(pairs)
    if listed:
        lines.append(f"add element {table} names {{ {', '.join({address: 0 for address, _ in listed})} }}")
        lines.append(f"add element {table} endpoints {{ {', '.join(map(_element, listed))} }}")
    return "\n".join(lines) + "\n"


def _element(pair: Pair) -> str:
    address, port = pair
    return f"{address} . {port:d}"
