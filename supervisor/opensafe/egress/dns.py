"""The sandboxes' DNS server: says where the gateway is, to those who may go there, and asks nobody.

A refused lookup is itself a way out where it is forwarded (the name is the message), so nothing is: the one address of
an allowed name is that at which the question arrived, where Envoy listens, or one that stands for it, and the world is
asked only after a connection has been allowed. What is not allowed does not exist (NXDOMAIN): at REFUSED, libc tries
again and reports a passing fault.
"""

import asyncio
import contextlib
import socket
import struct
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

import dns.rcode
import dns.rdatatype

from opensafe.normalize.urls import canonical_name, is_address

from . import names, wire
from .judge import Answer, Question

#: Seconds for which a guest may keep what it was told.
_TTL_S: Final = 5
#: Questions a second of one sandbox, and how many at once.
_RATE: Final = 100
_BURST: Final = 200
_SOURCES: Final = 4096
#: Datagrams read before others get their turn.
_BATCH: Final = 64
_CONNECTIONS: Final = 256
_CONNECTIONS_A_SOURCE: Final = 8
_IDLE_S: Final = 5.0
#: in_pktinfo of ip(7): interface, local address, destination of the header.
_PKTINFO: Final = struct.Struct("=i4s4s")
_IP_PKTINFO: Final = 8
_LENGTH: Final = struct.Struct("!H")


class Judge(Protocol):
    """Who decides and puts on record (judge.EgressJudge). Never raises."""

    def judge(self, question: Question) -> Answer:
        """The verdict on one question."""
        ...


class Rate:
    """A token bucket for each source; of sources, the last `_SOURCES` that asked."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, source: str) -> bool:
        """Take a token of `source`; False where it has none left."""
        now = self._clock()
        tokens, then = self._buckets.pop(source, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        taken = tokens >= 1
        self._buckets[source] = (tokens - taken, now)
        if len(self._buckets) > _SOURCES:
            self._buckets.popitem(last=False)
        return taken


class Responder:
    """Answers on a bound UDP socket and a listening TCP socket, which it closes at the end.

    session: what names are counted by, of a source address; without it the address. refused: told sandbox and name of
    each question that is. asked: the names of each session so far. synthetic: what stands for a canonical name, or "".
    dropped: questions over the rate, and connections over a cap, which get no answer.
    """

    def __init__(
        self,
        judge: Judge,
        udp: socket.socket,
        tcp: socket.socket,
        *,
        session: Callable[[str], str] = str,
        refused: Callable[[str, str], None] | None = None,
        synthetic: Callable[[str], str] = lambda _: "",
        asked: names.Asked | None = None,
        clock: Callable[[], float] = time.monotonic,
        idle_s: float = _IDLE_S,
    ) -> None:
        self._judge = judge
        self._udp = udp
        self._tcp = tcp
        self._session = session
        self._refused = refused
        self._synthetic = synthetic
        self._idle_s = idle_s
        self._asked = asked or names.Asked()
        self._rate = Rate(_RATE, _BURST, clock)
        self._open: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[object]] = set()
        self.dropped = 0

    async def run(self) -> None:
        """Answer until cancelled."""
        loop = asyncio.get_running_loop()
        self._udp.setblocking(False)
        self._udp.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        server = await asyncio.start_server(self._converse, sock=self._tcp, limit=wire.MAX_QUERY)
        loop.add_reader(self._udp, self._hear)
        try:
            await loop.create_future()
        finally:
            loop.remove_reader(self._udp)
            self._udp.close()
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hear(self) -> None:
        """Some of the datagrams that are there. The selector calls again while more are."""
        for _ in range(_BATCH):
            try:
                packet, ancillary, _, peer = self._udp.recvmsg(wire.MAX_QUERY + 1, socket.CMSG_SPACE(_PKTINFO.size))
            except OSError:
                return
            arrived = [data for level, kind, data in ancillary if (level, kind) == (socket.IPPROTO_IP, _IP_PKTINFO)]
            if not arrived or not self._take(peer[0]):
                continue
            _, _, here = _PKTINFO.unpack_from(arrived[0])
            response = self._respond(packet, peer[0], socket.inet_ntoa(here))
            if response is not None:
                back = [(socket.IPPROTO_IP, _IP_PKTINFO, _PKTINFO.pack(0, here, bytes(4)))]
                with contextlib.suppress(OSError):  # the asker is gone or reads nothing: it may ask again
                    self._udp.sendmsg([response], back, 0, peer)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One TCP connection (RFC 7766): questions in turn, until it is quiet, says nonsense or asks too fast."""
        source, here = writer.get_extra_info("peername")[0], writer.get_extra_info("sockname")[0]
        if self._open[source] >= _CONNECTIONS_A_SOURCE or self._open.total() >= _CONNECTIONS:
            self.dropped += 1
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs is some task's
        self._tasks.add(task)
        self._open[source] += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                while await self._exchange(reader, writer, source, here):
                    pass
            writer.close()
            async with asyncio.timeout(self._idle_s):  # what was answered may still be under way
                await writer.wait_closed()
        except (OSError, TimeoutError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)
            self._open[source] -= 1
            if not self._open[source]:
                del self._open[source]

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, source: str, here: str
    ) -> bool:
        """One question of a connection; False where it was none, or too many. Raises what a stream raises."""
        async with asyncio.timeout(self._idle_s):
            (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            if size > wire.MAX_QUERY:
                return False
            packet = await reader.readexactly(size)
            response = self._respond(packet, source, here) if self._take(source) else None
            if response is None:
                return False
            writer.write(_LENGTH.pack(len(response)) + response)
            await writer.drain()
            return True

    def _take(self, source: str) -> bool:
        taken = self._rate.take(source)
        self.dropped += not taken
        return taken

    def _respond(self, packet: bytes, source: str, here: str) -> bytes | None:
        query = wire.read(packet)
        if not isinstance(query, wire.Query):
            return query
        name = self._allowed(query.name, source)
        if not name:
            return wire.answer(query.message, dns.rcode.NXDOMAIN, authoritative=True)
        addresses = (self._synthetic(name) or here,) if query.kind == dns.rdatatype.A else ()
        return wire.answer(query.message, dns.rcode.NOERROR, addresses, ttl=_TTL_S, authoritative=True)

    def _allowed(self, name: str, source: str) -> str:
        """The canonical name; "" where it is not allowed."""
        label = names.measure(name) | {"names": self._asked.count(self._session(source), name)}
        verdict = self._judge.judge(Question(layer="dns", source=source, name=name, port=None, label=label))
        if not verdict.allowed and self._refused is not None:
            self._refused(verdict.sandbox_id, verdict.name)
        canonical = canonical_name(name)
        return canonical if verdict.allowed and canonical is not None and not is_address(canonical) else ""
