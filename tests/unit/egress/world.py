"""A DNS server of the world, on loopback, that logs what it is asked; and a client."""

import asyncio
import socket
import struct

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

LENGTH = struct.Struct("!H")
WAIT_S = 20


class World:
    """zone: name -> (rcode, records as text), or a function that makes packets of a query.

    over_tcp: names whose answer by UDP is truncated. asked: (transport, name) of every question that arrived;
    heard: there was one; gate: answers wait until it is set.
    """

    def __init__(self, zone=None):
        self.zone = zone or {}
        self.over_tcp = set()
        self.asked = []
        self.heard = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self._open = set()

    async def __aenter__(self):
        world = self

        class Datagrams(asyncio.DatagramProtocol):
            def connection_made(self, transport):
                self.transport = transport

            def datagram_received(self, data, peer):
                world._spawn(self.answer(data, peer))

            async def answer(self, data, peer):
                for packet in await world.packets(data, "udp"):
                    self.transport.sendto(packet, peer)

        loop = asyncio.get_running_loop()
        self._tcp = await asyncio.start_server(self._converse, "127.0.0.1", 0)
        self.address = self._tcp.sockets[0].getsockname()
        self._udp, _ = await loop.create_datagram_endpoint(Datagrams, local_addr=self.address)
        return self

    async def __aexit__(self, *exc):
        self._udp.close()
        self._tcp.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _spawn(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _converse(self, reader, writer):
        (size,) = LENGTH.unpack(await reader.readexactly(2))
        for packet in await self.packets(await reader.readexactly(size), "tcp"):
            writer.write(LENGTH.pack(len(packet)) + packet)
        await writer.drain()
        writer.close()

    async def packets(self, data, transport):
        query = dns.message.from_wire(data)
        name = query.question[0].name.to_text(omit_final_dot=True)
        self.asked.append((transport, name))
        self.heard.set()
        await self.gate.wait()
        found = self.zone.get(name, (dns.rcode.NXDOMAIN, []))
        if callable(found):
            return found(query)
        response = reply(query, *found)
        if transport == "udp" and name in self.over_tcp:
            response = reply(query, dns.rcode.NOERROR, [])
            response.flags |= dns.flags.TC
        return [response.to_wire(max_size=65535)]


def reply(query, rcode, records):
    response = dns.message.make_response(query)
    response.set_rcode(rcode)
    for text in records:
        name, ttl, kind, value = text.split(maxsplit=3)
        response.answer.append(dns.rrset.from_text(name, int(ttl), "IN", kind, value))
    return response


def a(name, *addresses, ttl=20):
    return (dns.rcode.NOERROR, [f"{name}. {ttl} A {address}" for address in addresses])


def bound(kind, host="127.0.0.1"):
    one = socket.socket(socket.AF_INET, kind)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((host, 0))
    if kind == socket.SOCK_STREAM:
        one.listen()
    return one


class Client:
    """Asks one server by UDP, from one source address."""

    def __init__(self, server, source="127.0.0.1"):
        self.socket = bound(socket.SOCK_DGRAM, source)
        self.socket.setblocking(False)
        self.server = server

    def send(self, packet):
        self.socket.sendto(packet, self.server)

    async def receive(self):
        """(packet, address it came from)."""
        async with asyncio.timeout(WAIT_S):
            return await asyncio.get_running_loop().sock_recvfrom(self.socket, 65535)

    async def ask(self, name, kind="A", **options):
        query = dns.message.make_query(name, kind, **options)
        self.send(query.to_wire())
        packet, _ = await self.receive()
        response = dns.message.from_wire(packet)
        assert response.id == query.id
        return response


def addresses(response):
    return [record.address for one in response.answer for record in one]
