"""The world's authoritative name server (RFC 1035): answers from the plan, and tells each question."""

import collections
from collections.abc import Callable
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

from . import plan

_TURNS_MAX: Final = 4096


class Names:
    """The answers; it remembers how often it was asked for each name."""

    def __init__(self) -> None:
        self._asked: collections.Counter[str] = collections.Counter()

    def answer(self, wire: bytes, asked: Callable[[str], None]) -> bytes | None:
        """The answer in wire form; None to what is no question. `asked` gets the name, without trailing dot."""
        try:
            question = dns.message.from_wire(wire)
        except (dns.exception.DNSException, ValueError):
            return None
        if question.flags & dns.flags.QR or not question.question:
            return None
        reply = dns.message.make_response(question)
        reply.flags |= dns.flags.AA
        wanted = question.question[0]
        name = wanted.name.to_text(omit_final_dot=True).lower()
        asked(name)
        if not self._fill(reply, name, wanted.rdtype):
            reply.set_rcode(dns.rcode.NXDOMAIN)
        return reply.to_wire()

    def _fill(self, reply: dns.message.Message, name: str, wanted: dns.rdatatype.RdataType) -> bool:
        """Whether there is such a name, whatever it has."""
        owner = name
        if alias := plan.ALIASES.get(name):
            reply.answer.append(dns.rrset.from_text(f"{name}.", plan.TTL_S, "IN", "CNAME", f"{alias}."))
            owner = alias
        six = plan.address6(owner)
        four = plan.addresses(owner, self._asked[owner])
        if wanted == dns.rdatatype.A and four:
            if len(self._asked) < _TURNS_MAX:
                self._asked[owner] += 1
            reply.answer.append(dns.rrset.from_text(f"{owner}.", plan.TTL_S, "IN", "A", *four))
        if wanted == dns.rdatatype.AAAA and six:
            reply.answer.append(dns.rrset.from_text(f"{owner}.", plan.TTL_S, "IN", "AAAA", six))
        return bool(four or six)
