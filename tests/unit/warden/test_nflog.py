"""What the kernel tells of refusals carries guests' bytes: any of them are read without harm."""

import asyncio
import random
import socket
import struct

import pytest

from opensafe.warden.network.nflog import Refusal, Refusals, parse


def ip(protocol=6, rest=b"\x01\x02\x20\xfb", words=5, fragment=0, version=4):
    head = struct.pack("!BBHHHBBH", version << 4 | words, 0, 40, 0, fragment, 64, protocol, 0)
    return head + bytes([10, 201, 0, 1]) + bytes([8, 8, 8, 8]) + rest


def told(payload, kind=4 << 8):
    attribute = struct.pack("=HH", 4 + len(payload), 9) + payload + bytes(-len(payload) % 4)
    body = struct.pack("!BBH", 2, 0, 5) + struct.pack("=HHxxxx", 8, 5) + attribute
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def test_a_message_says_why_by_which_interface_it_came_and_what_number_it_has():
    message = told(ip())
    more = struct.pack("=HH4s", 8, 4, b"\0\0\0\7") + struct.pack("=HH4s", 8, 12, b"\0\0\1\0")
    more += struct.pack("=HH8s", 9, 10, b"full\0")
    message = struct.pack("=I", len(message) + len(more)) + message[4:] + more
    assert list(parse(message)) == [Refusal("10.201.0.1", "tcp", "8.8.8.8", 8443, "full", 7, 256)]


async def test_what_was_told_and_never_read_shows_in_the_numbers():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        ours.setblocking(False)
        refusals = Refusals(ours)
        message = told(ip())
        for number in (0, 1, 5):
            more = struct.pack("=HH", 8, 12) + struct.pack("!I", number)
            theirs.send(struct.pack("=I", len(message) + len(more)) + message[4:] + more)
        latest = refusals.latest()
        async with asyncio.timeout(10):
            assert [(await anext(latest)).sequence for _ in range(3)] == [0, 1, 5]
        assert (refusals.take_missed(), refusals.take_missed()) == (3, 0)
        refusals.close()


def test_a_packet_is_read():
    assert list(parse(told(ip()))) == [Refusal("10.201.0.1", "tcp", "8.8.8.8", 8443)]
    assert list(parse(told(ip(17)) * 2)) == [Refusal("10.201.0.1", "udp", "8.8.8.8", 8443)] * 2


@pytest.mark.parametrize(
    ("packet", "protocol"),
    [
        (ip(1), "icmp"),
        (ip(132), "132"),
        (ip(rest=b""), "tcp"),
        (ip(rest=b"\x01\x02\x20"), "tcp"),
        (ip(words=4), "tcp"),
        (ip(words=15), "tcp"),
        (ip(fragment=1), "tcp"),
    ],
)
def test_without_ports_there_is_none(packet, protocol):
    assert list(parse(told(packet))) == [Refusal("10.201.0.1", protocol, "8.8.8.8", 0)]


@pytest.mark.parametrize("data", [b"", b"\0" * 7, told(b""), told(ip()[:19]), told(ip(version=6)), told(ip(), kind=2)])
def test_what_is_no_packet_is_left_out(data):
    assert list(parse(data)) == []


def test_any_bytes_are_read_to_their_end():
    chance = random.Random(6)
    for _ in range(2000):
        data = bytearray(told(ip()))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        assert len(list(parse(bytes(data[: chance.randrange(len(data) + 1)])))) <= 1
