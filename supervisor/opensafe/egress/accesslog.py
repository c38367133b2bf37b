"""Envoy's log of what is open: bytes are added as it comes, and what may go on no longer is cut.

Entries are cumulative and come every half second while a connection is open, and once at its end. They are matched
by socket and by the start that Envoy gave both in the check and here: a keep-alive connection carries one request after
the other, and a log entry may come when the next is already judged.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import structlog

from opensafe._proto.envoy import als_pb2
from opensafe.warden.feed import Call

from .accounting import Accounting
from .connections import Connections, Judge, Open, Socket
from .proxied import Failures

_ENDS: Final = frozenset((als_pb2.AccessLogType.TcpConnectionEnd, als_pb2.AccessLogType.DownstreamEnd))
_OPENS: Final = frozenset(
    (
        als_pb2.AccessLogType.TcpUpstreamConnected,
        als_pb2.AccessLogType.TcpPeriodic,
        als_pb2.AccessLogType.DownstreamPeriodic,
    )
)

#: The log of requests in TLS that ends here, as Envoy is configured.
TERMINATED: Final = "terminated"
#: That of second stages, which dial for guests.
_DIALLED: Final = "dialled"

_log = structlog.get_logger()


class Log:
    """Reads the streams of Envoy's workers. When the last of them ends, Envoy is gone and so is all that was open."""

    def __init__(
        self,
        judge: Judge,
        connections: Connections,
        accounting: Accounting,
        call_at: Callable[[str, str], Call | None],
        failures: Failures | None = None,
    ) -> None:
        """failures: told of the ends of what went through the site's proxy, where there is one."""
        self._failures = failures
        self._judge = judge
        self._connections = connections
        self._accounting = accounting
        self._call_at = call_at
        self._streams = 0

    async def follow(self, messages: AsyncIterator[als_pb2.StreamAccessLogsMessage]) -> None:
        """Until the stream ends."""
        self._streams += 1
        name = ""
        try:
            async for message in messages:
                try:
                    name = message.identifier.log_name or name
                    if name == _DIALLED:
                        self._second(message)
                    else:
                        await (self._requests(message) if name == TERMINATED else self._take(message))
                except Exception:  # noqa: BLE001 - one bad entry must not end the account of all others
                    _log.exception("an access log entry could not be read")
        finally:
            self._streams -= 1
            if not self._streams:
                self._connections.lost()
                if self._failures is not None:
                    self._failures.lost()

    async def _take(self, message: als_pb2.StreamAccessLogsMessage) -> None:
        grown: dict[int, Open] = {}
        for common, sent, received in _entries(message):
            kind = common.access_log_type
            if kind not in _ENDS and kind not in _OPENS:
                continue
            peer = common.downstream_remote_address.socket_address
            source = (peer.address, peer.port_value)
            one = self._connections.find(source, common.start_time.ToNanoseconds())
            if one is None:
                await self._unknown(source, sent, received, common, ended=kind in _ENDS)
                continue
            if self._connections.progress(one, sent, received) or one.cut:
                grown[id(one)] = one
            if kind in _ENDS:
                grown.pop(id(one), None)
                if self._failures is not None:
                    self._failures.ended(one, common)
                self._connections.leave(one, common.upstream_remote_address.socket_address.address)
        await self._connections.settle(self._judge, grown.values())

    def _second(self, message: als_pb2.StreamAccessLogsMessage) -> None:
        """What the first stage has not seen. Bytes and ends are told by it."""
        for common, _, _ in _entries(message):
            if self._failures is not None and common.access_log_type in _ENDS:
                self._failures.tunnel(common)

    async def _requests(self, message: als_pb2.StreamAccessLogsMessage) -> None:
        """Those inside of connections, of which those themselves tell the bytes."""
        for common, _, _ in _entries(message):
            kind = common.access_log_type
            peer = common.downstream_remote_address.socket_address
            source, start = (peer.address, peer.port_value), common.start_time.ToNanoseconds()
            if kind in _ENDS:
                if self._failures is not None and (one := self._connections.at(source)) is not None:
                    self._failures.inside(one, common)
                self._connections.answered(source, start, common.upstream_remote_address.socket_address.address)
            elif kind in _OPENS and source[0] and not self._connections.requested(source, start):
                await self._connections.stranger(source)

    async def _unknown(
        self, source: Socket, sent: int, received: int, common: als_pb2.AccessLogCommon, *, ended: bool
    ) -> None:
        """One that was never allowed here, or forgotten: nobody could cut it later, so it is cut now."""
        call = self._call_at(source[0], "")
        if ended:
            if call is not None and common.HasField("upstream_remote_address"):
                self._accounting.moved("", "", call, sent, received)
        elif source[0]:
            await self._connections.stranger(source)


def _entries(message: als_pb2.StreamAccessLogsMessage) -> Iterator[tuple[als_pb2.AccessLogCommon, int, int]]:
    """Common properties, and bytes from the guest and to it."""
    for entry in message.tcp_logs.log_entry:
        bytes_of = entry.connection_properties
        yield entry.common_properties, bytes_of.received_bytes, bytes_of.sent_bytes
    for http in message.http_logs.log_entry:
        common, request, response = http.common_properties, http.request, http.response
        yield (
            common,
            max(common.downstream_wire_bytes_received, request.request_headers_bytes + request.request_body_bytes),
            max(common.downstream_wire_bytes_sent, response.response_headers_bytes + response.response_body_bytes),
        )
