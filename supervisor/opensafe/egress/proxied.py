"""What the site's proxy did not do: tunnels that it refused, requests that it did not answer, or that it was not there.

Such a connection was allowed, so its own record tells no fault. Envoy's reports do: here each becomes a refusal on
record, under the call that the connection was of. Those of a tunnel's two stages come in any order.

Envoy keeps asking for a tunnel whose guest has gone, until the proxy answers or ten minutes are over. Such tunnels are
counted, so that nobody piles them up.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
from typing import Final

from google.protobuf.any_pb2 import Any
from google.protobuf.wrappers_pb2 import StringValue

from opensafe._proto.envoy import als_pb2
from opensafe.model.connection import Connection
from opensafe.model.ids import now_us
from opensafe.warden.feed import under

from .connections import Connections, Open, Socket

RULE: Final = "egress.proxy.unavailable"
#: Names that Envoy is configured with: of whom the second stage of TLS dials for, and of what came of a request.
_SOURCE, _REQUEST = "opensafe.source", "opensafe.proxy"
#: Connections of which one stage has ended and the other not; those of one sandbox; and how long Envoy waits.
_HALVES: Final = 8192
_LEFT_MOST: Final = 128
_LEFT_US: Final = 610_000_000
_ABSENT: Final = "the site's proxy is not there, or made no tunnel"
_REFUSED: Final = "the site's proxy refused the request in its own name"


class Failures:
    """report: puts one on record. terminated: hosts to which TLS ends in Envoy, by another second stage."""

    def __init__(
        self,
        connections: Connections,
        report: Callable[[Connection], None],
        *,
        terminated: Collection[str] = (),
        clock: Callable[[], int] = now_us,
    ) -> None:
        self._connections = connections
        self._report = report
        self._terminated = frozenset(terminated)
        self._clock = clock
        self._left: OrderedDict[Socket, tuple[int, Open]] = OrderedDict()
        self._count: Counter[str] = Counter()
        self._heard: OrderedDict[Socket, None] = OrderedDict()

    def crowded(self, sandbox_id: str) -> str:
        """Why this sandbox gets no further tunnel, "" where it does."""
        while self._left and self._clock() - next(iter(self._left.values()))[0] > _LEFT_US:
            self._drop(next(iter(self._left)))
        if self._count[sandbox_id] < _LEFT_MOST:
            return ""
        return f"egress: the site's proxy has not answered for {_LEFT_MOST} tunnels that were left. Try again later."

    def ended(self, one: Open, common: als_pb2.AccessLogCommon) -> None:
        """A first stage, or a request."""
        if one.question.layer == "http":
            self.inside(one, common)
        elif one.source in self._heard:
            del self._heard[one.source]
        elif one.answer.name not in self._terminated:
            self._drop(one.source)
            self._left[one.source] = (self._clock(), one)
            self._count[one.answer.sandbox_id] += 1
            if len(self._left) > _HALVES:
                self._drop(next(iter(self._left)))

    def inside(self, one: Open, common: als_pb2.AccessLogCommon) -> None:
        """A request, of its own or in TLS that ends in Envoy."""
        refused = _REQUEST in common.metadata.filter_metadata
        if refused or _failed(common.response_flags):
            self._tell(one, _REFUSED if refused else _ABSENT)

    def tunnel(self, common: als_pb2.AccessLogCommon) -> None:
        """The end of a second stage."""
        address, _, port = _text(common.filter_state_objects[_SOURCE]).rpartition(":")
        source = (address, int(port)) if port.isdecimal() else ("", 0)
        one = self._drop(source)
        if one is None:
            one = self._connections.at(source)
            if one is not None:
                self._heard[source] = None
                if len(self._heard) > _HALVES:
                    self._heard.popitem(last=False)
        if one is not None and _failed(common.response_flags):
            self._tell(one, _ABSENT)

    def lost(self) -> None:
        """Envoy is gone, and all that it asked for."""
        self._left.clear()
        self._count.clear()
        self._heard.clear()

    def _drop(self, source: Socket) -> Open | None:
        _, one = self._left.pop(source, (0, None))
        if one is not None:
            self._count[one.answer.sandbox_id] -= 1
            if not self._count[one.answer.sandbox_id]:
                del self._count[one.answer.sandbox_id]
        return one

    def _tell(self, one: Open, why: str) -> None:
        connection = Connection(
            time_us=now_us(),
            state="refused",
            sandbox_id=one.answer.sandbox_id,
            exec_id=one.answer.exec_id,
            layer=one.question.layer,
            name=one.answer.name,
            port=one.question.port,
            method=one.question.method,
            rules=(RULE,),
            reason=why,
        )
        self._report(under(one.call, connection))


def _failed(flags: als_pb2.ResponseFlags) -> bool:
    return flags.upstream_connection_failure or flags.no_healthy_upstream or flags.upstream_connection_termination


def _text(noted: Any) -> str:
    said = StringValue()
    return said.value if noted.Unpack(said) else ""
