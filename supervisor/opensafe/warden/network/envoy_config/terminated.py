"""TLS that ends here, for listed names: a second stage that reads requests, asks about each, and speaks TLS upstream.

The first stage has judged the SNI and passed the guest's address on, which no byte of the guest's can change. The
certificates come from files (SDS) that are replaced while Envoy runs, so the configuration holds no key.
"""

import pathlib
from typing import Any, Final

import msgspec

from . import clusters, http
from .listeners import tls_inspector
from .parts import BUFFER, HTTP2, TERMINATED, typed

#: Of what ext_authz was told with a request: the texts that must not come back to the guest.
_MASK: Final = pathlib.Path(__file__).with_name("mask.lua")


class Termination(msgspec.Struct, frozen=True, kw_only=True):
    """names: whose TLS ends here. certificates: directory with NAME.json, a Secret (v3) each. trusted: PEM file of the
    authorities for upstreams. headers: whether who is asked sees all headers, to put credentials in.
    """

    names: tuple[str, ...]
    certificates: str
    trusted: str
    headers: bool = False


def listeners(termination: Termination) -> tuple[dict[str, Any], ...]:
    """The second stage, with one certificate for each name."""
    after = [_masking()] if termination.headers else []
    manager = http.manager(
        codec="AUTO",
        report=TERMINATED,
        cluster="verified_names",
        headers=termination.headers,
        extensions={"opensafe": TERMINATED},
        after=after,
        http2_protocol_options=HTTP2,
    )
    return (
        {
            "name": "terminated",
            "internal_listener": {},
            "per_connection_buffer_limit_bytes": BUFFER,
            "listener_filters": [
                typed("filters.listener.original_dst", "filters.listener.original_dst.v3.OriginalDst"),
                tls_inspector(),
            ],
            "filter_chains": [
                {
                    "name": name,
                    "filter_chain_match": {"server_names": [name]},
                    "transport_socket": _certified(name, f"{termination.certificates}/{name}.json"),
                    "filters": [manager],
                }
                for name in termination.names
            ],
        },
    )


def clusters_of(termination: Termination, *, proxied: bool = False) -> tuple[dict[str, Any], ...]:
    """From the first stage to this one, and on to the world, or by the other second stage to the site's proxy."""
    return (
        clusters.hop("terminated", "terminated"),
        clusters.verified("verified_names", termination.trusted, through="dial" if proxied else ""),
    )


def _certified(name: str, path: str) -> dict[str, Any]:
    source = {"path_config_source": {"path": path}, "resource_api_version": "V3"}
    return typed(
        "transport_sockets.tls",
        "transport_sockets.tls.v3.DownstreamTlsContext",
        common_tls_context={
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_certificate_sds_secret_configs": [{"name": name, "sds_config": source}],
        },
        # Nobody else's tickets, and none that would outlive the certificate.
        disable_stateless_session_resumption=True,
    )


def _masking() -> dict[str, Any]:
    return typed(
        "filters.http.lua", "filters.http.lua.v3.Lua", default_source_code={"inline_string": _MASK.read_text()}
    )
