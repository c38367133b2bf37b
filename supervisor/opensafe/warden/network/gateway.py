"""The gateway: a network namespace that forwards nothing, to which every sandbox with a way out is joined.

In it are the sockets on which guests ask for names and reach listed endpoints, and Envoy. A packet of a guest ends
here; what goes on is opened by Envoy or the splice, to what was vetted, over one veth to the host.
"""

import ipaddress
import os
import pathlib
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Final, Self

from pyroute2 import IPRoute

from ...config import NEVER_VETTED, EgressSettings
from ...errors import HostUnsuitable, LimitExceeded
from . import conntrack, destroy, endpoints, firewall, links, namespaces, nflog
from .links import Link
from .nflog import Refusal, Refusals
from .ports import Port, open_port
from .untold import Untold

_DNS: Final = 53
_BACKLOG: Final = 64


class Gateway:
    """Owns the namespace, what is in it, and the rules on the host that go with it."""

    def __init__(self, namespace: pathlib.Path, settings: EgressSettings, instance: str) -> None:
        self._namespace = namespace
        self._instance = instance
        self._own = tuple(map(ipaddress.IPv4Network, (settings.links, settings.uplink, settings.synthetic)))
        self._also = tuple(ipaddress.IPv4Network(one) for one in settings.vetted_also)
        self._proxy = settings.proxy
        self._numbers = links.Numbers(settings.links)
        self.endpoints = endpoints.Endpoints(namespace, settings.synthetic, self._check)
        self._sockets: tuple[socket.socket, ...] = ()
        self._links: dict[int, Link] = {}
        self._refusals: Refusals | None = None
        self._untold: Untold | None = None

    @classmethod
    async def open(cls, namespace: pathlib.Path, settings: EgressSettings, instance: str, envoy_uid: int) -> Self:
        """Make it. Raises HostUnsuitable; nothing is left then."""
        made = cls(namespace, settings, instance)
        try:
            await namespaces.create(namespace)
            await namespaces.in_own_thread(lambda: made._connect(settings.uplink))
            made._sockets = await namespaces.inside(namespace, lambda: _furnish(settings, envoy_uid))
            made._refusals = Refusals(await namespaces.inside(namespace, lambda: nflog.listen(firewall.LOG_GROUP)))
            made._untold = await namespaces.inside(namespace, lambda: Untold(firewall.TABLE, firewall.UNTOLD))
        except OSError as error:
            await made.close()
            raise HostUnsuitable(f"the gateway can't be made: {error}", value=namespace) from error
        except BaseException:
            await made.close()
            raise
        return made

    async def close(self) -> None:
        """Take everything away. Idempotent."""
        for one in self._sockets:
            one.close()
        self._sockets = ()
        if self._refusals is not None:
            self._refusals.close()
        if self._untold is not None:
            self._untold.close()
        await remove(self._namespace, self._instance)

    def take_sockets(self) -> tuple[socket.socket, ...]:
        """Guests' DNS by UDP and by TCP, Envoy's DNS by UDP, the splice's listening one. They stay the gateway's."""
        return self._sockets

    async def attach(self, namespace: pathlib.Path) -> Link:
        """Join a sandbox's namespace. Raises OSError, LimitExceeded."""
        link = self._numbers.take()
        if link is None:
            raise LimitExceeded(
                "all links to the gateway are taken", value=self._numbers.capacity, remedy="Widen egress.links."
            )
        try:
            guest = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                await namespaces.inside(self._namespace, lambda: links.add(link, guest))
            finally:
                os.close(guest)
            await namespaces.inside(namespace, links.raise_guest)
            self._links[await namespaces.inside(self._namespace, lambda: links.carry(link))] = link
        except BaseException:
            await self.detach(link)
            raise
        return link

    async def port(self, namespace: pathlib.Path, link: Link) -> Port:
        """The guest's end of its link, the caller's to close. Raises OSError."""
        return await namespaces.inside(namespace, lambda: open_port(link))

    async def detach(self, link: Link) -> None:
        """Cut what is open on a link and take it away. Idempotent. Raises OSError."""
        await namespaces.inside(self._namespace, lambda: _remove_link(link))
        self._links = {number: one for number, one in self._links.items() if one != link}
        self._numbers.give_back(link)

    def refusals(self) -> AsyncIterator[Refusal]:
        """What is refused at its first packet, one by one as it is told, for one reader. Never ends."""
        return self._open()[0].latest()

    def take_untold(self) -> int:
        """How many refusals were not told, since the last call: they came too fast. Raises OSError."""
        refusals, untold = self._open()
        return refusals.take_missed() + untold.take()

    def link_by(self, interface: int) -> Link | None:
        """The link whose end here has this number."""
        return self._links.get(interface)

    async def vet(self, addresses: Sequence[str], seconds: int) -> None:
        """Let Envoy dial these for so long. Raises ValueError for one that is not for that.

        Where there is a proxy, they are its own, on the site's word. Those of the host are refused by the host's rules,
        which know them at each packet.
        """
        check = self._check if self._proxy is None else self._check_proxy
        for address in addresses:
            check(ipaddress.IPv4Address(address))
        if not addresses:
            return
        await namespaces.inside(self._namespace, lambda: firewall.load(firewall.vetting(addresses, seconds)))

    async def cut(self, guest: str, port: int | None = None) -> int:
        """End the connections of a guest, or the one from its port; how many. Raises OSError."""
        if ipaddress.IPv4Address(guest) not in self._own[0]:
            return 0
        return await namespaces.inside(self._namespace, lambda: destroy.destroy(guest, port))

    async def cut_all(self) -> int:
        """End every connection of and for guests; how many. Raises OSError."""
        return await namespaces.inside(self._namespace, lambda: destroy.destroy(None))

    def _open(self) -> tuple[Refusals, Untold]:
        if self._refusals is None or self._untold is None:
            raise HostUnsuitable("the gateway is not open", value=self._namespace)
        return self._refusals, self._untold

    def _check(self, address: ipaddress.IPv4Address) -> None:
        self._check_foreign(address)
        if self._proxy is not None:
            raise ValueError(f"{address} is not the site's proxy")
        if not address.is_global and not any(address in network for network in self._also):
            raise ValueError(f"{address} is not a global address")

    def _check_proxy(self, address: ipaddress.IPv4Address) -> None:
        self._check_foreign(address)
        if self._proxy is None or self._proxy.literal:
            raise ValueError(f"{address} is not the site's proxy")

    def _check_foreign(self, address: ipaddress.IPv4Address) -> None:
        if any(address in network for network in (*NEVER_VETTED, *self._own)):
            raise ValueError(f"{address} is this host's or nobody's")

    def _connect(self, uplink: str) -> None:
        """The veth to the host and the host's rules."""
        network, interface = ipaddress.IPv4Network(uplink), _host_end(self._instance)
        gateway = os.open(self._namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with IPRoute() as route:
                route.link("add", ifname=interface, kind="veth", peer={"ifname": firewall.UPLINK, "net_ns_fd": gateway})
                links.configure(route, interface, str(network[1]), network.prefixlen)
        finally:
            os.close(gateway)
        pathlib.Path(f"/proc/sys/net/ipv4/conf/{interface}/forwarding").write_text("1")
        firewall.load(firewall.host_rules(self._instance, interface, str(network[2])))


async def remove(namespace: pathlib.Path, instance: str) -> list[str]:
    """Remove what there is of a gateway, by its names; what it was. Raises OSError."""

    def on_host() -> list[str]:
        interface, table = _host_end(instance), firewall.host_table(instance)
        removed = [f"link {interface}"] if links.remove(interface) else []
        return removed + ([f"nft table {table}"] if firewall.remove_host_table(instance) else [])

    removed = await namespaces.in_own_thread(on_host)
    if namespaces.remove(namespace):
        removed.append(f"netns {namespace.name}")
    return removed


def _furnish(settings: EgressSettings, envoy_uid: int) -> tuple[socket.socket, ...]:
    """In the gateway: what the kernel must not do by itself, the rules, the way up, and last the sockets."""
    links.without_ipv6()
    for name, value in (
        ("ip_forward", "0"),
        # Or most refusals would be silent, and a guest hang on each: the limit of each peer, and the one of all.
        ("icmp_ratelimit", "0"),
        ("icmp_ratemask", "0"),
        ("ip_unprivileged_port_start", str(_DNS)),  # Envoy has no capability
    ):
        pathlib.Path(f"/proc/sys/net/ipv4/{name}").write_text(value)
    firewall.load(firewall.gateway_rules(envoy_uid, settings.proxy))
    network = ipaddress.IPv4Network(settings.uplink)
    with IPRoute() as route:
        links.configure(route, firewall.UPLINK, str(network[2]), network.prefixlen)
        route.route("add", dst="default", gateway=str(network[1]))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    udp.bind(("0.0.0.0", _DNS))  # noqa: S104 - of this namespace
    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    tcp.bind(("0.0.0.0", _DNS))  # noqa: S104 - of this namespace
    tcp.listen(_BACKLOG)
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    own.bind(firewall.RESOLVER)
    return udp, tcp, own, endpoints.listener()


def _remove_link(link: Link) -> None:
    destroy.destroy(link.guest)
    links.remove(link.interface)
    conntrack.forget(link.guest)


def _host_end(instance: str) -> str:
    return f"os{instance}"
