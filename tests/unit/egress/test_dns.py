"""The sandboxes' DNS server: what it answers to whom, what it measures, and what hostile packets get."""

import asyncio
import contextlib
import socket
import struct
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opensafe.egress import dns as module
from opensafe.egress import names, wire
from opensafe.egress.judge import Answer
from tests.unit.egress.world import LENGTH, WAIT_S, Client, addresses, bound

ALLOWED = "docs.example.org"


class Judge:
    """Allows one name, compared as the real one does, and remembers its questions."""

    def __init__(self):
        self.questions = []

    def judge(self, question):
        self.questions.append(question)
        allowed = question.name.lower() == ALLOWED
        return Answer(allowed=allowed, name=question.name.lower(), exec_id="", sandbox_id="", why="")


class Bench:
    def __init__(self, **options):
        self.judge = Judge()
        self.now = 0.0
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("0.0.0.0", 0))
        self.port = udp.getsockname()[1]
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        tcp.bind(("0.0.0.0", 0))
        tcp.listen()
        self.tcp_port = tcp.getsockname()[1]
        options.setdefault("idle_s", 3 * WAIT_S)  # what ends earlier was ended by something else
        self.responder = module.Responder(self.judge, udp, tcp, clock=lambda: self.now, **options)
        self.clients = []

    def client(self, server="127.0.0.1", source="127.0.0.1"):
        client = Client((server, self.port), source)
        self.clients.append(client)
        return client

    async def connect(self, server="127.0.0.1", source="127.0.0.1"):
        return await asyncio.open_connection(server, self.tcp_port, local_addr=(source, 0))


@contextlib.asynccontextmanager
async def running(**options):
    bench = Bench(**options)
    task = asyncio.create_task(bench.responder.run())
    try:
        yield bench
    finally:
        for client in bench.clients:
            client.socket.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def bench():
    async with running() as bench:
        yield bench


async def exchange(stream, packet):
    reader, writer = stream
    writer.write(LENGTH.pack(len(packet)) + packet)
    async with asyncio.timeout(WAIT_S):
        (size,) = LENGTH.unpack(await reader.readexactly(2))
        return await reader.readexactly(size)


async def ended(stream):
    async with asyncio.timeout(WAIT_S):
        with contextlib.suppress(ConnectionResetError):
            assert await stream[0].read() == b""
        stream[1].close()


@pytest.mark.parametrize("server", ["127.0.0.1", "127.0.0.5"])
async def test_an_allowed_name_is_where_the_question_arrived(bench, server):
    client = bench.client(server)
    client.send(dns.message.make_query(ALLOWED, "A").to_wire())
    packet, source = await client.receive()
    response = dns.message.from_wire(packet)
    assert (response.rcode(), addresses(response)) == (dns.rcode.NOERROR, [server])
    assert source == (server, bench.port)
    assert 0 < response.answer[0].ttl <= 60


async def test_a_name_of_an_endpoint_is_the_address_that_stands_for_it_where_it_is_allowed():
    listed = {ALLOWED: "10.203.0.7", "denied.example": "10.203.0.8"}
    async with running(synthetic=lambda name: listed.get(name, "")) as bench:
        assert addresses(await bench.client().ask(ALLOWED.upper())) == ["10.203.0.7"]
        denied = await bench.client().ask("denied.example")
        assert (denied.rcode(), denied.answer) == (dns.rcode.NXDOMAIN, [])
        assert (await bench.client().ask(ALLOWED, "AAAA")).answer == []
        listed.clear()
        assert addresses(await bench.client().ask(ALLOWED)) == ["127.0.0.1"]


async def test_each_refused_question_is_told_of_and_no_allowed_one():
    told = []
    async with running(refused=lambda *one: told.append(one)) as bench:
        client = bench.client()
        for name in ("denied.example", ALLOWED, "Denied.example"):
            await client.ask(name, "A")
    assert told == [("", "denied.example")] * 2


