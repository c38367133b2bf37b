"""Trace context that requests carry: sessions, calls, questions and permits then stand in the caller's own trace."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from opensafe.model.carrier import from_metadata

_current: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("opensafe_trace", default=())


@contextmanager
def trace_context(carrier: Mapping[str, str]) -> Iterator[None]:
    """Within the block, of this task: requests go out as part of the trace in `carrier`.

    carrier: W3C Trace Context, `traceparent` and perhaps `tracestate`, as OpenTelemetry's propagators write it. What is
    malformed counts as absent.
    """
    token = _current.set(tuple(from_metadata(carrier.items()).items()))
    try:
        yield
    finally:
        _current.reset(token)


def metadata() -> tuple[tuple[str, str], ...]:
    """What a request sends beside its message."""
    return _current.get()
