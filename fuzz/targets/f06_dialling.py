"""F6: whatever a DNS server answers, what may be dialled is an address of the internet that this answer holds.

The resolver asks a server of the target's own over loopback, as it asks the site's. References: the records that the
answer was made of, and address ranges as numbers.
"""

import asyncio
import functools
import socket
import struct
from collections.abc import Sequence
from typing import Final

from opensafe.egress import resolver
from opensafe.proof.fuzzing import inner
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_A, _CNAME, _AAAA, _IN, _CHAOS = 1, 5, 28, 1, 3
_NAMES: Final = ("api.test", "cdn.test", "edge.cdn.test", "other.test")
_ASKED: Final = _NAMES[0]
_V4: Final = (
    "93.184.216.34", "8.8.8.8", "10.0.0.1", "127.0.0.1", "169.254.169.254", "192.168.1.1", "100.64.0.1", "0.0.0.0",
    "224.0.0.1", "255.255.255.255", "198.18.0.1", "172.31.255.255", "100.100.100.200", "203.0.113.9", "1.1.1.1",
)  # fmt: skip
_V6: Final = (
    "2606:4700::1", "::1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "fe80::1", "fd00:ec2::254", "fec0::1", "ff02::1",
    "2002:a00:1::", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "::", "2001:db8::1",
)  # fmt: skip
_HEADER: Final = struct.Struct("!6H")
_ANSWER: Final = 0x8180
_SERVFAIL: Final = 2
_TIMEOUT_S: Final = 5.0

_Record = tuple[str, int, int, bytes]


def one(data: bytes) -> None:
    """Answer a question with records or with bytes, a forged answer perhaps before, and see what may be dialled."""
    draw = Draw(data)
    if draw.number(0, 3) == 3:
        packets, records = [draw.rest()], None
    else:
        forged = draw.number(0, 4)
        records = _records(draw)
        packets = [_packet(records)]
        if forged:
            packets.insert(0, _forged(forged))
    told, vetted = _world().ask(packets)
    holds(set(told) <= set(vetted), "what may be dialled was let through the filter first", (told, vetted))
    for address in {*told, *vetted}:
        holds(not inner.is_inner(inner.packed(address)), "what may be dialled is of the internet", (told, records))
    if records is not None:
        _as_answered(told, records)


def _as_answered(told: Sequence[str], records: Sequence[_Record]) -> None:
    addresses = [value for _, kind, group, value in records if kind in (_A, _AAAA) and group == _IN]
    if any(inner.is_inner(value) for value in addresses):
        holds(not told, "an answer with an inner address is refused whole", (told, records))
    at, alias = _ASKED, {name: value for name, kind, group, value in records if (kind, group) == (_CNAME, _IN)}
    chain = [at]
    while at in alias and len(chain) <= len(_NAMES):
        at = _NAMES[alias[at][0]]
        chain.append(at)
    answered = [socket.inet_ntoa(value) for name, kind, group, value in records if (name, kind, group) == (at, _A, _IN)]
    holds(set(told) <= set(answered), "what may be dialled stands at the end of the chain", (told, records))
    plain = all(group == _IN for _, _, group, _ in records) and len(set(chain)) == len(chain)
    if plain and not any(inner.is_inner(value) for value in addresses):
        holds(set(told) == set(answered), "an answer of the internet's addresses is used", (told, records))


def _records(draw: Draw) -> list[_Record]:
    records: list[_Record] = []
    for _ in range(draw.number(0, 6)):
        name, kind = draw.pick(_NAMES), draw.pick((_A, _A, _AAAA, _CNAME))
        group = _CHAOS if draw.number(0, 15) == 15 else _IN
        if kind == _CNAME:
            value = bytes([draw.number(0, len(_NAMES) - 1)])
            records = [one for one in records if one[:2] != (name, _CNAME)]
        elif draw.flag():
            value = (draw.data(16) + bytes(16))[: 4 if kind == _A else 16]
        else:
            value = inner.packed(draw.pick(_V4)) if kind == _A else socket.inet_pton(socket.AF_INET6, draw.pick(_V6))
        records.append((name, kind, group, value))
    return records


