"""What the configuration says more than once: how an extension is written, whom Envoy asks and tells, and names."""

from typing import Any, Final

API: Final = "type.googleapis.com/envoy"
#: How long a verdict, and the report of a connection, may take.
_ASK: Final = "1s"
#: Connections of all sandboxes together. Each costs at most four descriptors: both listeners and both their upstreams.
CONNECTIONS: Final = 8192
#: Bytes that are held per connection and direction before the sender has to wait.
BUFFER: Final = 64 * 1024
#: A tunnel in which nothing moves. There is no limit to how long one may last that moves.
IDLE: Final = "600s"
_RESOLVER: Final = 5353
#: The key under which the inner listener's report carries the guest's address ("10.201.0.1:40000").
SOURCE: Final = "opensafe.source"
#: The key of which the listener filter original_dst takes the guest's address, and makes it the connection's own.
REMOTE: Final = "envoy.filters.listener.original_dst.remote_ip"
#: Names of the reports.
TLS, DIALLED, HTTP, TERMINATED = "tls", "dialled", "http", "terminated"
#: Streams of one connection, and bytes that each side may send of one and of all before it has to wait.
HTTP2: Final = {
    "max_concurrent_streams": 100,
    "initial_stream_window_size": BUFFER,
    "initial_connection_window_size": 4 * BUFFER,
}


def typed(name: str, kind: str, /, **fields: object) -> dict[str, Any]:
    """An extension: its name without "envoy.", and the message of its configuration."""
    return {"name": f"envoy.{name}", "typed_config": {"@type": f"{API}.extensions.{kind}", **fields}}


def question() -> dict[str, Any]:
    """How ext_authz asks: without an answer it is no."""
    return {"grpc_service": _helper("authz"), "transport_api_version": "V3", "failure_mode_allow": False}


def log(protocol: str, name: str) -> dict[str, Any]:
    """A report under `name` of connections ("tcp") or requests ("http")."""
    common = {
        "log_name": name,
        "grpc_service": _helper("log"),
        "transport_api_version": "V3",
        # What comes in that time is one message: each costs the helper as much as many entries.
        "buffer_flush_interval": "0.1s",
        "buffer_size_bytes": 32768,
    }
    kind = {"tcp": "TcpGrpcAccessLogConfig", "http": "HttpGrpcAccessLogConfig"}[protocol]
    return typed(f"access_loggers.{protocol}_grpc", f"access_loggers.grpc.v3.{kind}", common_config=common)


def dns() -> dict[str, Any]:
    """The gateway's own resolver, and no other. Every user of the cache has to say exactly the same."""
    address = {"socket_address": {"address": "127.0.0.1", "port_value": _RESOLVER}}
    return {
        "name": "names",
        "dns_lookup_family": "V4_ONLY",
        "max_hosts": 4096,
        "host_ttl": "60s",
        "dns_query_timeout": "5s",
        "typed_dns_resolver_config": typed(
            "network.dns_resolver.cares",
            "network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            resolvers=[address],
            use_resolvers_as_fallback=False,
            dns_resolver_options={"no_default_search_domain": True},
        ),
    }


def _helper(cluster: str) -> dict[str, Any]:
    return {"envoy_grpc": {"cluster_name": cluster}, "timeout": _ASK}
