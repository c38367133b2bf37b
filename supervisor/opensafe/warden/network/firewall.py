"""The packet rules of the gateway's namespace and the few on the host, as nftables text made from typed values.

What is not DNS, 80 or 443 to the gateway's own address is refused at its first packet. A reset for TCP and
port-unreachable for the rest: gVisor's stack takes nothing else for a refusal and would hang. Spoofed sources and IPv6
can only be dropped. Refusals of IPv4 are told, those of each sandbox up to a rate of its own, and counted beyond it.

The uplink carries what Envoy's user opens to vetted addresses, and answers to that. Nothing in the gateway opens
anything to a guest, or to itself but Envoy its resolver.

A synthetic address stands for a name (endpoints.py): its listed ports lead to the splice, 80 and 443 to Envoy. What the
splice opens is known by a mark, and goes to vetted pairs of address and port.

Questions for names are not tracked: a guest that changes its port each time would fill the kernel's table for all.
"""

import ipaddress
import os
import subprocess
from collections.abc import Sequence
from typing import Final

from ...errors import HostUnsuitable
from ...model.upstream_proxy import ProxySettings
from . import nflog

TABLE: Final = "opensafe"
#: The gateway's end of the veth to the host.
UPLINK: Final = "uplink"
#: NFLOG group in which refusals are told.
LOG_GROUP: Final = 5
#: Counts the refusals that are not.
UNTOLD: Final = "untold"
#: A second and at once, of one sandbox.
_TOLD: Final = 20
_TOLD_BURST: Final = 200
#: Where Envoy asks, in the gateway.
RESOLVER: Final = ("127.0.0.1", 5353)
#: Where the splice listens, at all addresses of the gateway; nobody reaches it but by a listed pair.
SPLICE: Final = 15432
#: On sockets with which the splice dials. To set it takes a capability in the gateway's namespace.
MARK: Final = 0x6F53
#: Pairs of a synthetic address and a port.
ENDPOINTS: Final = 4096
_NFT: Final = "/usr/sbin/nft"
_CONNECTIONS: Final = 512
_VETTED: Final = 65536
_DEADLINE_S: Final = 10.0


def gateway_rules(envoy_uid: int, proxy: ProxySettings | None = None) -> str:
    """Those of the gateway. proxy: beside which Envoy dials nobody."""
    resolver, port = RESOLVER
    ports = "{ 80, 443 }" if proxy is None else f"{proxy.port}"
    vetted = f"elements = {{ {proxy.host} }}" if proxy is not None and proxy.literal else ""
    return f"""
table inet {TABLE} {{
  set vetted {{
    type ipv4_addr
    flags timeout
    size {_VETTED}
    {vetted}
  }}
  set dialled {{
    type ipv4_addr . inet_service
    flags timeout
    size {_VETTED}
  }}
  set names {{
    type ipv4_addr
    size {ENDPOINTS}
  }}
  set endpoints {{
    type ipv4_addr . inet_service
    size {ENDPOINTS}
  }}
  set open {{
    type ipv4_addr
    flags dynamic
    size 65536
  }}
  set told {{
    type iface_index
    flags dynamic,timeout
    size 65536
    timeout 1m
  }}
  counter {UNTOLD} {{
  }}
  chain ask {{
    type filter hook prerouting priority raw; policy accept;
    iifname "g*" udp dport 53 fib daddr . iif type local notrack
  }}
  chain reply {{
    type filter hook output priority raw; policy accept;
    oifname "g*" udp sport 53 notrack
  }}
  chain arrive {{
    type filter hook prerouting priority -150; policy drop;
    iifname "lo" accept
    meta nfproto ipv6 drop
    iifname "{UPLINK}" accept
    fib saddr . iif oif missing goto spoofed
    ct state established,related accept
    fib daddr . iif type local udp dport 53 accept
    fib daddr . iif type local tcp dport {{ 53, 80, 443 }} jump count
    ip daddr @names tcp dport {{ 80, 443 }} jump count
    ip daddr . tcp dport @endpoints jump count
    goto closed
  }}
  chain count {{
    add @open {{ ip saddr ct count over {_CONNECTIONS} }} goto full
    accept
  }}
  chain closed {{
    {_told("closed", "goto refuse")}
  }}
  chain full {{
    {_told("full", "goto refuse")}
  }}
  chain spoofed {{
    {_told("spoofed", "drop")}
  }}
  chain refuse {{
    meta l4proto tcp reject with tcp reset
    reject with icmp type port-unreachable
  }}
  chain lead {{
    type nat hook prerouting priority dstnat; policy accept;
    iifname "g*" ip daddr @names tcp dport {{ 80, 443 }} redirect
    iifname "g*" ip daddr . tcp dport @endpoints redirect to :{SPLICE}
  }}
  chain input {{
    type filter hook input priority 0; policy drop;
    iifname "lo" accept
    iifname "g*" accept
    iifname "{UPLINK}" ct state established,related accept
  }}
  chain forward {{
    type filter hook forward priority 0; policy drop;
  }}
  chain output {{
    type filter hook output priority 0; policy drop;
    ct state established,related accept
    oifname "g*" ct state untracked accept
    oifname "lo" meta skuid {envoy_uid} ip daddr {resolver} udp dport {port} accept
    oifname "{UPLINK}" meta skuid {envoy_uid} ip daddr @vetted tcp dport {ports} accept
    oifname "{UPLINK}" meta mark {MARK} ip daddr . tcp dport @dialled accept
    meta l4proto tcp reject with tcp reset
    reject with icmp type port-unreachable
  }}
}}
"""


