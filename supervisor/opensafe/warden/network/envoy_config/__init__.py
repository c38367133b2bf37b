"""Envoy's bootstrap (v3 API, Envoy 1.40): one static configuration for all sandboxes, which never changes.

No rule stands here. Who may reach what is asked per connection and per request over `authz`, and Envoy fails closed.
The order is what matters: Envoy resolves and dials when a connection *begins* and asks when its first data arrives.
TLS therefore goes through two listeners, of which only the second, internal one resolves and dials (ADR 0033).
"""

import pathlib
from typing import Any, Final

from ...protocol import LOG_SOCKET
from . import clusters, listeners, proxied, terminated
from .parts import CONNECTIONS, typed
from .proxied import Proxy
from .terminated import Termination

__all__ = ["CONNECTIONS", "Proxy", "Termination", "configuration"]

#: Bytes of heap at which no further connection is accepted.
_HEAP: Final = 1 << 30
_RESETS: Final = "envoy.reloadable_features.enable_send_rst_on_user_space_socket"


def configuration(
    authz: str,
    admin: str,
    connections: int = CONNECTIONS,
    termination: Termination | None = None,
    proxy: Proxy | None = None,
) -> dict[str, Any]:
    """The bootstrap as JSON values. `authz`, `admin`: paths of Unix sockets, to connect to and to be made.

    Beside the first is the one for logs (protocol.LOG_SOCKET), so that each serves one method.

    `connections`: how many all sandboxes together may have open. `termination`: which TLS ends here, if any does.
    `proxy`: through which everything goes, where names are not resolved and dialled here.
    """
    names, headers = (termination.names, termination.headers) if termination else ((), False)
    return {
        "node": {"id": "gateway", "cluster": "opensafe"},
        "admin": {"address": {"pipe": {"path": admin, "mode": 0o600}}},
        "bootstrap_extensions": [
            typed("bootstrap.internal_listener", "bootstrap.internal_listener.v3.InternalListener")
        ],
        # Else the end of an inner connection can overtake its last bytes: the outer is reset before they are read.
        "layered_runtime": {"layers": [{"name": "own", "static_layer": {_RESETS: False}}]},
        "overload_manager": _overload(connections),
        "static_resources": {
            "listeners": [
                listeners.outer(names),
                listeners.inner(proxy),
                listeners.plain(proxy, headers=headers),
                *(terminated.listeners(termination) if termination else ()),
            ],
            "clusters": [
                clusters.helper("authz", authz),
                clusters.helper("log", str(pathlib.PurePath(authz).with_name(LOG_SOCKET))),
                clusters.hop(),
                *(
                    proxied.clusters_of(proxy)
                    if proxy
                    else (clusters.names("tls_names"), clusters.names("http_names", http=True))
                ),
                *(terminated.clusters_of(termination, proxied=proxy is not None) if termination else ()),
            ],
        },
    }


def _overload(connections: int) -> dict[str, Any]:
    monitors = "resource_monitors"
    return {
        "resource_monitors": [
            typed(
                f"{monitors}.global_downstream_max_connections",
                f"{monitors}.downstream_connections.v3.DownstreamConnectionsConfig",
                max_active_downstream_connections=connections,
            ),
            typed(f"{monitors}.fixed_heap", f"{monitors}.fixed_heap.v3.FixedHeapConfig", max_heap_size_bytes=_HEAP),
        ],
        "actions": [
            {
                "name": "envoy.overload_actions.stop_accepting_connections",
                "triggers": [{"name": "envoy.resource_monitors.fixed_heap", "threshold": {"value": 0.95}}],
            }
        ],
    }
