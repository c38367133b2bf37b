"""Links of sandboxes to the gateway: a veth each, with a /31 of its own (RFC 3021) out of one IPv4 network.

No bridge and no shared segment: what a sandbox sends arrives at one interface of the gateway, and the address that
belongs there is its identity.
"""

import ipaddress
import pathlib
import socket
from typing import Final

import msgspec
from pyroute2 import IPRoute

PREFIX: Final = 31
#: In a sandbox's namespace.
GUEST: Final = "eth0"
_RTMGRP_LINK: Final = 1  # linux/rtnetlink.h
_BUFFER: Final = 1 << 16
_DEADLINE_S: Final = 5.0


class Link(msgspec.Struct, frozen=True):
    """One sandbox's: its number, the guest's address and the gateway's."""

    index: int
    guest: str
    gateway: str

    @property
    def interface(self) -> str:
        """The gateway's end."""
        return f"g{self.index}"


class Numbers:
    """Numbers of links, the lowest free one first, so that interfaces and addresses stay few."""

    def __init__(self, network: str) -> None:
        self._network = ipaddress.IPv4Network(network)
        self._taken: set[int] = set()
        self.capacity = self._network.num_addresses // 2

    def take(self) -> Link | None:
        """A link that nobody has; None where all are taken."""
        if len(self._taken) >= self.capacity:
            return None
        index = next(number for number in range(len(self._taken) + 1) if number not in self._taken)
        self._taken.add(index)
        return Link(index, str(self._network[2 * index + 1]), str(self._network[2 * index]))

    def give_back(self, link: Link) -> None:
        """It is gone."""
        self._taken.discard(link.index)


def add(link: Link, guest_namespace: int) -> None:
    """Make the pair, in the gateway's namespace; the other end goes into the one of the descriptor. Raises OSError."""
    with IPRoute() as route:
        route.link("add", ifname=link.interface, kind="veth", peer={"ifname": GUEST, "net_ns_fd": guest_namespace})
        configure(route, link.interface, link.gateway, PREFIX)


def raise_guest() -> None:
    """Bring the guest's end up, in its namespace, without an address: gVisor's stack has that (ports.py).

    The kernel's would reset what it does not know of. Raises OSError.
    """
    without_ipv6()
    with IPRoute() as route:
        (index,) = route.link_lookup(ifname=GUEST)
        route.link("set", index=index, state="up")


def carry(link: Link) -> int:
    """Wait, in the gateway's namespace, until its end sends: the kernel is told of a carrier in its own time, and until
    then drops what is sent, the first answer to ARP as well. Returns the interface's number. Raises OSError.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as changes:
        changes.settimeout(_DEADLINE_S)
        changes.bind((0, _RTMGRP_LINK))
        with IPRoute() as route:
            (index,) = route.link_lookup(ifname=link.interface)
            while route.link("get", index=index)[0].get_attr("IFLA_OPERSTATE") != "UP":
                changes.recv(_BUFFER)
    return int(index)


def remove(interface: str) -> bool:
    """Take an interface of this namespace away, and its peer with it. Whether there was one."""
    with IPRoute() as route:
        found = route.link_lookup(ifname=interface)
        for index in found:
            route.link("del", index=index)
    return bool(found)


def configure(route: IPRoute, interface: str, address: str, prefix: int) -> None:
    """Give an interface its address and bring it up."""
    (index,) = route.link_lookup(ifname=interface)
    route.addr("add", index=index, address=address, prefixlen=prefix, family=socket.AF_INET)
    route.link("set", index=index, state="up")


def without_ipv6() -> None:
    """For this namespace and every interface that it will have; a kernel without IPv6 has nothing to be told."""
    for which in ("all", "default"):
        path = pathlib.Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6")
        if path.exists():
            path.write_text("1")
