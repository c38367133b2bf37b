"""The listeners: TLS in its two stages, and plain HTTP."""

from collections.abc import Sequence
from typing import Any, Final

from . import http, proxied
from .parts import BUFFER, DIALLED, IDLE, REMOTE, SOURCE, TLS, dns, log, question, typed

#: The ClientHello, which comes before anybody is asked.
_EARLY: Final = 16 * 1024


def outer(terminated: Sequence[str] = ()) -> dict[str, Any]:
    """TLS, first stage: read the SNI, ask, and go on to the second with the first data, which is the ClientHello.

    terminated: names whose second stage is another (terminated.py).
    """
    chains = [_chain("hop", {"object_key": SOURCE, "factory_key": "envoy.string"})]
    if terminated:
        chain = _chain("terminated", {"object_key": REMOTE})
        chain["filter_chain_match"]["server_names"] = list(terminated)
        chains.append(chain)
    # No default chain: what is no TLS matches none and is closed, and so is who says nothing.
    return _listener("tls", 443) | {
        "listener_filters": [tls_inspector()],
        "listener_filters_timeout": "3s",
        "continue_on_listener_filters_timeout": False,
        "filter_chains": chains,
    }


def _chain(cluster: str, noted: dict[str, str]) -> dict[str, Any]:
    """noted: under which key, and as what, the next stage finds the guest's address."""
    filters = [
        typed(
            "filters.network.set_filter_state",
            "filters.network.set_filter_state.v3.Config",
            on_new_connection=[
                {
                    **noted,
                    "format_string": {"text_format_source": {"inline_string": "%DOWNSTREAM_REMOTE_ADDRESS%"}},
                    "shared_with_upstream": "ONCE",
                }
            ],
        ),
        typed(
            "filters.network.ext_authz",
            "filters.network.ext_authz.v3.ExtAuthz",
            stat_prefix="tls",
            include_tls_session=True,
            **question(),
        ),
        _tunnel(cluster, log("tcp", TLS), upstream_connect_mode="ON_DOWNSTREAM_DATA", max_early_data_bytes=_EARLY),
    ]
    return {"filter_chain_match": {"transport_protocol": "tls"}, "filters": filters}


def inner(proxy: proxied.Proxy | None = None) -> dict[str, Any]:
    """TLS, second stage, reached through the first alone: resolve the SNI and dial, or have the proxy do so."""
    report = log("tcp", DIALLED)
    report["typed_config"]["common_config"]["filter_state_objects_to_log"] = [SOURCE]
    if proxy is None:
        filters = [_by_name(), _tunnel("tls_names", report)]
    else:
        filters = [_tunnel(proxied.TUNNELS, report, **proxied.tunnel(proxy))]
    return {
        "name": "dial",
        "internal_listener": {},
        "per_connection_buffer_limit_bytes": BUFFER,
        "listener_filters": [tls_inspector()],
        "filter_chains": [{"filters": filters}],
    }


def _by_name() -> dict[str, Any]:
    return typed(
        "filters.network.sni_dynamic_forward_proxy",
        "filters.network.sni_dynamic_forward_proxy.v3.FilterConfig",
        port_value=443,
        save_upstream_address=True,
        dns_cache_config=dns(),
    )


def plain(proxy: proxied.Proxy | None = None, *, headers: bool = False) -> dict[str, Any]:
    """HTTP/1.1 by Host. headers: see http.manager."""
    cluster = "http_names" if proxy is None else proxied.REQUESTS
    manager = http.manager(cluster=cluster, headers=headers, proxy=proxy)
    return _listener("http", 80) | {"filter_chains": [{"filters": [manager]}]}


def _listener(name: str, port: int) -> dict[str, Any]:
    return {
        "name": name,
        "address": {"socket_address": {"address": "0.0.0.0", "port_value": port}},  # noqa: S104 - in the gateway's namespace
        "per_connection_buffer_limit_bytes": BUFFER,
    }


def tls_inspector() -> dict[str, Any]:
    """Reads the SNI."""
    return typed("filters.listener.tls_inspector", "filters.listener.tls_inspector.v3.TlsInspector")


def _tunnel(cluster: str, report: dict[str, Any], **fields: object) -> dict[str, Any]:
    return typed(
        "filters.network.tcp_proxy",
        "filters.network.tcp_proxy.v3.TcpProxy",
        stat_prefix=cluster,
        cluster=cluster,
        idle_timeout=IDLE,
        access_log=[report],
        access_log_options={"flush_access_log_on_connected": True, "access_log_flush_interval": "0.5s"},
        **fields,
    )
