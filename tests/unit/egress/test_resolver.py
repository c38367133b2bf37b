"""Envoy's resolver: what it asks the world, what it lets through, and in which order."""

import asyncio
import contextlib
import socket

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opensafe.egress import resolver as module
from opensafe.egress import upstream
from opensafe.errors import OpenSafeError
from tests.unit.egress.world import Client, World, a, addresses, bound, reply

GOOD = "93.184.215.14"
OTHER = "151.101.0.223"


class Bench:
    def __init__(self, upstreams, **options):
        self.known = {"good.test", "www.good.test", "bad.test", "moving.test"}
        self.vetted = []
        self.refused: list[tuple[str, str]] = []
        self.now = 1000.0
        self.fails = None
        udp = bound(socket.SOCK_DGRAM)
        options.setdefault("refused", lambda name, why: self.refused.append((name, why)))
        self.client = Client(udp.getsockname())
        self.resolver = module.Resolver(
            udp, self.vet, upstreams, self.known.__contains__, clock=lambda: self.now, **options
        )

    async def vet(self, addresses, seconds):
        if self.fails is not None:
            raise self.fails
        self.vetted.append((tuple(addresses), seconds))


@contextlib.asynccontextmanager
async def running(*upstreams, **options):
    bench = Bench(upstreams, **options)
    task = asyncio.create_task(bench.resolver.run())
    try:
        yield bench
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        bench.client.socket.close()


@contextlib.asynccontextmanager
async def setting(zone):
    async with World(zone) as world, running(world.address) as bench:
        yield world, bench


async def test_an_address_is_let_through_before_it_is_told():
    async with setting({"good.test": a("good.test", GOOD)}) as (world, bench):
        response = await bench.client.ask("good.test")
        assert (response.rcode(), addresses(response), response.answer[0].ttl) == (dns.rcode.NOERROR, [GOOD], 20)
        assert bench.vetted == [((GOOD,), 90)]
        assert world.asked == [("udp", "good.test")]


async def test_the_splice_is_told_what_envoy_is_told_and_no_more():
    zone = {"good.test": a("good.test", GOOD), "bad.test": a("bad.test", GOOD, "10.9.9.9")}
    async with setting(zone | {"secret.test": a("secret.test", GOOD)}) as (world, bench):
        assert await bench.resolver.addresses("good.test") == (GOOD,)
        assert addresses(await bench.client.ask("good.test")) == [GOOD]
        assert await bench.resolver.addresses("good.test") == (GOOD,)
        assert await bench.resolver.addresses("secret.test") == ()
        assert world.asked == [("udp", "good.test")]
        assert await bench.resolver.addresses("bad.test") == ()
        assert [name for name, _ in bench.refused] == ["bad.test"]
        bench.known.clear()
        assert await bench.resolver.addresses("good.test") == ()


async def test_no_answer_before_the_filter_knows():
    async with setting({"good.test": a("good.test", GOOD)}) as (_, bench):
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def vet(addresses, seconds):
            asked.set()
            await go_on.wait()

        bench.resolver._vet = vet
        bench.client.send(dns.message.make_query("good.test", "A").to_wire())
        await asked.wait()
        await bench.client.ask("unknown.test")  # the first that comes back
        go_on.set()
        packet, _ = await bench.client.receive()
        assert addresses(dns.message.from_wire(packet)) == [GOOD]


async def test_NW05_B24_a_name_that_nobody_is_allowed_is_not_asked_of_the_world():
    async with setting({"good.test": a("good.test", GOOD), "secret.test": a("secret.test", GOOD)}) as (world, bench):
        response = await bench.client.ask("secret.test")
        assert (response.rcode(), world.asked, bench.vetted) == (dns.rcode.NXDOMAIN, [], [])
        assert addresses(await bench.client.ask("GOOD.test")) == [GOOD]


