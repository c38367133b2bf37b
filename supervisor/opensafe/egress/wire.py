"""DNS packets of clients: read strictly, answered small.

Guests write these packets, so what is read is bounded before it is parsed: one question, no records but EDNS, and no
more bytes than a question can need, within which no chain of compression pointers is long. All answers fit into 512
bytes (RFC 1035, 4.2.1), so nothing is ever truncated, and a question can't be used to send somebody much more than it
cost.
"""

import struct
from collections.abc import Sequence
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import msgspec

#: Bytes of a question with the longest name, an OPT record and options such as cookies.
MAX_QUERY: Final = 512
#: Addresses in one answer; with the longest name 400 bytes.
MAX_ADDRESSES: Final = 8
_HEADER: Final = struct.Struct("!6H")
_QR: Final = 0x8000
_OPCODE: Final = 0x7800
_RD: Final = 0x0100
_QUERY_RECORDS: Final = 2
_PAYLOAD: Final = 1232
_NO_NAME: Final = "."


class Query(msgspec.Struct, frozen=True):
    """One question of class IN. name: as it was sent, its case kept, octets that are no text escaped (RFC 1035, 5.1),
    without the final dot; "." is the root.
    """

    message: dns.message.Message
    name: str
    kind: dns.rdatatype.RdataType


def read(packet: bytes) -> Query | bytes | None:
    """The question of a packet, or the answer that it gets without being asked anything, or None: silence.

    FORMERR where it can't be read as one question; NOTIMP where it is another opcode or class; BADVERS (RFC 6891) for
    EDNS from the future. What is itself an answer, or no whole header, is met with silence, or two servers could be
    made to talk to each other for ever. Raises nothing.
    """
    if len(packet) < _HEADER.size:
        return None
    number, flags, questions, answers, authorities, additional = _HEADER.unpack_from(packet)
    if flags & _QR:
        return None
    if flags & _OPCODE:
        return _bare(number, flags, dns.rcode.NOTIMP)
    counts_fit = (questions, answers, authorities) == (1, 0, 0) and additional <= _QUERY_RECORDS
    if len(packet) > MAX_QUERY or not counts_fit:
        return _bare(number, flags, dns.rcode.FORMERR)
    try:
        message = dns.message.from_wire(packet)
    except (dns.exception.DNSException, ValueError):
        return _bare(number, flags, dns.rcode.FORMERR)
    if len(message.question) != 1:
        return _bare(number, flags, dns.rcode.FORMERR)
    asked = message.question[0]
    if message.edns > 0:
        return answer(message, dns.rcode.BADVERS)
    if asked.rdclass != dns.rdataclass.IN:
        return _bare(number, flags, dns.rcode.NOTIMP)
    return Query(message, asked.name.to_text(omit_final_dot=True), asked.rdtype)


def answer(
    message: dns.message.Message,
    rcode: dns.rcode.Rcode,
    addresses: Sequence[str] = (),
    *,
    ttl: int = 0,
    authoritative: bool = False,
) -> bytes:
    """The answer in wire format: id, question and its case as they came, A records, and without any the root's SOA.

    The SOA says for how long (ttl, seconds) there is nothing (RFC 2308).
    """
    response = dns.message.make_response(message, recursion_available=True, our_payload=_PAYLOAD)
    response.set_rcode(rcode)
    if authoritative:
        response.flags |= dns.flags.AA
    if addresses:
        owner = message.question[0].name
        response.answer.append(dns.rrset.from_text_list(owner, ttl, "IN", "A", list(addresses[:MAX_ADDRESSES])))
    elif rcode in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        soa = f". . 1 3600 600 86400 {ttl}"
        response.authority.append(dns.rrset.from_text_list(dns.name.root, ttl, "IN", "SOA", [soa]))
    return response.to_wire()


def _bare(number: int, flags: int, rcode: dns.rcode.Rcode) -> bytes:
    """A header alone, for what can't be repeated."""
    return _HEADER.pack(number, _QR | flags & (_OPCODE | _RD) | rcode, 0, 0, 0, 0)