async def test_NW05_B24_G16_a_denied_name_does_not_exist_and_nobody_is_asked(bench):
    """The responder has no way to ask: it opens no socket, whatever it is asked for."""
    before = sockets()
    client = bench.client()
    response = await client.ask("payload-of-a-guest.k.example", "A")
    assert response.rcode() == dns.rcode.NXDOMAIN
    assert response.answer == []
    assert response.authority[0].rdtype == dns.rdatatype.SOA
    assert sockets() == before + 1  # the client's own
    assert [(one.layer, one.source, one.name) for one in bench.judge.questions] == [
        ("dns", "127.0.0.1", "payload-of-a-guest.k.example")
    ]
    assert addresses(await client.ask(ALLOWED)) == ["127.0.0.1"]


def sockets():
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(link.readlink()).startswith("socket:")
    return found


@pytest.mark.parametrize("kind", ["AAAA", "HTTPS", "SVCB", "TXT", "MX", "ANY", "NS", "SOA", "TYPE65280"])
async def test_B26_other_types_of_an_allowed_name_have_no_data(bench, kind):
    client = bench.client()
    response = await client.ask(ALLOWED, kind)
    assert (response.rcode(), response.answer) == (dns.rcode.NOERROR, [])
    assert response.authority[0].rdtype == dns.rdatatype.SOA
    assert (await client.ask("denied.example", kind)).rcode() == dns.rcode.NXDOMAIN


async def test_B33_case_does_not_matter_and_is_kept(bench):
    response = await bench.client().ask("dOcS.EXAMPLE.oRg")
    assert addresses(response) == ["127.0.0.1"]
    assert str(response.question[0].name) == str(response.answer[0].name) == "dOcS.EXAMPLE.oRg."


@pytest.mark.parametrize("labels", [(b"docs.example", b"org"), (b"docs", b"example\0", b"org"), (b"d\xc3\xb6cs",), ()])
async def test_B32_labels_that_are_no_host_names_do_not_read_as_one(bench, labels):
    client = bench.client()
    client.send(dns.message.make_query(dns.name.Name([*labels, b""]), "A").to_wire())
    packet, _ = await client.receive()
    assert dns.message.from_wire(packet).rcode() == dns.rcode.NXDOMAIN
    assert bench.judge.questions[0].name != ALLOWED
    assert addresses(await client.ask(ALLOWED)) == ["127.0.0.1"]


@pytest.mark.parametrize("literal", ["10.9.9.9", "2130706433", "0x7f.1"])
async def test_NW09_an_address_is_no_name_even_where_it_is_granted(bench, literal, monkeypatch):
    monkeypatch.setattr(bench.judge, "judge", lambda question: Answer(
        allowed=True, name=question.name, exec_id="", sandbox_id="", why=""
    ))  # fmt: skip
    client = bench.client()
    assert (await client.ask(literal)).rcode() == dns.rcode.NXDOMAIN
    assert (await client.ask("any.example")).rcode() == dns.rcode.NOERROR


async def test_edns_is_answered_and_its_future_is_not(bench):
    client = bench.client()
    plain = await client.ask(ALLOWED, use_edns=False)
    assert plain.edns == -1
    options = [dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"12345678")]
    response = await client.ask(ALLOWED, use_edns=0, payload=4096, options=options)
    assert (response.edns, response.options, addresses(response)) == (0, (), ["127.0.0.1"])
    response = await client.ask(ALLOWED, use_edns=1)
    assert (response.rcode(), response.answer) == (dns.rcode.BADVERS, [])


def header(number=7, flags=0x0100, counts=(1, 0, 0, 0)):
    return struct.pack("!6H", number, flags, *counts)


QUESTION = b"\x04docs\x07example\x03org\x00\x00\x01\x00\x01"


