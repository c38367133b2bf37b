"""Envoy's bootstrap (v3 API, Envoy 1.40): one static configuration for all sandboxes, which never changes.

No rule stands here. Who may reach what is asked per connection and per request over `authz`, and Envoy fails closed.
The order is what matters: Envoy resolves and dials when a connection *begins* and asks when its first data arrives.
TLS therefore goes through two listeners, of which only the second, internal one resolves and dials (ADR 0033).
"""

from typing import Any, Final

_API: Final = "type.googleapis.com/envoy"
#: How long a verdict, and the report of a connection, may take.
_ASK: Final = "1s"
#: Connections of all sandboxes together. Each costs at most four descriptors: both listeners and both their upstreams.
CONNECTIONS: Final = 8192
#: Bytes that are held per connection and direction before the sender has to wait.
_BUFFER: Final = 64 * 1024
#: The ClientHello, which comes before anybody is asked.
_EARLY: Final = 16 * 1024
#: Bytes of heap at which no further connection is accepted.
_HEAP: Final = 1 << 30
#: A tunnel in which nothing moves. There is no limit to how long one may last that moves.
_IDLE: Final = "600s"
_RESOLVER: Final = 5353
#: The key under which the inner listener's report carries the guest's address ("10.201.0.1:40000").
SOURCE: Final = "opensafe.source"
#: Names of the reports.
TLS, DIALLED, HTTP = "tls", "dialled", "http"

#: What Envoy, or a guest in Envoy's name, would tell the world.
_INTERNAL_REQUEST: Final = (
    *("x-envoy-external-address", "x-envoy-internal", "x-envoy-original-path", "x-envoy-expected-rq-timeout-ms"),
    *("x-envoy-attempt-count", "x-envoy-decorator-operation", "x-envoy-peer-metadata", "x-envoy-peer-metadata-id"),
    *("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-client-cert", "forwarded"),
    *("x-real-ip", "x-request-id"),
)
_INTERNAL_RESPONSE: Final = ("x-envoy-upstream-service-time", "x-envoy-attempt-count", "x-envoy-decorator-operation")


def configuration(authz: str, admin: str, connections: int = CONNECTIONS) -> dict[str, Any]:
    """The bootstrap as JSON values. `authz`, `admin`: paths of Unix sockets, to connect to and to be made.

    `connections`: how many all sandboxes together may have open.
    """
    return {
        "node": {"id": "gateway", "cluster": "opensafe"},
        "admin": {"address": {"pipe": {"path": admin, "mode": 0o600}}},
        "bootstrap_extensions": [
            _typed("bootstrap.internal_listener", "bootstrap.internal_listener.v3.InternalListener")
        ],
        "overload_manager": _overload(connections),
        "static_resources": {
            "listeners": [_outer(), _inner(), _plain()],
            "clusters": [_authz(authz), _hop(), _names("tls_names"), _names("http_names", http=True)],
        },
    }


def _typed(name: str, kind: str, /, **fields: object) -> dict[str, Any]:
    """An extension: its name without "envoy.", and the message of its configuration."""
    return {"name": f"envoy.{name}", "typed_config": {"@type": f"{_API}.extensions.{kind}", **fields}}


def _overload(connections: int) -> dict[str, Any]:
    monitors = "resource_monitors"
    return {
        "resource_monitors": [
            _typed(
                f"{monitors}.global_downstream_max_connections",
                f"{monitors}.downstream_connections.v3.DownstreamConnectionsConfig",
                max_active_downstream_connections=connections,
            ),
            _typed(f"{monitors}.fixed_heap", f"{monitors}.fixed_heap.v3.FixedHeapConfig", max_heap_size_bytes=_HEAP),
        ],
        "actions": [
            {
                "name": "envoy.overload_actions.stop_accepting_connections",
                "triggers": [{"name": "envoy.resource_monitors.fixed_heap", "threshold": {"value": 0.95}}],
            }
        ],
    }


