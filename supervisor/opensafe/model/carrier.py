"""Where a client's own trace goes on: W3C trace context, out of gRPC metadata or of an MCP request's `_meta`.

A carrier is what OpenTelemetry's propagators read: `traceparent` and, if there is one, `tracestate`. What is malformed
counts as absent, so a call never fails for its trace. Baggage is not taken: it would be a client's text in our spans.
"""

from collections.abc import Iterable, Mapping
from typing import Final

_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
#: W3C Trace Context: version 00 has 55 characters, a later one may have more; a state of 512 must be kept.
_PARENT_MAX: Final = 256
_STATE_MAX: Final = 512


def from_metadata(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Out of header fields, names in lower case. Two parents are none; a state in parts is joined (RFC 9110, 5.3)."""
    found: dict[str, list[str]] = {_PARENT: [], _STATE: []}
    for key, value in metadata:
        if key in found and isinstance(value, str):
            found[key].append(value)
    parent = found[_PARENT][0] if len(found[_PARENT]) == 1 else ""
    return _carrier(parent, ",".join(found[_STATE]))


def from_meta(params: Mapping[str, object]) -> dict[str, str]:
    """Out of an MCP request's `params`, whose `_meta` has both under their bare names."""
    meta = params.get("_meta")
    if not isinstance(meta, Mapping):
        return {}
    parent, state = meta.get(_PARENT), meta.get(_STATE, "")
    return _carrier(parent if isinstance(parent, str) else "", state if isinstance(state, str) else "")


def _carrier(parent: str, state: str) -> dict[str, str]:
    if not 0 < len(parent) <= _PARENT_MAX:
        return {}
    return {_PARENT: parent} | ({_STATE: state} if 0 < len(state) <= _STATE_MAX else {})
