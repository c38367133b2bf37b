"""Envoy's DNS server: what Envoy may dial is decided here, before it knows an address.

Envoy asks only for names of connections that were allowed, but a name may lead anywhere: an answer with one address
that is not fit is refused whole, because Envoy tries the others when the first does not connect. Fit addresses are let
through the gateway's filter for longer than Envoy may keep them, before it hears of them; so an address that was never
here, a literal in a Host line for instance, can't be dialled.
"""

import asyncio
import contextlib
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import dns.rcode
import dns.rdatatype
import msgspec

from opensafe.errors import OpenSafeError
from opensafe.model.facts import ClassTables
from opensafe.normalize.urls import canonical_name, classify_host, is_address

from . import upstream, wire

_LEAST_TTL_S: Final = 5
_MOST_TTL_S: Final = 60
#: How long the filter knows an address: Envoy dials late, too. The same for all answers: each begins the time of its
#: addresses anew, and would else cut short that of another name.
_VETTED_S: Final = _MOST_TTL_S + 30
_VET_TIMEOUT_S: Final = 2.0
_CACHED: Final = 4096
_UNDER_WAY: Final = 256
_WAITING: Final = 32
_BATCH: Final = 64

Vet = Callable[[Sequence[str], int], Awaitable[None]]
_Waiting = tuple[wire.Query, tuple[str, int]]


class Outcome(msgspec.Struct, frozen=True):
    """What is said of a name. until: when it has to be asked again, by the resolver's clock."""

    rcode: dns.rcode.Rcode
    addresses: tuple[str, ...] = ()
    until: float = 0


_NO_TABLES: Final = ClassTables()
_FAILED: Final = Outcome(dns.rcode.SERVFAIL)


def public(address: str) -> bool:
    """Whether a canonical address is one of the internet's: of no private, local, metadata or multicast kind."""
    return is_address(address) and not classify_host(address, _NO_TABLES)


def _unreported(name: str, why: str) -> None:
    """Of refusals nobody wants to hear."""


class Resolver:
    """Answers on a bound UDP socket, which it closes at the end.

    vet(addresses, seconds): lets them be dialled; whatever it raises, the name is not answered. knows: whether a name
    is allowed to anybody now. fit: whether a canonical address may be dialled. refused(name, why): told of answers that
    were not passed on.
    """

    def __init__(
        self,
        udp: socket.socket,
        vet: Vet,
        upstreams: Sequence[upstream.Server],
        knows: Callable[[str], bool],
        *,
        fit: Callable[[str], bool] = public,
        refused: Callable[[str, str], None] = _unreported,
        clock: Callable[[], float] = time.monotonic,
        timeout: float = upstream.TIMEOUT_S,
    ) -> None:
        self._udp = udp
        self._vet = vet
        self._upstreams = tuple(upstreams)
        self._knows = knows
        self._fit = fit
        self._refused = refused
        self._clock = clock
        self._timeout = timeout
        self._cache: OrderedDict[str, Outcome] = OrderedDict()
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def addresses(self, name: str) -> tuple[str, ...]:
        """What Envoy would be answered for a canonical name; none where that is no address."""
        if not self._knows(name):
            return ()
        outcome = self._cache.get(name)
        if outcome is None or outcome.until <= self._clock():
            outcome = await self._look_up(name)
            if outcome.until:
                self._keep(name, outcome)
        return outcome.addresses

    async def run(self) -> None:
        """Answer until cancelled."""
        loop = asyncio.get_running_loop()
        self._udp.setblocking(False)
        loop.add_reader(self._udp, self._hear)
        try:
            await loop.create_future()
        finally:
            loop.remove_reader(self._udp)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._udp.close()

    def _hear(self) -> None:
        for _ in range(_BATCH):
            try:
                packet, peer = self._udp.recvfrom(wire.MAX_QUERY + 1)
            except OSError:
                return
            query = wire.read(packet)
            if isinstance(query, wire.Query):
                self._take(query, peer)
            elif query is not None:
                self._send(query, peer)

    def _take(self, query: wire.Query, peer: tuple[str, int]) -> None:
        """Answer now what can be answered now, and let the rest wait for one question to the world."""
        name = canonical_name(query.name)
        if name is None or is_address(name) or not self._knows(name):
            return self._tell(query, peer, Outcome(dns.rcode.NXDOMAIN))
        if query.kind != dns.rdatatype.A:
            return self._tell(query, peer, Outcome(dns.rcode.NOERROR))
        known = self._cache.get(name)
        if known is not None and known.until > self._clock():
            return self._tell(query, peer, known)
        waiting = self._waiting.get(name)
        if waiting is None:
            if len(self._waiting) >= _UNDER_WAY:
                return self._tell(query, peer, _FAILED)
            self._waiting[name] = [(query, peer)]
            task = asyncio.create_task(self._find(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif len(waiting) < _WAITING:
            waiting.append((query, peer))
        return None

    async def _find(self, name: str) -> None:
        outcome = _FAILED
        try:
            outcome = await self._look_up(name)
            if outcome.until:
                self._keep(name, outcome)
        finally:
            for query, peer in self._waiting.pop(name):
                self._tell(query, peer, outcome)

    async def _look_up(self, name: str) -> Outcome:
        found = await upstream.ask(name, self._upstreams, self._timeout)
        if found is None:
            self._refused(name, "no DNS server of the site answers")
            return _FAILED
        until = self._clock() + _LEAST_TTL_S
        for address in found.every:
            if not self._fit(canonical_name(address) or ""):
                self._refused(name, f"the DNS answer has {address}, which is no address to be dialled")
                return Outcome(dns.rcode.SERVFAIL, until=until)
        if not found.addresses:
            return Outcome(dns.rcode.NOERROR if found.exists else dns.rcode.NXDOMAIN, until=until)
        if not self._knows(name):  # no longer
            return Outcome(dns.rcode.NXDOMAIN)
        ttl = min(max(found.ttl, _LEAST_TTL_S), _MOST_TTL_S)
        addresses = found.addresses[: wire.MAX_ADDRESSES]
        until = self._clock() + ttl
        try:
            async with asyncio.timeout(_VET_TIMEOUT_S):
                await self._vet(addresses, _VETTED_S)
        except (OpenSafeError, OSError, TimeoutError, ValueError) as error:
            self._refused(name, f"the gateway's filter does not take its addresses: {error}")
            return _FAILED
        return Outcome(dns.rcode.NOERROR, addresses, until)

    def _keep(self, name: str, outcome: Outcome) -> None:
        self._cache[name] = outcome
        self._cache.move_to_end(name)
        if len(self._cache) > _CACHED:
            self._cache.popitem(last=False)

    def _tell(self, query: wire.Query, peer: tuple[str, int], outcome: Outcome) -> None:
        ttl = max(int(outcome.until - self._clock()), 1) if outcome.until else 0
        self._send(wire.answer(query.message, outcome.rcode, outcome.addresses, ttl=ttl), peer)

    def _send(self, packet: bytes, peer: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):  # Envoy is gone, or will ask again
            self._udp.sendto(packet, peer)