def _outer() -> dict[str, Any]:
    """TLS, first stage: read the SNI, ask, and go on to the second with the first data, which is the ClientHello."""
    filters = [
        _typed(
            "filters.network.set_filter_state",
            "filters.network.set_filter_state.v3.Config",
            on_new_connection=[
                {
                    "object_key": SOURCE,
                    "factory_key": "envoy.string",
                    "format_string": {"text_format_source": {"inline_string": "%DOWNSTREAM_REMOTE_ADDRESS%"}},
                    "shared_with_upstream": "ONCE",
                }
            ],
        ),
        _typed(
            "filters.network.ext_authz",
            "filters.network.ext_authz.v3.ExtAuthz",
            stat_prefix="tls",
            include_tls_session=True,
            **_question(),
        ),
        _tunnel("hop", _log("tcp", TLS), upstream_connect_mode="ON_DOWNSTREAM_DATA", max_early_data_bytes=_EARLY),
    ]
    # No default chain: what is no TLS matches none and is closed, and so is who says nothing.
    chain = {"filter_chain_match": {"transport_protocol": "tls"}, "filters": filters}
    return _listener("tls", 443) | {
        "listener_filters": [_tls_inspector()],
        "listener_filters_timeout": "3s",
        "continue_on_listener_filters_timeout": False,
        "filter_chains": [chain],
    }


def _inner() -> dict[str, Any]:
    """TLS, second stage, reached through the first alone: resolve the SNI and dial."""
    by_name = _typed(
        "filters.network.sni_dynamic_forward_proxy",
        "filters.network.sni_dynamic_forward_proxy.v3.FilterConfig",
        port_value=443,
        save_upstream_address=True,
        dns_cache_config=_dns(),
    )
    log = _log("tcp", DIALLED)
    log["typed_config"]["common_config"]["filter_state_objects_to_log"] = [SOURCE]
    return {
        "name": "dial",
        "internal_listener": {},
        "per_connection_buffer_limit_bytes": _BUFFER,
        "listener_filters": [_tls_inspector()],
        "filter_chains": [{"filters": [by_name, _tunnel("tls_names", log)]}],
    }


def _plain() -> dict[str, Any]:
    """HTTP/1.1 by Host, asked per request. No upgrade and no CONNECT is configured, so both are refused."""
    manager = _typed(
        "filters.network.http_connection_manager",
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="http",
        codec_type="HTTP1",
        # The address of the connection is the client's, whatever it says in a header; and none counts as internal.
        use_remote_address=True,
        skip_xff_append=True,
        internal_address_config={"unix_sockets": False},
        generate_request_id=False,
        server_header_transformation="PASS_THROUGH",
        # One path for whoever judges and whoever serves: dot segments and repeated slashes are resolved before the
        # question. Escaped slashes stay as sent: package registries need them (/@scope%2Fname), decoding would make
        # another path of them than the one asked for, and the judge resolves what hides behind one (/x%2f../y).
        normalize_path=True,
        merge_slashes=True,
        path_with_escaped_slashes_action="KEEP_UNCHANGED",
        max_request_headers_kb=32,
        request_headers_timeout="5s",
        stream_idle_timeout=_IDLE,
        common_http_protocol_options={"idle_timeout": "60s", "max_headers_count": 100},
        access_log=[_log("http", HTTP)],
        access_log_options={"flush_access_log_on_new_request": True, "access_log_flush_interval": "1s"},
        http_filters=[
            _typed(
                "filters.http.ext_authz",
                "filters.http.ext_authz.v3.ExtAuthz",
                status_on_error={"code": "ServiceUnavailable"},
                # Tokens and cookies are nobody's business but the server's.
                allowed_headers={"patterns": [{"exact": "content-length"}, {"exact": "content-type"}]},
                **_question(),
            ),
            _typed(
                "filters.http.dynamic_forward_proxy",
                "filters.http.dynamic_forward_proxy.v3.FilterConfig",
                save_upstream_address=True,
                dns_cache_config=_dns(),
            ),
            _typed("filters.http.router", "filters.http.router.v3.Router", suppress_envoy_headers=True),
        ],
        route_config={
            "name": "all",
            "request_headers_to_remove": list(_INTERNAL_REQUEST),
            "response_headers_to_remove": list(_INTERNAL_RESPONSE),
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "http_names", "timeout": "0s"}}],
                }
            ],
        },
    )
    return _listener("http", 80) | {"filter_chains": [{"filters": [manager]}]}


def _listener(name: str, port: int) -> dict[str, Any]:
    return {
        "name": name,
        "address": {"socket_address": {"address": "0.0.0.0", "port_value": port}},  # noqa: S104 - in the gateway's namespace
        "per_connection_buffer_limit_bytes": _BUFFER,
    }


