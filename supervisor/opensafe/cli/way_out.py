"""Checks of what the way out of sandboxes needs of the host (docs/egress.md), for a site that has one.

The daemon touches no interface and no rule but its own. So what the host's administrator has to open is looked for
here: forwarding on the interface that leads out, and other tables' forward chains, each of which can drop by itself
what the daemon's accepts.
"""

import ipaddress
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from opensafe.config import EgressSettings

from .checks import Check, check

_NFT: Final = "/usr/sbin/nft"
_TIMEOUT_S: Final = 10
#: RTF_UP of linux/route.h.
_UP: Final = 1
#: What an administrator's rule names: the host's ends of the gateways' veths.
_ACCEPTED: Final = re.compile(r'iifname "os(\*|[0-9a-f]{10})"[^\n]*\baccept\b')
_OWN: Final = re.compile(r"opensafe_[0-9a-f]{10}")


class _Chain(msgspec.Struct, frozen=True):
    family: str
    table: str
    name: str
    hook: str = ""
    policy: str = ""


class _Item(msgspec.Struct, frozen=True):
    chain: _Chain | None = None


class _Listing(msgspec.Struct, frozen=True):
    nftables: list[_Item]


def look(settings: EgressSettings, proc: pathlib.Path = pathlib.Path("/proc")) -> Iterator[Check]:
    """The interface, the foreign forward chains, what a proxy leaves unknown; nothing without a way out.

    `proc` is for tests.
    """
    if settings.enabled:
        proxy = settings.proxy
        yield _forwarding(proc, proxy.host if proxy is not None and proxy.literal else "0.0.0.0")  # noqa: S104 - anywhere
        yield _chains()
        if proxy is not None:
            limit = "what addresses it dials is not seen, so not checked (LIMIT)"
            yield check("way out proxy", True, f"all goes through {proxy.address}; {limit}", "")


def _forwarding(proc: pathlib.Path, towards: str) -> Check:
    interface = _leads_out(proc, int(ipaddress.IPv4Address(towards)))
    if not interface:
        what = f"no route to {towards}" if int(ipaddress.IPv4Address(towards)) else "no default route"
        return check("way out", False, what, "Give the host a route to where sandboxes may connect.")
    try:
        on = (proc / "sys/net/ipv4/conf" / interface / "forwarding").read_text().strip() == "1"
    except OSError as error:
        return check("way out", False, f"{interface}: {error.strerror}", "Mount /proc.")
    remedy = f"sysctl -w net.ipv4.conf.{interface}.forwarding=1, and keep it in /etc/sysctl.d."
    return check("way out", on, f"{interface} {'forwards' if on else 'does not forward'}", remedy)


def _leads_out(proc: pathlib.Path, towards: int) -> str:
    """The interface of the route there with the longest prefix, of such with the lowest metric; "" without any."""
    try:
        lines = (proc / "net/route").read_text().splitlines()[1:]
    except OSError:
        return ""
    routes = [line.split() for line in lines]
    # Interface, destination, gateway, flags, two counts, metric, mask: hexadecimal but for the metric.
    fit = [
        (-_number(route[7]), int(route[6]), route[0])
        for route in routes
        if len(route) > 7 and int(route[3], 16) & _UP and towards & _number(route[7]) == _number(route[1])
    ]
    return min(fit)[2] if fit else ""


def _number(hexadecimal: str) -> int:
    """An address as /proc writes it: bytes in the host's order."""
    return int.from_bytes(int(hexadecimal, 16).to_bytes(4, sys.byteorder), "big")


def _chains() -> Check:
    try:
        listing = msgspec.json.decode(_nft("--json", "list", "chains"), type=_Listing)
        dropping = [
            f"{chain.family} {chain.table} {chain.name}"
            for item in listing.nftables
            if (chain := item.chain) and chain.hook == "forward" and chain.policy == "drop" and not _lets(chain)
        ]
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        return check("way out rules", False, f"not known: {error}", "Install nftables; run as root.")
    return check(
        "way out rules",
        not dropping,
        f"forward is dropped by {'; '.join(dropping)}" if dropping else "no other forward chain drops",
        'There, accept iifname "os*", and oifname "os*" ct state established,related.',
    )


def _lets(chain: _Chain) -> bool:
    """Whether it is a daemon's own, or somebody has put a rule for the gateways into its table."""
    if _OWN.fullmatch(chain.table):
        return True
    said = _nft("list", "table", chain.family, chain.table).decode(errors="replace")
    return _ACCEPTED.search(said) is not None


def _nft(*arguments: str) -> bytes:
    return subprocess.run([_NFT, *arguments], capture_output=True, timeout=_TIMEOUT_S, check=True).stdout
