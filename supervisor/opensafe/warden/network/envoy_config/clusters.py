"""The clusters: where Envoy connects to."""

from typing import Any

from .parts import BUFFER, CONNECTIONS, HTTP2, dns, typed


def helper(name: str, path: str) -> dict[str, Any]:
    """The helper, at one of its sockets."""
    return cluster(
        name,
        type="STATIC",
        load_assignment=endpoint(name, {"pipe": {"path": path}}),
        typed_extension_protocol_options=protocol(explicit_http_config={"http2_protocol_options": {}}),
    )


def hop(name: str = "hop", listener: str = "dial") -> dict[str, Any]:
    """From the first stage to the second, with what the first has noted."""
    raw = typed("transport_sockets.raw_buffer", "transport_sockets.raw_buffer.v3.RawBuffer")
    return cluster(
        name,
        type="STATIC",
        load_assignment=endpoint(name, {"envoy_internal_address": {"server_listener_name": listener}}),
        transport_socket=typed(
            "transport_sockets.internal_upstream",
            "transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
            transport_socket=raw,
        ),
    )


def names(name: str, *, http: bool = False) -> dict[str, Any]:
    """Whatever the name resolves to."""
    fields: dict[str, Any] = {
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": typed(
            "clusters.dynamic_forward_proxy",
            "clusters.dynamic_forward_proxy.v3.ClusterConfig",
            # It means Envoy's own TLS without checks. Here is none: TLS is between guest and server.
            allow_insecure_cluster_options=True,
            dns_cache_config=dns(),
        ),
    }
    if http:
        # Two sandboxes never share a connection, on which one could see what the other left.
        fields["connection_pool_per_downstream_connection"] = True
        fields["typed_extension_protocol_options"] = protocol(
            explicit_http_config={"http_protocol_options": {}}, common_http_protocol_options={"idle_timeout": "30s"}
        )
    return cluster(name, **fields)


def verified(name: str, trusted: str, through: str = "") -> dict[str, Any]:
    """Whatever the name resolves to, by TLS with who proves to be it to `trusted`, a PEM file. HTTP/1.1 and 2.

    through: the internal listener that dials by the SNI, where it is not done here.
    """
    tls = typed(
        "transport_sockets.tls",
        "transport_sockets.tls.v3.UpstreamTlsContext",
        common_tls_context={"validation_context": {"trusted_ca": {"filename": trusted}}},
    )
    protocols: dict[str, Any] = {"http_protocol_options": {}, "http2_protocol_options": HTTP2}
    where: dict[str, Any] = {
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": typed(
            "clusters.dynamic_forward_proxy",
            "clusters.dynamic_forward_proxy.v3.ClusterConfig",
            dns_cache_config=dns(),
        ),
    }
    if through:
        place = endpoint(name, {"envoy_internal_address": {"server_listener_name": through}})
        where = {"type": "STATIC", "load_assignment": place}
    return cluster(
        name,
        **where,
        transport_socket=tls,
        connection_pool_per_downstream_connection=True,
        typed_extension_protocol_options=protocol(
            auto_config=protocols,
            common_http_protocol_options={"idle_timeout": "30s"},
            upstream_http_protocol_options={"auto_sni": True, "auto_san_validation": True},
        ),
    )


def cluster(name: str, **fields: object) -> dict[str, Any]:
    """One, within the bounds that hold for all."""
    limits = {"max_connections": CONNECTIONS, "max_pending_requests": CONNECTIONS, "max_requests": CONNECTIONS}
    return {
        "name": name,
        "connect_timeout": "5s",
        "per_connection_buffer_limit_bytes": BUFFER,
        "circuit_breakers": {"thresholds": [{**limits, "max_retries": 0}]},
        **fields,
    }


def endpoint(name: str, address: dict[str, Any]) -> dict[str, Any]:
    """The one place of a cluster."""
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]}


def protocol(**fields: object) -> dict[str, Any]:
    """HttpProtocolOptions (v3) of a cluster."""
    kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    return {kind: {"@type": f"type.googleapis.com/{kind}", **fields}}
