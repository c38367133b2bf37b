"""The way through a site's HTTP proxy, in place of the one that resolves names and dials servers.

TLS goes through a tunnel that the second stage asks for (CONNECT, RFC 9110 section 9.3.6), plain HTTP in absolute form
(RFC 9112, section 3.2.2). Both follow the verdict. What the proxy says of itself is kept from the guest.
"""

import ipaddress
import pathlib
from typing import Any, Final

import msgspec

from . import clusters
from .parts import dns, typed

TUNNELS, REQUESTS = "proxy_tunnels", "proxy_requests"
#: What a guest would tell the proxy.
REQUEST_HEADERS: Final = ("proxy-authorization", "proxy-connection")
#: What the proxy would tell a guest is taken out there.
_LUA: Final = pathlib.Path(__file__).with_suffix(".lua")


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """host: name or IPv4 address. authorization: what Proxy-Authorization says, "" for none."""

    host: str
    port: int
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy(host={self.host!r}, port={self.port})"


def tunnel(proxy: Proxy) -> dict[str, Any]:
    """Fields of a TcpProxy: ask for a tunnel to the SNI, and pass nothing on until there is one."""
    return {"tunneling_config": {"hostname": "%REQUESTED_SERVER_NAME%:443", "headers_to_add": credentials(proxy)}}


def credentials(proxy: Proxy) -> list[dict[str, Any]]:
    """The header that shows the proxy who asks."""
    if not proxy.authorization:
        return []
    value = proxy.authorization.replace("%", "%%")
    header = {"key": "Proxy-Authorization", "value": value}
    return [{"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}]


def answers() -> dict[str, Any]:
    """The filter that keeps from a guest what the proxy says in its own name."""
    return typed("filters.http.lua", "filters.http.lua.v3.Lua", default_source_code={"inline_string": _LUA.read_text()})


def clusters_of(proxy: Proxy) -> tuple[dict[str, Any], ...]:
    """Both ways to it. Two sandboxes never share a connection, and no two tunnels do."""
    return (
        _cluster(TUNNELS, proxy, {}, {"max_requests_per_connection": 1}),
        _cluster(REQUESTS, proxy, {"send_fully_qualified_url": True}, {"idle_timeout": "30s"}),
    )


def _cluster(name: str, proxy: Proxy, http: dict[str, Any], common: dict[str, Any]) -> dict[str, Any]:
    address = {"socket_address": {"address": proxy.host, "port_value": proxy.port}}
    return clusters.cluster(
        name,
        load_assignment=clusters.endpoint(name, address),
        connection_pool_per_downstream_connection=True,
        typed_extension_protocol_options=clusters.protocol(
            explicit_http_config={"http_protocol_options": http}, common_http_protocol_options=common
        ),
        **({"type": "STATIC"} if _is_address(proxy.host) else _resolved()),
    )


def _resolved() -> dict[str, Any]:
    """By the gateway's resolver, again and again. Envoy serves without it, and closed: the helper comes later."""
    return {
        "cluster_type": typed(
            "cluster.dns",
            "clusters.dns.v3.DnsCluster",
            dns_lookup_family="V4_ONLY",
            respect_dns_ttl=True,
            dns_failure_refresh_rate={"base_interval": "0.5s", "max_interval": "5s"},
            typed_dns_resolver_config=dns()["typed_dns_resolver_config"],
        ),
        "wait_for_warm_on_init": False,
    }


def _is_address(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
