"""Listed endpoints of the site's settings: what may not be one, and ports that no connection can use.

A name and a port, exactly: what stands for the name in a sandbox is one address, and nothing of what is said over it
names a host. Ports 53, 80 and 443 are others' business.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from opensafe.normalize.urls import canonical_name, is_address

#: What a connection without an endpoint can use.
_SERVED: Final = frozenset({"80", "443"})
_OTHERS: Final = frozenset({53, 80, 443})


def faults(config: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Endpoints of checked settings that can't be: which, why, and the remedy."""
    for endpoint in sorted(config.get("endpoints", ())):
        name, _, port = endpoint.rpartition(":")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
        if not 0 < number < 1 << 16 or str(number) != port:
            yield endpoint, "is not name:port", "Write the name, a colon and a port from 1 to 65535."
        elif number in _OTHERS:
            yield endpoint, f"is on port {port}, which is served for every allowed name", "List the name in hosts only."
        elif "*" in name:
            yield endpoint, "is a pattern", "Name each host: it has an address of its own in a sandbox."
        elif (canonical := canonical_name(name)) is None:
            yield endpoint, "names no host", "Write a host's name before the colon."
        elif is_address(canonical):
            yield endpoint, "is an address, not a name", "Name the host."
        elif canonical != name:
            yield endpoint, "is not in its one form", f"Write {canonical}:{port}."


def unreachable(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Ports of checked settings that no connection can use, and the remedy."""
    listed = {endpoint.rpartition(":")[2] for endpoint in config.get("endpoints", ())}
    for port in sorted(set(config.get("ports", ())) - listed - _SERVED):
        yield port, f"List the hosts that need it as endpoints (name:{port}), or take it out of ports."