@pytest.mark.parametrize(
    ("packet", "rcode"),
    [
        (header(flags=0x2800) + QUESTION, dns.rcode.NOTIMP),
        (header(flags=0x1000) + QUESTION, dns.rcode.NOTIMP),
        (header() + QUESTION[:-2] + b"\x00\x03", dns.rcode.NOTIMP),
        (header() + QUESTION[:-2] + b"\x00\xff", dns.rcode.NOTIMP),
        (header(counts=(2, 0, 0, 0)) + QUESTION * 2, dns.rcode.FORMERR),
        (header(counts=(0, 0, 0, 0)), dns.rcode.FORMERR),
        (header(counts=(1, 1, 0, 0)) + QUESTION, dns.rcode.FORMERR),
        (header() + QUESTION + b"junk", dns.rcode.FORMERR),
        (header() + QUESTION[:9], dns.rcode.FORMERR),
        (header() + b"\xc0\x0c\x00\x01\x00\x01", dns.rcode.FORMERR),
        (header() + b"\x01a\xc0\x0c\x00\x01\x00\x01", dns.rcode.FORMERR),
        (header() + QUESTION + bytes(512), dns.rcode.FORMERR),
    ],
    ids=[
        "update", "status", "chaos", "any class", "two questions", "none", "an answer inside", "trailing bytes",
        "cut short", "a pointer to itself", "a loop of pointers", "too long",
    ],
)  # fmt: skip
async def test_what_is_not_one_question_is_not_judged(bench, packet, rcode):
    client = bench.client()
    client.send(packet)
    response, _ = await client.receive()
    assert dns.message.from_wire(response).rcode() == rcode
    assert response[:2] == packet[:2]
    assert bench.judge.questions == []
    assert addresses(await client.ask(ALLOWED)) == ["127.0.0.1"]


@pytest.mark.parametrize("packet", [b"", b"\0" * 11, header(flags=0x8180) + QUESTION])
async def test_answers_and_fragments_are_met_with_silence(bench, packet):
    client = bench.client()
    client.send(packet)
    assert addresses(await client.ask(ALLOWED)) == ["127.0.0.1"]  # the first that comes back


@settings(max_examples=400, deadline=None)
@given(
    packet=st.one_of(
        st.binary(max_size=600),
        st.builds(
            lambda flags, counts, tail: header(0x4242, flags, counts) + tail,
            st.sampled_from([0, 0x100, 0x8100, 0x2800, 0x7FFF]),
            st.tuples(*[st.integers(0, 3)] * 4),
            st.one_of(st.binary(max_size=80), st.binary(max_size=80).map(lambda more: QUESTION + more)),
        ),
        st.lists(st.binary(min_size=1, max_size=63), max_size=8).map(
            lambda labels: header() + b"".join(bytes([len(one)]) + one for one in labels) + b"\x00\x00\x01\x00\x01"
        ),
    )
)
def test_no_packet_raises_or_gets_much_or_another_id(packet):
    udp, tcp = bound(socket.SOCK_DGRAM), bound(socket.SOCK_STREAM)
    with udp, tcp:
        response = module.Responder(Judge(), udp, tcp)._respond(packet, "127.0.0.1", "192.0.2.1")
    if len(packet) < 12 or packet[2] & 0x80:
        assert response is None
        return
    assert response is not None
    assert 12 <= len(response) <= min(512, len(packet) + 80)
    assert response[:2] == packet[:2]
    assert response[2] & 0x80
    dns.message.from_wire(response)


def test_the_longest_answer_fits_into_a_datagram_of_old():
    name = dns.name.Name([b"a" * 63] * 3 + [b"a" * 61, b""])
    query = wire.read(dns.message.make_query(name, "A", use_edns=0).to_wire())
    most = [f"192.0.2.{last}" for last in range(200)]
    response = wire.answer(query.message, dns.rcode.NOERROR, most, ttl=5)
    assert len(response) <= 512
    assert len(addresses(dns.message.from_wire(response))) == wire.MAX_ADDRESSES
    assert len(wire.answer(query.message, dns.rcode.NXDOMAIN)) <= 512


async def test_G16_what_a_name_can_carry_is_measured(bench):
    client = bench.client()
    await client.ask("www.Example.org")
    payload = "abcdefghijklmnopqrstuvwxyz234567abcdefgh"
    await client.ask(f"{payload}.x.example.org")
    await client.ask("WWW.example.org")
    await client.ask("www.example.com")
    assert [one.label for one in bench.judge.questions] == [
        {"longest": 7, "length": 15, "entropy": 2522, "names": 1},
        {"longest": 40, "length": 54, "entropy": 4922, "names": 2},
        {"longest": 7, "length": 15, "entropy": 2522, "names": 2},
        {"longest": 7, "length": 15, "entropy": 2522, "names": 1},
    ]


