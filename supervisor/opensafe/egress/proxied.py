"""What the site's proxy did not do: tunnels that it refused, requests that it did not answer, or that it was not there.

Such a connection was allowed, so its own record tells no fault. Envoy's reports do: here each becomes a refusal on
record, under the call that the connection was of. Those of a tunnel's two stages come in any order.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from google.protobuf.any_pb2 import Any
from google.protobuf.wrappers_pb2 import StringValue

from opensafe._proto.envoy import als_pb2
from opensafe.model.connection import Connection
from opensafe.model.ids import now_us

from .connections import Connections, Open, Socket

RULE: Final = "egress.proxy.unavailable"
#: Names that Envoy is configured with: of whom the second stage of TLS dials for, and of what came of a request.
_SOURCE, _REQUEST = "opensafe.source", "opensafe.proxy"
#: Connections that have ended and whose second stage has not been heard of.
_ENDED: Final = 1024
_ABSENT: Final = "the site's proxy is not there, or made no tunnel"
_REFUSED: Final = "the site's proxy refused the request in its own name"


class Failures:
    """report: puts one on record."""

    def __init__(self, connections: Connections, report: Callable[[Connection], None]) -> None:
        self._connections = connections
        self._report = report
        self._ended: OrderedDict[Socket, Open] = OrderedDict()

    def ended(self, one: Open, common: als_pb2.AccessLogCommon) -> None:
        """A first stage, or a request."""
        if one.question.layer == "http":
            refused = _REQUEST in common.metadata.filter_metadata
            if refused or _failed(common.response_flags):
                self._tell(one, _REFUSED if refused else _ABSENT)
            return
        self._ended[one.source] = one
        self._ended.move_to_end(one.source)
        if len(self._ended) > _ENDED:
            self._ended.popitem(last=False)

    def tunnel(self, common: als_pb2.AccessLogCommon) -> None:
        """The end of a second stage."""
        address, _, port = _text(common.filter_state_objects[_SOURCE]).rpartition(":")
        source = (address, int(port)) if port.isdecimal() else ("", 0)
        before = self._ended.pop(source, None)
        one = before or self._connections.at(source)
        if one is not None and _failed(common.response_flags):
            self._tell(one, _ABSENT)

    def _tell(self, one: Open, why: str) -> None:
        call = one.call
        self._report(
            Connection(
                time_us=now_us(),
                state="refused",
                sandbox_id=one.answer.sandbox_id,
                exec_id=one.answer.exec_id,
                decision_id=call.decision_id if call is not None else "",
                call_id=call.call_id if call is not None else "",
                session_id=call.session_id if call is not None else "",
                principal=call.principal.name if call is not None else "",
                trace_id=call.trace_id if call is not None else "",
                layer=one.question.layer,
                name=one.answer.name,
                port=one.question.port,
                method=one.question.method,
                rules=(RULE,),
                reason=why,
            )
        )


def _failed(flags: als_pb2.ResponseFlags) -> bool:
    return flags.upstream_connection_failure or flags.no_healthy_upstream or flags.upstream_connection_termination


def _text(noted: Any) -> str:
    said = StringValue()
    return said.value if noted.Unpack(said) else ""
