"""Asks the site's DNS servers for the IPv4 addresses of a name, and believes only an answer to that question.

Each question has a socket and an id of its own, so that a forger has to guess a port and an id at once (RFC 5452); what
does not match is left unread until the time is up. Within an answer the chain of aliases is followed from the name that
was asked, and every address in it is told, those beside the chain too: the resolver refuses an answer for one.
"""

import asyncio
import contextlib
import ipaddress
import pathlib
import secrets
import socket
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
import msgspec

Server = tuple[str, int]

PORT: Final = 53
#: Servers asked of one name, one after the other, and how long each has (resolv.conf(5): three).
MAX_SERVERS: Final = 3
TIMEOUT_S: Final = 2.0
_RESOLV_CONF: Final = pathlib.Path("/etc/resolv.conf")
_PAYLOAD: Final = 1232
#: Bytes of an answer by TCP: some 200 addresses, and no long chains of compression pointers.
_MAX_ANSWER: Final = 4096
_MAX_ALIASES: Final = 8
_LENGTH: Final = struct.Struct("!H")


class Found(msgspec.Struct, frozen=True):
    """What a server says. addresses: A records at the end of the chain. every: all addresses of the answer, as text.
    ttl: the least of the chain, seconds. Without addresses there are none; exists: not even the name.
    """

    addresses: tuple[str, ...] = ()
    every: tuple[str, ...] = ()
    ttl: int = 0
    exists: bool = True


def servers(configured: Sequence[str] = (), path: pathlib.Path = _RESOLV_CONF) -> tuple[Server, ...]:
    """Whom to ask: what the settings name ("1.2.3.4" or "1.2.3.4:53"), or else the nameservers of resolv.conf(5).

    None where neither names one; unreadable lines are passed over. Raises OSError where the file can't be read.
    """
    if configured:
        pairs = (one.partition(":") for one in configured)
        return tuple((host, int(port or PORT)) for host, _, port in pairs)[:MAX_SERVERS]
    lines = (line.split() for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    named = [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
    found = []
    for name in named:
        with contextlib.suppress(ValueError):
            found.append((str(ipaddress.ip_address(name)), PORT))
    return tuple(found[:MAX_SERVERS])


async def ask(name: str, upstreams: Sequence[Server], timeout: float = TIMEOUT_S) -> Found | None:
    """The first answer of `upstreams` to what addresses `name` has, each given `timeout` seconds; else None.

    A failure that a server reports (SERVFAIL, REFUSED) is no answer.
    """
    try:
        owner = dns.name.from_text(name)
    except dns.exception.DNSException:
        return None
    for server in upstreams:
        query = dns.message.make_query(
            owner, dns.rdatatype.A, use_edns=0, payload=_PAYLOAD, id=secrets.randbelow(1 << 16)
        )
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(timeout):
                response = await _by_udp(query, server)
                if response.flags & dns.flags.TC:
                    response = await _by_tcp(query, server)
            found = _read(owner, response)
            if found is not None:
                return found
    return None


async def _by_udp(query: dns.message.Message, server: Server) -> dns.message.Message:
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as asking:
        asking.connect(server)  # the kernel chooses the port at random, and drops what others send to it
        await loop.sock_sendall(asking, query.to_wire())
        while True:
            response = _parse(query, await loop.sock_recv(asking, _MAX_ANSWER))
            if response is not None:
                return response


async def _by_tcp(query: dns.message.Message, server: Server) -> dns.message.Message:
    """As `_by_udp`. Raises OSError where the answer is none, or longer than is read."""
    reader, writer = await asyncio.open_connection(*server, limit=_MAX_ANSWER)
    try:
        packet = query.to_wire()
        writer.write(_LENGTH.pack(len(packet)) + packet)
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        response = _parse(query, await reader.readexactly(size)) if size <= _MAX_ANSWER else None
        if response is None or response.flags & dns.flags.TC:
            raise OSError(f"{server[0]} sent {size} bytes that are no answer of at most {_MAX_ANSWER}")
        return response
    finally:
        writer.transport.abort()


def _parse(query: dns.message.Message, packet: bytes) -> dns.message.Message | None:
    """The answer to `query`, or None where it is not one."""
    try:
        response = dns.message.from_wire(packet)
    except (dns.exception.DNSException, ValueError):
        return None
    matches = (
        response.id == query.id
        and response.flags & dns.flags.QR
        and response.opcode() == dns.opcode.QUERY
        and len(response.question) == 1
        and response.question[0] == query.question[0]
    )
    return response if matches else None


def _read(owner: dns.name.Name, response: dns.message.Message) -> Found | None:
    if response.rcode() == dns.rcode.NXDOMAIN:
        return Found(exists=False)
    if response.rcode() != dns.rcode.NOERROR:
        return None
    sets = {(one.name, one.rdtype): one for one in response.answer if one.rdclass == dns.rdataclass.IN}
    every = tuple(
        str(record.address)
        for one in sets.values()
        if one.rdtype in (dns.rdatatype.A, dns.rdatatype.AAAA)
        for record in one
    )
    ttls = []
    for _ in range(_MAX_ALIASES):
        alias = sets.get((owner, dns.rdatatype.CNAME))
        if alias is None:
            break
        ttls.append(alias.ttl)
        owner = alias[0].target
    last = sets.get((owner, dns.rdatatype.A))
    if last is None:
        return Found(every=every)
    return Found(tuple(str(record.address) for record in last), every, min([*ttls, last.ttl]))
