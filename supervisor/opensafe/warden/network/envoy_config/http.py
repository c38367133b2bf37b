"""Requests that Envoy reads: asked about one by one, and sent on without what would tell of this host."""

from collections.abc import Iterable
from typing import Any, Final

from . import proxied
from .parts import API, HTTP, IDLE, dns, log, question, typed

#: What Envoy, or a guest in Envoy's name, would tell the world.
_INTERNAL_REQUEST: Final = (
    *("x-envoy-external-address", "x-envoy-internal", "x-envoy-original-path", "x-envoy-expected-rq-timeout-ms"),
    *("x-envoy-attempt-count", "x-envoy-decorator-operation", "x-envoy-peer-metadata", "x-envoy-peer-metadata-id"),
    *("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-client-cert", "forwarded"),
    *("x-real-ip", "x-request-id"),
    # What some servers take for method or path, and nobody has judged.
    *("x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url"),
)
_INTERNAL_RESPONSE: Final = ("x-envoy-upstream-service-time", "x-envoy-attempt-count", "x-envoy-decorator-operation")
_JUDGED: Final = ("content-length", "content-type", "upgrade")


def manager(
    *,
    codec: str = "HTTP1",
    report: str = HTTP,
    cluster: str = "http_names",
    headers: bool = False,
    extensions: dict[str, str] | None = None,
    after: Iterable[dict[str, Any]] = (),
    proxy: proxied.Proxy | None = None,
    **more: object,
) -> dict[str, Any]:
    """HTTP/1.1 by Host, asked per request. Of upgrades only WebSocket's may pass (RFC 6455), and no CONNECT.

    Envoy holds back what a client sends after its request to upgrade until the server has agreed (101), and closes
    both sides where it does not: so nothing that was not asked about is read by anybody as another request.

    headers: whether who is asked sees them all. extensions: what the question says beside the request. after: filters
    behind the answer. proxy: to which they go, in cluster. more: fields of the HttpConnectionManager.
    """
    virtual_host: dict[str, Any] = {
        "name": "all",
        "domains": ["*"],
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": cluster, "timeout": "0s"}}],
    }
    if extensions:
        virtual_host["typed_per_filter_config"] = {
            "envoy.filters.http.ext_authz": {
                "@type": f"{API}.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute",
                "check_settings": {"context_extensions": extensions},
            }
        }
    # Tokens and cookies are nobody's business but the server's, where no placeholder has to be looked for.
    shown = {} if headers else {"allowed_headers": {"patterns": [{"exact": one} for one in _JUDGED]}}
    return typed(
        "filters.network.http_connection_manager",
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix=report,
        codec_type=codec,
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
        stream_idle_timeout=IDLE,
        upgrade_configs=[{"upgrade_type": "websocket"}],
        common_http_protocol_options={"idle_timeout": "60s", "max_headers_count": 100},
        access_log=[log("http", report)],
        access_log_options={"flush_access_log_on_new_request": True, "access_log_flush_interval": "1s"},
        http_filters=[
            typed(
                "filters.http.ext_authz",
                "filters.http.ext_authz.v3.ExtAuthz",
                status_on_error={"code": "ServiceUnavailable"},
                include_tls_session=bool(extensions),
                **shown,
                **question(),
            ),
            *after,
            _by_name() if proxy is None else proxied.answers(),
            typed("filters.http.router", "filters.http.router.v3.Router", suppress_envoy_headers=True),
        ],
        route_config={
            "name": "all",
            "request_headers_to_remove": [*_INTERNAL_REQUEST, *proxied.REQUEST_HEADERS],
            "request_headers_to_add": proxied.credentials(proxy) if proxy else [],
            "response_headers_to_remove": list(_INTERNAL_RESPONSE),
            "virtual_hosts": [virtual_host],
        },
        **more,
    )


def _by_name() -> dict[str, Any]:
    return typed(
        "filters.http.dynamic_forward_proxy",
        "filters.http.dynamic_forward_proxy.v3.FilterConfig",
        save_upstream_address=True,
        dns_cache_config=dns(),
    )