async def test_a_grant_that_ends_while_the_world_is_asked_ends_the_answer():
    async with setting({"good.test": a("good.test", GOOD)}) as (world, bench):
        world.gate.clear()
        bench.client.send(dns.message.make_query("good.test", "A").to_wire())
        await world.heard.wait()
        bench.known.clear()
        world.gate.set()
        packet, _ = await bench.client.receive()
        assert dns.message.from_wire(packet).rcode() == dns.rcode.NXDOMAIN
        assert bench.vetted == []


@pytest.mark.parametrize("kind", ["AAAA", "HTTPS", "TXT", "ANY"])
async def test_B26_other_types_have_no_data_and_are_not_asked(kind):
    async with setting({"good.test": a("good.test", GOOD)}) as (world, bench):
        response = await bench.client.ask("good.test", kind)
        assert (response.rcode(), response.answer, world.asked) == (dns.rcode.NOERROR, [], [])
        assert (await bench.client.ask("other.test", kind)).rcode() == dns.rcode.NXDOMAIN


UNFIT = [
    "10.9.9.9", "127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.1.1", "172.16.0.1",
    "172.31.9.9", "192.168.1.1", "100.64.0.1", "100.100.100.200", "168.63.129.16", "224.0.0.251", "239.1.1.1",
    "240.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.0.0.192",
]  # fmt: skip


@pytest.mark.parametrize("address", UNFIT)
async def test_NW12_B28_an_answer_with_one_unfit_address_is_refused_whole(address):
    zone = {
        "bad.test": a("bad.test", GOOD, address),
        "good.test": a("good.test", GOOD, OTHER),
        "www.good.test": a("www.good.test", address),
    }
    async with setting(zone) as (_, bench):
        for name in ("bad.test", "www.good.test"):
            response = await bench.client.ask(name)
            assert (response.rcode(), response.answer, bench.vetted) == (dns.rcode.SERVFAIL, [], [])
        assert [name for name, why in bench.refused if address in why] == ["bad.test", "www.good.test"]
        assert sorted(addresses(await bench.client.ask("good.test"))) == sorted([GOOD, OTHER])


@pytest.mark.parametrize(
    "record",
    [
        "bad.test. 20 AAAA ::ffff:10.0.0.1",
        "bad.test. 20 AAAA ::ffff:169.254.169.254",
        "bad.test. 20 AAAA 64:ff9b::a00:1",
        "bad.test. 20 AAAA ::127.0.0.1",
        "bad.test. 20 AAAA ::1",
        "bad.test. 20 AAAA fe80::1",
        "bad.test. 20 AAAA fd00:ec2::254",
        "elsewhere.test. 20 A 10.0.0.1",
    ],
)
async def test_NW12_B32_what_stands_beside_the_chain_counts_too(record):
    rcode, records = a("bad.test", GOOD)
    async with setting({"bad.test": (rcode, [*records, record])}) as (world, bench):
        assert (await bench.client.ask("bad.test")).rcode() == dns.rcode.SERVFAIL
        assert bench.vetted == []
        world.zone["good.test"] = (rcode, ["good.test. 20 A " + GOOD, "good.test. 20 AAAA 2606:2800:21f:cb07::1"])
        assert addresses(await bench.client.ask("good.test")) == [GOOD]


async def test_NW12_B28_a_name_that_moves_to_a_private_address_is_looked_at_again():
    async with setting({"moving.test": a("moving.test", GOOD, ttl=0)}) as (world, bench):
        assert addresses(await bench.client.ask("moving.test")) == [GOOD]
        world.zone["moving.test"] = a("moving.test", "10.9.9.9", ttl=0)
        assert addresses(await bench.client.ask("moving.test")) == [GOOD]  # what was vetted, while it is fresh
        bench.now += 6
        assert (await bench.client.ask("moving.test")).rcode() == dns.rcode.SERVFAIL
        assert bench.vetted == [((GOOD,), 90)]