def _told(why: str, then: str) -> str:
    """Tell a refusal, or count it where its sandbox has had so many told, and go on."""
    beyond = f"update @told {{ iif limit rate over {_TOLD}/second burst {_TOLD_BURST} packets }}"
    return f"""{beyond} counter name "{UNTOLD}" {then}
    log prefix "{why}" group {LOG_GROUP} snaplen {nflog.SNAP}
    {then}"""


def host_table(instance: str) -> str:
    """The name of this daemon's table on the host."""
    return f"{TABLE}_{instance}"


def host_rules(instance: str, interface: str, gateway: str) -> str:
    """Those of the host: the gateway's packets go on, under the host's address; none is for the host itself.

    That is asked before anybody's translation, which might lead what is for the host to a container of its.
    """
    return f"""
table inet {host_table(instance)} {{
  chain arrive {{
    type filter hook prerouting priority -150; policy accept;
    iifname "{interface}" ct state established,related accept
    iifname "{interface}" fib daddr type != unicast reject with tcp reset
  }}
  chain input {{
    type filter hook input priority 0; policy accept;
    iifname "{interface}" drop
  }}
  chain forward {{
    type filter hook forward priority 0; policy accept;
    iifname "{interface}" ip saddr {gateway} accept
    oifname "{interface}" ct state established,related accept
    iifname "{interface}" drop
    oifname "{interface}" drop
  }}
  chain leave {{
    type nat hook postrouting priority 100; policy accept;
    oifname != "{interface}" ip saddr {gateway} masquerade
  }}
}}
"""


def vetting(addresses: Sequence[str], seconds: int) -> str:
    """Add to the vetted ones, or begin their time anew: an element that is there keeps its old one."""
    return renewal("vetted", [str(ipaddress.IPv4Address(one)) for one in addresses], seconds)


def renewal(name: str, elements: Sequence[str], seconds: int) -> str:
    """The same of any set."""
    each = dict.fromkeys(elements)
    listed, timed = ", ".join(each), ", ".join(f"{one} timeout {seconds:d}s" for one in each)
    at = f"element inet {TABLE} {name}"
    return f"add {at} {{ {timed} }}\ndelete {at} {{ {listed} }}\nadd {at} {{ {timed} }}\n"


def load(rules: str) -> None:
    """Load rules into the namespace of this thread, whole or not at all. Raises HostUnsuitable."""
    done = subprocess.run(
        [_NFT, "-f", "-"], input=rules.encode(), capture_output=True, check=False, timeout=_DEADLINE_S, env={}
    )
    if done.returncode:
        raise HostUnsuitable(
            f"nft takes no rules: {done.stderr.decode(errors='replace').strip()[:300]}",
            remedy="The kernel needs nf_tables with fib, ct, limit, log and reject.",
        )


def remove_host_table(instance: str) -> bool:
    """Whether there was one. Where there is no nft, there can't be."""
    if not os.access(_NFT, os.X_OK):
        return False
    done = subprocess.run(
        [_NFT, "delete", "table", "inet", host_table(instance)],
        capture_output=True,
        check=False,
        timeout=_DEADLINE_S,
        env={},
    )
    return done.returncode == 0
