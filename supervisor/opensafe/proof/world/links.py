"""The world's two links: one to the host's namespace, one to a plain namespace that nothing guards.

Only what this makes is touched: two veth pairs, the addresses and routes on them, and forwarding on the host's end.
The pair to the host carries a random name there; routes go with their link, and a link with either namespace.
"""

import contextlib
import pathlib
import re
import secrets
import socket
from typing import Final

from pyroute2 import AsyncIPRoute
from pyroute2.netlink.exceptions import NetlinkError

from opensafe.errors import HostUnsuitable

from . import plan

#: Their names within the world.
TO_HOST, TO_PLAIN = "host", "plain"

_NAME: Final = re.compile(r"ow[0-9a-f]{8}")
_LOOPBACK: Final = 1
_LOCAL_TABLE: Final = 255
_TYPE_LOCAL, _TYPE_BLACKHOLE = 2, 6
_SCOPE_HOST: Final = 254
_NO_DAD: Final = 0x02
#: What the host sends to the world. Whole networks: a probe may have an address for itself.
ROUTED: Final = (plan.NETWORK, *plan.TRAPS)


def new_name() -> str:
    """For the link's end on the host."""
    return f"ow{secrets.token_hex(4)}"


async def sweep() -> None:
    """Remove links that worlds left which were killed. Only for who holds the lock: it takes every world's.

    The kernel does so by itself, but some time after the last process of the namespace has ended.
    """
    async with AsyncIPRoute() as host:
        for link in [link async for link in await host.get_links()]:
            if _NAME.fullmatch(link.get("ifname")):
                with contextlib.suppress(NetlinkError):  # it went by itself just now
                    await host.link("del", index=link["index"])


async def join(host_name: str, world: int, plain: int) -> None:
    """Make both links. world, plain: processes that live in these namespaces.

    Raises HostUnsuitable where an address of the world is in use on this host, NetlinkError for anything else.
    """
    async with AsyncIPRoute() as host:
        await host.link("add", ifname=host_name, kind="veth", peer={"ifname": TO_HOST, "net_ns_fd": _of(world)})
        await _address(host, host_name, plan.HOST, plan.HOST6)
        _forward(host_name)
        async with AsyncIPRoute(netns=_of(world)) as inside:
            await _world(inside, plain)
        index = (await host.link_lookup(ifname=host_name))[0]
        for network in ROUTED:
            try:
                await host.route("add", dst=network, gateway=plan.WORLD, oif=index)
            except NetlinkError as error:
                raise HostUnsuitable(
                    f"the test world can't have its addresses: {error}",
                    value=network,
                    remedy="Remove the host's own route to it, or run elsewhere.",
                ) from error
        if _six():
            await host.route("add", family=socket.AF_INET6, dst=plan.NETWORK6, gateway=plan.WORLD6, oif=index)
    async with AsyncIPRoute(netns=_of(plain)) as inside:
        await inside.link("set", index=_LOOPBACK, state="up")
        await _address(inside, TO_PLAIN, plan.PLAIN, plan.PLAIN6)
        await inside.route("add", dst="default", gateway=plan.PLAIN_GATEWAY)
        if _six():
            await inside.route("add", family=socket.AF_INET6, dst="default", gateway=plan.PLAIN_GATEWAY6)


async def part(host_name: str) -> None:
    """Remove the link to the host, if it is there still."""
    async with AsyncIPRoute() as host:
        for index in await host.link_lookup(ifname=host_name):
            await host.link("del", index=index)


async def is_left(host_name: str) -> bool:
    """Whether the link to the host is still there; its routes and address are where it is."""
    async with AsyncIPRoute() as host:
        return bool(await host.link_lookup(ifname=host_name))


async def _world(inside: AsyncIPRoute, plain: int) -> None:
    await inside.link("add", ifname=TO_PLAIN, kind="veth", peer={"ifname": TO_PLAIN, "net_ns_fd": _of(plain)})
    await inside.link("set", index=_LOOPBACK, state="up")
    await _address(inside, TO_HOST, plan.WORLD, plan.WORLD6)
    await _address(inside, TO_PLAIN, plan.PLAIN_GATEWAY, plan.PLAIN_GATEWAY6)
    await inside.route("add", dst="default", gateway=plan.HOST)
    # A local route makes every address of a network this namespace's own.
    for network in ROUTED:
        await inside.route("add", dst=network, oif=_LOOPBACK, table=_LOCAL_TABLE, type=_TYPE_LOCAL, scope=_SCOPE_HOST)
    await inside.route("add", dst=f"{plan.SILENT}/32", table=_LOCAL_TABLE, type=_TYPE_BLACKHOLE)
    if _six():
        await inside.route(
            "add", family=socket.AF_INET6, dst=plan.NETWORK6, oif=_LOOPBACK, table=_LOCAL_TABLE, type=_TYPE_LOCAL
        )


async def _address(inside: AsyncIPRoute, name: str, four: str, six: str) -> None:
    index = (await inside.link_lookup(ifname=name))[0]
    await inside.addr("add", index=index, address=four, prefixlen=30)
    if _six():
        await inside.addr("add", index=index, address=six, prefixlen=64, flags=_NO_DAD)
    await inside.link("set", index=index, state="up")


def _forward(name: str) -> None:
    pathlib.Path(f"/proc/sys/net/ipv4/conf/{name}/forwarding").write_text("1")


def _of(process: int) -> str:
    return f"/proc/{process}/ns/net"


def _six() -> bool:
    return pathlib.Path("/proc/net/if_inet6").exists()