async def test_G16_names_are_counted_by_session_and_not_by_address():
    sessions = {"127.0.0.1": "a", "127.0.0.2": "a", "127.0.0.3": "b"}
    async with running(session=sessions.__getitem__) as bench:
        for last, name in enumerate(("one", "two", "three"), 1):
            await bench.client(source=f"127.0.0.{last}").ask(f"{name}.example.org")
        assert [one.label["names"] for one in bench.judge.questions] == [1, 2, 1]


def test_G16_a_full_count_stays_full_and_memory_is_bounded():
    asked = names.Asked(most=20, most_of_one=10)
    assert [asked.count("s", f"n{number}.example.org") for number in range(12)][-3:] == [10, names.MANY, names.MANY]
    assert asked.count("s", "n3.example.org") == 10
    for session in range(50):
        asked.count(f"t{session}", "www.example.org")
    assert len(asked) <= 20


async def test_RS16_a_source_that_asks_too_fast_gets_silence_and_others_do_not(bench):
    client, other = bench.client(), bench.client(source="127.0.0.9")
    for _ in range(module._BURST):
        await client.ask(ALLOWED)
    client.send(dns.message.make_query(ALLOWED, "A").to_wire())
    assert addresses(await other.ask(ALLOWED)) == ["127.0.0.1"]
    assert bench.responder.dropped == 1
    bench.now += 1
    assert addresses(await client.ask(ALLOWED)) == ["127.0.0.1"]


async def test_tcp_answers_in_turn(bench):
    stream = await bench.connect("127.0.0.7")
    for name, rcode in ((ALLOWED, dns.rcode.NOERROR), ("denied.example", dns.rcode.NXDOMAIN)):
        query = dns.message.make_query(name, "A")
        response = dns.message.from_wire(await exchange(stream, query.to_wire()))
        assert (response.id, response.rcode()) == (query.id, rcode)
        assert addresses(response) == (["127.0.0.7"] if name == ALLOWED else [])
    assert bench.judge.questions[0].source == "127.0.0.1"
    stream[1].close()


async def test_tcp_what_was_asked_before_the_end_is_answered(bench):
    reader, writer = await bench.connect()
    packet = dns.message.make_query(ALLOWED, "A").to_wire()
    writer.write((LENGTH.pack(len(packet)) + packet) * 3)
    writer.write_eof()
    async with asyncio.timeout(WAIT_S):
        assert (await reader.read()).count(socket.inet_aton("127.0.0.1")) == 3
    writer.close()


@pytest.mark.parametrize("sent", [LENGTH.pack(513), LENGTH.pack(4) + b"abcd", LENGTH.pack(0)])
async def test_tcp_nonsense_ends_the_connection(bench, sent):
    stream = await bench.connect()
    stream[1].write(sent)
    await ended(stream)
    assert bench.judge.questions == []


async def test_RS16_tcp_connections_of_one_source_are_capped_and_others_still_connect(bench):
    packet = dns.message.make_query(ALLOWED, "A").to_wire()
    streams = [await bench.connect() for _ in range(module._CONNECTIONS_A_SOURCE)]
    for stream in streams:
        await exchange(stream, packet)
    await ended(await bench.connect())
    other = await bench.connect(source="127.0.0.9")
    assert await exchange(other, packet)
    for stream in [*streams, other]:
        stream[1].close()


async def test_RS16_tcp_connections_of_all_are_capped(bench, monkeypatch):
    monkeypatch.setattr(module, "_CONNECTIONS", 1)
    stream = await bench.connect()
    await exchange(stream, dns.message.make_query(ALLOWED, "A").to_wire())
    await ended(await bench.connect(source="127.0.0.9"))
    stream[1].close()


async def test_RS16_a_silent_tcp_connection_is_ended():
    async with running(idle_s=0.05) as bench:
        await ended(await bench.connect())


async def test_the_end_closes_all_that_is_open():
    async with running() as bench:
        stream = await bench.connect()
        await exchange(stream, dns.message.make_query(ALLOWED, "A").to_wire())
    await ended(stream)
    assert bench.responder._udp.fileno() == -1
    assert bench.responder._open.total() == 0