async def test_what_is_fit_is_the_owners_to_say():
    async with World({"good.test": a("good.test", "198.51.100.10")}) as world:
        async with running(world.address, fit="198.51.100.10".__eq__) as bench:
            assert addresses(await bench.client.ask("good.test")) == ["198.51.100.10"]
        async with running(world.address, fit=lambda address: False) as bench:
            assert (await bench.client.ask("good.test")).rcode() == dns.rcode.SERVFAIL


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("no"), OpenSafeError("closed"), TimeoutError()])
async def test_an_address_that_the_filter_does_not_take_is_not_told(error):
    async with setting({"good.test": a("good.test", GOOD)}) as (_, bench):
        bench.fails = error
        assert (await bench.client.ask("good.test")).rcode() == dns.rcode.SERVFAIL
        bench.fails = None
        assert addresses(await bench.client.ask("good.test")) == [GOOD]


@pytest.mark.parametrize(("ttl", "told"), [(0, 5), (1, 5), (30, 30), (86400, 60)])
async def test_ttl_is_kept_within_bounds_and_below_that_of_the_filter(ttl, told):
    async with setting({"good.test": a("good.test", GOOD, ttl=ttl)}) as (_, bench):
        assert (await bench.client.ask("good.test")).answer[0].ttl == told
        assert bench.vetted == [((GOOD,), 90)]


async def test_a_short_answer_does_not_cut_short_what_another_name_was_promised():
    zone = {"good.test": a("good.test", GOOD, ttl=60), "www.good.test": a("www.good.test", GOOD, ttl=0)}
    async with setting(zone) as (_, bench):
        told = (await bench.client.ask("good.test")).answer[0].ttl
        await bench.client.ask("www.good.test")
        assert min(seconds for _, seconds in bench.vetted) >= told


async def test_the_cache_lasts_as_long_as_the_answer():
    async with setting({"good.test": a("good.test", GOOD, ttl=40)}) as (world, bench):
        await bench.client.ask("good.test")
        bench.now += 30
        assert (await bench.client.ask("good.test")).answer[0].ttl == 10
        assert len(world.asked) == 1
        bench.now += 10
        assert (await bench.client.ask("good.test")).answer[0].ttl == 40
        assert len(world.asked) == 2


async def test_the_cache_does_not_outlive_the_grant():
    async with setting({"good.test": a("good.test", GOOD)}) as (_, bench):
        await bench.client.ask("good.test")
        bench.known.clear()
        assert (await bench.client.ask("good.test")).rcode() == dns.rcode.NXDOMAIN


async def test_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_CACHED", 1)
    async with setting({"good.test": a("good.test", GOOD), "moving.test": a("moving.test", OTHER)}) as (_, bench):
        await bench.client.ask("good.test")
        await bench.client.ask("moving.test")
        assert list(bench.resolver._cache) == ["moving.test"]


async def test_equal_questions_share_one_and_each_has_its_answer():
    async with setting({"good.test": a("good.test", GOOD)}) as (world, bench):
        world.gate.clear()
        for number in range(5):
            bench.client.send(dns.message.make_query("Good.test", "A", id=number).to_wire())
        await bench.client.ask("unknown.test")  # all were heard
        world.gate.set()
        answered = [dns.message.from_wire((await bench.client.receive())[0]) for _ in range(5)]
        assert sorted(one.id for one in answered) == [0, 1, 2, 3, 4]
        assert {str(one.question[0].name) for one in answered} == {"Good.test."}
        assert world.asked == [("udp", "good.test")]


async def test_RS16_questions_under_way_are_capped(monkeypatch):
    monkeypatch.setattr(module, "_UNDER_WAY", 1)
    async with setting({"good.test": a("good.test", GOOD), "moving.test": a("moving.test", OTHER)}) as (world, bench):
        world.gate.clear()
        bench.client.send(dns.message.make_query("good.test", "A").to_wire())
        assert (await bench.client.ask("moving.test")).rcode() == dns.rcode.SERVFAIL
        world.gate.set()
        await bench.client.receive()
        assert addresses(await bench.client.ask("moving.test")) == [OTHER]


async def test_aliases_are_followed_within_the_answer():
    records = ["good.test. 30 CNAME cdn.test.", "cdn.test. 9 CNAME edge.test.", f"edge.test. 60 A {GOOD}"]
    async with setting({"good.test": (dns.rcode.NOERROR, records)}) as (world, bench):
        response = await bench.client.ask("good.test")
        assert [(str(one.name), one.ttl) for one in response.answer] == [("good.test.", 9)]
        assert addresses(response) == [GOOD]
        assert len(world.asked) == 1