def _wire(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def _packet(records: Sequence[_Record], name: str = _ASKED, flags: int = _ANSWER) -> bytes:
    """An answer with id 0, for which the server puts the question's."""
    question = _wire(name) + struct.pack("!2H", _A, _IN)
    packet = _HEADER.pack(0, flags, 1, len(records), 0, 0) + question
    for owner, kind, group, value in records:
        wire = _wire(_NAMES[value[0]]) if kind == _CNAME else value
        packet += _wire(owner) + struct.pack("!2HIH", kind, group, 60, len(wire)) + wire
    return packet


def _forged(how: int) -> bytes:
    """What somebody sends who did not see the question: another id, another name, no answer, another opcode."""
    records = [(_ASKED, _A, _IN, inner.packed("9.9.9.9"))]
    match how:
        case 1:
            return b"!" + _packet(records)
        case 2:
            return _packet(records, _NAMES[3])
        case 3:
            return _packet(records, flags=_ANSWER & 0x7FFF)
        case _:
            return _packet(records, flags=_ANSWER | 0x1000)


class _World(asyncio.DatagramProtocol):
    """An event loop with a DNS server in it, which answers with what it was given, and then that it failed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._packets: Sequence[bytes] = ()
        made = self._loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self._transport, _ = self._loop.run_until_complete(made)
        self._server = self._transport.get_extra_info("sockname")

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """A question."""
        number = int.from_bytes(data[:2])
        for packet in (*self._packets, _packet((), flags=_ANSWER | _SERVFAIL)):
            wrong = packet.startswith(b"!")
            answer = packet[1:] if wrong else packet
            self._transport.sendto((number ^ wrong).to_bytes(2) + answer[2:], addr)

    def ask(self, packets: Sequence[bytes]) -> tuple[tuple[str, ...], list[str]]:
        """What may be dialled for the name, and what the filter was told."""
        vetted: list[str] = []

        async def vet(addresses: Sequence[str], _seconds: int) -> None:
            vetted.extend(addresses)

        self._packets = packets
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unused:
            asking = resolver.Resolver(unused, vet, [self._server], lambda _: True, timeout=_TIMEOUT_S)
            return self._loop.run_until_complete(asking.addresses(_ASKED)), vetted

    def close(self) -> None:
        """End it."""
        self._transport.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


@functools.cache
def _world() -> _World:
    return _World()


def close() -> None:
    """End the server."""
    if _world.cache_info().currsize:
        _world().close()
        _world.cache_clear()


def seeds() -> list[bytes]:
    """Answers of one and of several records, chains, forgeries, and answers as bytes."""
    made = [
        bytes([0, forged, count, *range(at, at + 24)])
        for at in range(0, 60, 6)
        for forged, count in ((0, 1), (at % 5, 3))
    ]
    packets = [
        [(_ASKED, _A, _IN, inner.packed("8.8.8.8"))],
        [(_ASKED, _CNAME, _IN, b"\1"), (_NAMES[1], _A, _IN, inner.packed("10.0.0.1"))],
        [(_ASKED, _A, _IN, inner.packed("8.8.8.8")), (_ASKED, _AAAA, _IN, inner.packed("::1"))],
    ]
    return made + [b"\3" + _packet(records) for records in packets]


_RESOLVER: Final = "egress/resolver.py"
_UPSTREAM: Final = "egress/upstream.py"
TARGET: Final = Target(
    id="F6",
    title="what a DNS answer lets be dialled",
    one=one,
    seeds=seeds,
    close=close,
    modules=("opensafe.egress", "opensafe.normalize.urls"),
    floor=100,
    runs=2000,
    longest=512,
    mutants=(
        Mutant(
            id="F6-unchecked", file=_RESOLVER, old='if not self._fit(canonical_name(address) or ""):', new="if False:",
            says="the name is checked, and no address",
        ),
        Mutant(
            id="F6-first", file=_RESOLVER, old="for address in found.every:", new="for address in found.every[:1]:",
            says="of several addresses the first is checked",
        ),
        Mutant(
            id="F6-six", file=_UPSTREAM, old="if one.rdtype in (dns.rdatatype.A, dns.rdatatype.AAAA)",
            new="if one.rdtype == dns.rdatatype.A",
            says="addresses of IPv6 are not looked at",
        ),
        Mutant(
            id="F6-unvetted", file=_RESOLVER, old="await self._vet(addresses, _VETTED_S)", new="pass",
            says="what may be dialled is not let through the filter",
        ),
        Mutant(
            id="F6-id", file=_UPSTREAM, old="response.id == query.id\n        and ", new="True and ",
            says="an answer with another id is believed",
        ),
        Mutant(
            id="F6-question", file=_UPSTREAM, old="response.question[0] == query.question[0]", new="True",
            says="an answer to another question is believed",
        ),
        Mutant(
            id="F6-link-local", file="normalize/urls.py",
            old="if not address.is_global or address.is_multicast or not _given_out(address):",
            new="if address.is_multicast or not _given_out(address):",
            says="private addresses have no class",
        ),
    ),
)  # fmt: skip
