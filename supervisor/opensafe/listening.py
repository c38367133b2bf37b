"""Where HTTP is served on this host: an address in words, its socket, its URL, and the Host headers that are its own.

For the doors of agents and of people, which are rooms of their own and must not read the same text differently.
"""

import ipaddress
import socket
from collections.abc import Collection

from opensafe.errors import InvalidArgument


def address(text: str, *, example: str) -> tuple[str, int]:
    """HOST:PORT; a host is an address or `localhost`. Raises InvalidArgument, with the example."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    host = "127.0.0.1" if host == "localhost" else host
    try:
        found = ipaddress.ip_address(host)
        number = int(port)
        if not colon or not 0 <= number <= 65535:
            raise ValueError(text)
    except ValueError:
        raise InvalidArgument(
            "no address to listen on", value=text, remedy=f"Use an address and a port, such as {example}."
        ) from None
    return str(found), number


def is_loopback(host: str) -> bool:
    """Whether an address is for this host alone."""
    return ipaddress.ip_address(host).is_loopback


def listener(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens there and does not block. Raises InvalidArgument."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(backlog)
    except OSError as error:
        made.close()
        raise InvalidArgument(
            f"can't listen there: {error.strerror}", value=f"{host}:{port}", remedy="Use another port."
        ) from error
    made.setblocking(False)
    return made


def url(host: str, port: int) -> str:
    """Where it is reached."""
    return f"http://{_shown(host)}:{port}"


def known_as(host: str, port: int, names: Collection[str]) -> frozenset[str]:
    """What a Host header may say: the address, on loopback its other names, and further names with and without port."""
    known = {_shown(host), *names}
    if is_loopback(host):
        known |= {"localhost", "127.0.0.1", "[::1]"}
    return frozenset({f"{name}:{port}" for name in known} | set(names))


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