@pytest.mark.parametrize(
    "records",
    [
        ["good.test. 30 CNAME cdn.test."],
        ["good.test. 30 CNAME cdn.test.", "cdn.test. 30 CNAME good.test."],
        [f"elsewhere.test. 30 A {GOOD}"],
        [
            "good.test. 30 CNAME n0.test.",
            *(f"n{number}.test. 30 CNAME n{number + 1}.test." for number in range(9)),
            f"n9.test. 30 A {GOOD}",
        ],
    ],
    ids=["to nowhere", "in a circle", "of another", "too long"],
)
async def test_chains_that_end_nowhere_have_no_data(records):
    async with setting({"good.test": (dns.rcode.NOERROR, records)}) as (_, bench):
        response = await bench.client.ask("good.test")
        assert (response.rcode(), response.answer, bench.vetted) == (dns.rcode.NOERROR, [], [])


async def test_what_does_not_exist_is_not_asked_again_at_once():
    async with setting({}) as (world, bench):
        for _ in range(3):
            assert (await bench.client.ask("good.test")).rcode() == dns.rcode.NXDOMAIN
        assert len(world.asked) == 1


@pytest.mark.parametrize("rcode", [dns.rcode.SERVFAIL, dns.rcode.REFUSED, dns.rcode.NOTIMP])
async def test_a_server_that_fails_is_followed_by_the_next(rcode):
    async with World({"good.test": (rcode, [])}) as first, World({"good.test": a("good.test", GOOD)}) as second:
        async with running(first.address, second.address) as bench:
            assert addresses(await bench.client.ask("good.test")) == [GOOD]
        async with running(first.address) as bench:
            assert (await bench.client.ask("good.test")).rcode() == dns.rcode.SERVFAIL


async def test_a_server_that_is_silent_or_gone_is_followed_by_the_next():
    gone = bound(socket.SOCK_DGRAM)
    nobody = gone.getsockname()
    gone.close()
    async with (
        World({"good.test": lambda query: []}) as silent,
        World({"good.test": a("good.test", GOOD)}) as last,
        running(nobody, silent.address, last.address, timeout=2) as bench,
    ):
        assert addresses(await bench.client.ask("good.test")) == [GOOD]


async def test_a_truncated_answer_is_asked_for_by_tcp():
    many = [f"93.184.{third}.1" for third in range(120)]
    async with setting({"good.test": a("good.test", *many)}) as (world, bench):
        world.over_tcp = {"good.test"}
        response = await bench.client.ask("good.test")
        assert world.asked == [("udp", "good.test"), ("tcp", "good.test")]
        assert len(addresses(response)) == 8
        assert set(bench.vetted[0][0]) == set(addresses(response)) <= set(many)


async def test_NW12_an_unfit_address_far_down_a_long_answer_is_seen():
    many = [f"93.184.{third}.1" for third in range(120)]
    async with setting({"bad.test": a("bad.test", *many, "10.9.9.9")}) as (world, bench):
        world.over_tcp = {"bad.test"}
        assert (await bench.client.ask("bad.test")).rcode() == dns.rcode.SERVFAIL
        assert bench.vetted == []


def _forged(query, change):
    forged = reply(query, *a("good.test", "93.184.215.66"))
    change(forged)
    return [forged.to_wire(), reply(query, *a("good.test", GOOD)).to_wire()]


@pytest.mark.parametrize(
    "change",
    [
        lambda forged: setattr(forged, "id", forged.id ^ 1),
        lambda forged: setattr(forged, "question", dns.message.make_query("other.test", "A").question),
        lambda forged: setattr(forged, "question", dns.message.make_query("good.test", "AAAA").question),
        lambda forged: setattr(forged, "question", []),
        lambda forged: setattr(forged, "flags", forged.flags & ~dns.flags.QR),
        lambda forged: forged.set_opcode(4),
    ],
    ids=["id", "name", "type", "no question", "no answer", "opcode"],
)
async def test_B28_an_answer_to_another_question_is_not_believed(change):
    async with setting({"good.test": lambda query: _forged(query, change)}) as (_, bench):
        assert addresses(await bench.client.ask("good.test")) == [GOOD]


