"""Spans of connections: `egress.connect` from the allow to the end, `egress.refuse` of no length, below a call's run.

Two names, since what compares traces sees names and places alone. A question for a name that was allowed has none: the
connection after it has. A request inside of TLS that ends at the gateway is a point in its connection.

The end of a connection comes when its call's run has ended already, so a run's span is known for a while longer. Each
owner, a run or a session, has so many spans, and its own says how many it would have had.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from opensafe.model.canonical import MAX_SAFE_INTEGER
from opensafe.model.connection import Connection

from . import semconv

#: Spans of one owner.
MOST: Final = 128
#: How long after an owner's end its connections may still be told of.
_LATE_S: Final = 10.0
#: Where requests are inside of TLS. What a request is part of, is known by its name alone.
_HTTPS: Final = 443

_Key = tuple[str, str, int | None]


class _Owner(msgspec.Struct, eq=False):
    """Whose spans they are. open: by what they are with, each with its begin in microseconds."""

    span: Span
    open: dict[_Key, list[tuple[int, Span]]] = {}
    spans: int = 0
    allowed: int = 0
    refused: int = 0


class EgressSpans:
    """Told of each owner and each connection, in one event loop. `close` ends what is open."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._owners: dict[str, _Owner] = {}
        self._late: dict[str, asyncio.TimerHandle] = {}

    def begin(self, owner_id: str, span: Span) -> None:
        """Connections with this execution's id, or without a known one with this session's, belong below the span."""
        self._owners[owner_id] = _Owner(span)

    @contextlib.contextmanager
    def below(self, owner_id: str, span: Span) -> Iterator[None]:
        """The same for as long as the block takes, and a little longer."""
        self.begin(owner_id, span)
        try:
            yield
        finally:
            self.sum_up(owner_id)
            self._late[owner_id] = asyncio.get_running_loop().call_later(_LATE_S, self.end, owner_id)

    def sum_up(self, owner_id: str) -> None:
        """Say on the owner's span what there was."""
        owner = self._owners.get(owner_id)
        if owner is not None and owner.span.is_recording() and owner.allowed + owner.refused:
            owner.span.set_attributes(
                {semconv.EGRESS_ALLOWED: _bounded(owner.allowed), semconv.EGRESS_REFUSED: _bounded(owner.refused)}
            )

    def end(self, owner_id: str) -> None:
        """Nothing more is told of it: what is open ends, with an end that nobody knows."""
        self.sum_up(owner_id)
        self._late.pop(owner_id, None)
        owner = self._owners.pop(owner_id, None)
        for some in owner.open.values() if owner is not None else ():
            for _, span in some:
                span.set_attribute(semconv.EGRESS_STATE, "unknown")
                span.end()

    def close(self) -> None:
        """End all."""
        for handle in self._late.values():
            handle.cancel()
        for owner_id in tuple(self._owners):
            self.end(owner_id)

    def tell(self, connection: Connection) -> None:
        """It is on record."""
        owner = self._owners.get(connection.exec_id) or self._owners.get(connection.session_id)
        if owner is None:
            return
        match connection.state:
            case "allowed":
                self._allowed(owner, connection)
            case "refused":
                owner.refused += connection.count
                self._refused(owner, connection)
            case _:
                _ended(owner, connection)

    def _allowed(self, owner: _Owner, connection: Connection) -> None:
        if connection.layer == "dns":
            return
        owner.allowed += connection.count
        if connection.layer == "http" and connection.port == _HTTPS:
            if (span := self._start(owner, semconv.SPAN_REQUEST, connection)) is not None:
                span.set_attribute(semconv.EGRESS_STATE, connection.state)
                span.end(_ns(connection.time_us))
        elif (span := self._start(owner, semconv.SPAN_CONNECT, connection)) is not None:
            owner.open.setdefault(_key(connection), []).append((connection.time_us, span))

    def _refused(self, owner: _Owner, connection: Connection) -> None:
        if (span := self._start(owner, semconv.SPAN_REFUSE, connection)) is not None:
            span.set_attribute(semconv.EGRESS_STATE, connection.state)
            _fail(span, connection)
            span.end(_ns(connection.time_us))

    def _start(self, owner: _Owner, name: str, connection: Connection) -> Span | None:
        if owner.spans >= MOST:
            return None
        owner.spans += 1
        around = owner.open.get(("tls", connection.name, _HTTPS)) if name == semconv.SPAN_REQUEST else None
        return self._tracer.start_span(
            name,
            context=trace.set_span_in_context(around[-1][1] if around else owner.span, Context()),
            kind=SpanKind.CLIENT,
            attributes=_attributes(connection),
            start_time=_ns(connection.time_us),
        )


def _ended(owner: _Owner, connection: Connection) -> None:
    open_ = owner.open.get(_key(connection), [])
    # Of equal ones it is the one that was allowed last before this began.
    found = max((one for one in open_ if one[0] <= connection.begun_us), key=lambda one: one[0], default=None)
    if found is None:
        return
    open_.remove(found)
    _, span = found
    span.set_attributes(
        {
            semconv.EGRESS_STATE: connection.state,
            semconv.EGRESS_SENT: _bounded(connection.sent),
            semconv.EGRESS_RECEIVED: _bounded(connection.received),
        }
    )
    if connection.address:
        span.set_attribute(semconv.PEER_ADDRESS, connection.address)
    if connection.rules:  # else it ended by itself, or with its call
        span.set_attribute(semconv.RULES, connection.rules)
        _fail(span, connection)
    span.end(_ns(max(connection.time_us, found[0])))


def _fail(span: Span, connection: Connection) -> None:
    if connection.rules:
        span.set_attribute(semconv.SECURITY_RULE_NAME, connection.rules[0])
    if connection.reason:
        span.set_attribute(semconv.DETAIL, connection.reason)
    span.set_attribute(semconv.ERROR_TYPE, "packet_refused" if connection.layer == "packet" else "policy_denied")
    span.set_status(Status(StatusCode.ERROR))


def _attributes(connection: Connection) -> dict[str, AttributeValue]:
    """What is known when it is let out or refused, as far as there is any."""
    layer = connection.layer
    said: dict[str, AttributeValue | None] = {
        semconv.EGRESS_LAYER: layer,
        semconv.SERVER_ADDRESS: connection.name or connection.address,
        semconv.SERVER_PORT: connection.port,
        semconv.TRANSPORT: connection.protocol or (None if layer == "dns" else "tcp"),
        semconv.PROTOCOL: layer if layer in ("dns", "http", "tls") else None,
        semconv.PEER_ADDRESS: connection.address,
        semconv.HTTP_METHOD: connection.method,
        semconv.EGRESS_COUNT: connection.count if connection.count > 1 else None,
        semconv.RULES: connection.rules,
        semconv.DECISION_ID: connection.decision_id,
        semconv.BUNDLE_REVISION: connection.revision,
        semconv.SANDBOX_ID: connection.sandbox_id,
        semconv.EXEC_ID: connection.exec_id,
    }
    return {
        name: _bounded(value) if isinstance(value, int) else value
        for name, value in said.items()
        if value is not None and value not in ("", ())
    }


def _ns(time_us: int) -> int:
    """The helper's word for a time, in nanoseconds, in range as below."""
    return max(_bounded(time_us), 0) * 1000


def _bounded(number: int) -> int:
    """A number of the helper's, brought into range: one that can't be written would take the whole batch along."""
    return min(number, MAX_SAFE_INTEGER)


def _key(connection: Connection) -> _Key:
    return connection.layer, connection.name, connection.port