def _tls_inspector() -> dict[str, Any]:
    return _typed("filters.listener.tls_inspector", "filters.listener.tls_inspector.v3.TlsInspector")


def _tunnel(cluster: str, log: dict[str, Any], **fields: object) -> dict[str, Any]:
    return _typed(
        "filters.network.tcp_proxy",
        "filters.network.tcp_proxy.v3.TcpProxy",
        stat_prefix=cluster,
        cluster=cluster,
        idle_timeout=_IDLE,
        access_log=[log],
        access_log_options={"flush_access_log_on_connected": True, "access_log_flush_interval": "0.5s"},
        **fields,
    )


def _helper() -> dict[str, Any]:
    return {"envoy_grpc": {"cluster_name": "authz"}, "timeout": _ASK}


def _question() -> dict[str, Any]:
    return {"grpc_service": _helper(), "transport_api_version": "V3", "failure_mode_allow": False}


def _log(protocol: str, name: str) -> dict[str, Any]:
    common = {
        "log_name": name,
        "grpc_service": _helper(),
        "transport_api_version": "V3",
        "buffer_flush_interval": "0.1s",
        "buffer_size_bytes": 4096,
    }
    kind = {"tcp": "TcpGrpcAccessLogConfig", "http": "HttpGrpcAccessLogConfig"}[protocol]
    return _typed(f"access_loggers.{protocol}_grpc", f"access_loggers.grpc.v3.{kind}", common_config=common)


def _dns() -> dict[str, Any]:
    """The gateway's own resolver, and no other. Every user of the cache has to say exactly the same."""
    address = {"socket_address": {"address": "127.0.0.1", "port_value": _RESOLVER}}
    return {
        "name": "names",
        "dns_lookup_family": "V4_ONLY",
        "max_hosts": 4096,
        "host_ttl": "60s",
        "dns_query_timeout": "5s",
        "typed_dns_resolver_config": _typed(
            "network.dns_resolver.cares",
            "network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            resolvers=[address],
            use_resolvers_as_fallback=False,
            dns_resolver_options={"no_default_search_domain": True},
        ),
    }


def _cluster(name: str, **fields: object) -> dict[str, Any]:
    limits = {"max_connections": CONNECTIONS, "max_pending_requests": CONNECTIONS, "max_requests": CONNECTIONS}
    return {
        "name": name,
        "connect_timeout": "5s",
        "per_connection_buffer_limit_bytes": _BUFFER,
        "circuit_breakers": {"thresholds": [{**limits, "max_retries": 0}]},
        **fields,
    }


def _endpoint(name: str, address: dict[str, Any]) -> dict[str, Any]:
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]}


def _protocol(**fields: object) -> dict[str, Any]:
    kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    return {kind: {"@type": f"type.googleapis.com/{kind}", **fields}}


def _authz(path: str) -> dict[str, Any]:
    return _cluster(
        "authz",
        type="STATIC",
        load_assignment=_endpoint("authz", {"pipe": {"path": path}}),
        typed_extension_protocol_options=_protocol(explicit_http_config={"http2_protocol_options": {}}),
    )


def _hop() -> dict[str, Any]:
    """From the first stage to the second, with what the first has noted."""
    raw = _typed("transport_sockets.raw_buffer", "transport_sockets.raw_buffer.v3.RawBuffer")
    return _cluster(
        "hop",
        type="STATIC",
        load_assignment=_endpoint("hop", {"envoy_internal_address": {"server_listener_name": "dial"}}),
        transport_socket=_typed(
            "transport_sockets.internal_upstream",
            "transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
            transport_socket=raw,
        ),
    )


def _names(name: str, *, http: bool = False) -> dict[str, Any]:
    """Whatever the name resolves to."""
    fields: dict[str, Any] = {
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": _typed(
            "clusters.dynamic_forward_proxy",
            "clusters.dynamic_forward_proxy.v3.ClusterConfig",
            # It means Envoy's own TLS without checks. Here is none: TLS is between guest and server.
            allow_insecure_cluster_options=True,
            dns_cache_config=_dns(),
        ),
    }
    if http:
        # Two sandboxes never share a connection, on which one could see what the other left.
        fields["connection_pool_per_downstream_connection"] = True
        fields["typed_extension_protocol_options"] = _protocol(
            explicit_http_config={"http_protocol_options": {}}, common_http_protocol_options={"idle_timeout": "30s"}
        )
    return _cluster(name, **fields)