async def test_ids_and_ports_are_not_used_again():
    ids = set()

    def note(query):
        ids.add(query.id)
        return [reply(query, *a("good.test", GOOD)).to_wire()]

    async with World({"good.test": note}) as world:
        for _ in range(16):
            assert (await upstream.ask("good.test", [world.address])).addresses == (GOOD,)
    assert len(ids) > 8


@settings(max_examples=300, deadline=None)
@given(
    tail=st.one_of(
        st.binary(max_size=400), st.binary(max_size=60).map(lambda more: b"\xc0\x0c\x00\x01\x00\x01" + more)
    ),
    counts=st.tuples(*[st.integers(0, 3)] * 3),
    flags=st.integers(0, 0xFFFF),
)
def test_no_answer_of_a_server_raises(tail, counts, flags):
    query = dns.message.make_query("good.test", "A", use_edns=False, id=7)
    packet = query.to_wire()
    packet = packet[:2] + flags.to_bytes(2, "big") + packet[4:6] + b"".join(one.to_bytes(2, "big") for one in counts)
    response = upstream._parse(query, packet + query.to_wire()[12:] + tail)
    if response is not None:
        upstream._read(query.question[0].name, response)


@pytest.mark.parametrize("packet", [b"", b"\0" * 12, b"\0\7\x81\0" + b"\xff" * 40, b"\0" * 600])
async def test_hostile_questions_do_not_stop_it(packet):
    async with setting({"good.test": a("good.test", GOOD)}) as (_, bench):
        bench.client.send(packet)
        query = dns.message.make_query("good.test", "A", id=4711)
        bench.client.send(query.to_wire())
        while True:
            answered, _ = await bench.client.receive()
            if answered[:2] == (4711).to_bytes(2, "big"):
                break
        assert addresses(dns.message.from_wire(answered)) == [GOOD]


@pytest.mark.parametrize("name", ["10.0.0.1", "0x7f.1", "good.test\\.", "*.test"])
async def test_NW09_B33_what_is_no_host_name_is_not_asked(name):
    async with setting({}) as (world, bench):
        bench.resolver._knows = lambda name: True
        assert (await bench.client.ask(name)).rcode() == dns.rcode.NXDOMAIN
        assert world.asked == []


async def test_the_end_leaves_nothing_under_way():
    async with World({"good.test": a("good.test", GOOD)}) as world:
        world.gate.clear()
        async with running(world.address) as bench:
            bench.client.send(dns.message.make_query("good.test", "A").to_wire())
            await bench.client.ask("unknown.test")
        assert bench.resolver._waiting == {}
        assert bench.resolver._udp.fileno() == -1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nameserver 10.0.0.2\n", (("10.0.0.2", 53),)),
        ("# nameserver 9.9.9.9\n;x\nsearch a b\nnameserver\t127.0.0.53 # here\n", (("127.0.0.53", 53),)),
        ("nameserver fd00::1\nnameserver x\nnameserver\nnameserver 10.0.0.2", (("fd00::1", 53), ("10.0.0.2", 53))),
        ("".join(f"nameserver 10.0.0.{last}\n" for last in range(9)), tuple((f"10.0.0.{n}", 53) for n in range(3))),
        ("\xff options", ()),
    ],
)  # fmt: skip
def test_servers_are_those_of_the_host(tmp_path, text, found):
    path = tmp_path / "resolv.conf"
    path.write_bytes(text.encode("latin-1"))
    assert upstream.servers(path=path) == found


def test_servers_are_those_of_the_settings(tmp_path):
    assert upstream.servers(("10.0.0.2", "10.0.0.3:5300"), tmp_path / "none") == (("10.0.0.2", 53), ("10.0.0.3", 5300))
    with pytest.raises(OSError, match="none"):
        upstream.servers((), tmp_path / "none")
