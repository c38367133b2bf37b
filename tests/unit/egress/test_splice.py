"""Listed endpoints in the helper: who is dialled, when, and what ends what is open."""

import asyncio
import contextlib
import socket

import pytest

from opensafe.egress.accounting import Accounting
from opensafe.egress.connections import Connections
from opensafe.egress.endpoints import Endpoints
from opensafe.egress.judge import Question
from opensafe.egress.splice import Splice
from opensafe.errors import LimitExceeded, Unavailable
from opensafe.model.connection import Connection

from .envoy import Policy, call

BANNER = b"220 ready\r\n"
GUEST = "127.0.0.1"
WAIT_S = 20


class Place:
    """A splice between clients and a server that speaks first; `meant` is what the next client connects to."""

    def __init__(self, **options):
        self.policy = Policy("db.test", "other.test")
        self.calls = {GUEST: call()}
        self.reported: list[Connection] = []
        self.cuts = []
        self.accounting = Accounting()
        self.connections = Connections(self.accounting, self._cut, self.reported.append)
        self.endpoints = Endpoints("10.203.0.0/22")
        self.endpoints.lead(["db.test:5432", "other.test:22"])
        self.meant = (self.endpoints.address("db.test"), 5432)
        self.addresses = ["198.51.100.10"]
        self.dialled = []
        self.accepted = 0
        self.served = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.refuses = ()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.splice = Splice(
            self.listener, self.policy, self.connections, self.accounting, lambda address, _: self.calls.get(address),
            self.endpoints, self._resolve, self._dial, meant=lambda _: self.meant, **options,
        )  # fmt: skip

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._task = asyncio.create_task(self.splice.run())
        await asyncio.sleep(0)
        self.at = self.listener.getsockname()
        return self

    async def __aexit__(self, *exc):
        await self.stop()
        self._server.close()
        for writer in self.served:
            writer.transport.abort()

    async def stop(self):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _cut(self, *source):
        self.cuts.append(source)

    async def _resolve(self, name):
        await self.gate.wait()
        return self.addresses

    async def _dial(self, address, port):
        self.dialled.append((address, port))
        if address in self.refuses:
            raise Unavailable("the warden is gone")
        return _Elsewhere(self._server.sockets[0].getsockname())

    async def _serve(self, reader, writer):
        self.accepted += 1
        self.served.add(writer)
        with contextlib.suppress(ConnectionError):
            writer.write(BANNER)
            while data := await reader.read(4096):
                writer.write(data.upper())
            writer.close()

    async def connect(self):
        made = socket.create_connection(self.at)  # at once, or a reset would come while it connects
        return await asyncio.open_connection(sock=made)

    async def open(self):
        reader, writer = await self.connect()
        assert await read(reader, len(BANNER)) == BANNER
        return reader, writer

    async def told(self, number=1):
        """The ends on record, when there are so many."""
        await until(lambda: len(self.reported) >= number)
        return self.reported

    async def refuses_one(self):
        reader, _ = await self.connect()
        with pytest.raises(ConnectionResetError):
            await read(reader)
        return True


class _Elsewhere(socket.socket):
    """Of the gateway's: whatever it is connected to, the server is there."""

    def __init__(self, server):
        super().__init__()
        self.server = server

    def connect(self, _address):
        super().connect(self.server)


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - of tables that tell nobody
            await asyncio.sleep(0.005)


async def read(reader, size=None):
    async with asyncio.timeout(WAIT_S):
        return await (reader.read() if size is None else reader.readexactly(size))


@pytest.fixture
async def place():
    async with Place() as made:
        yield made


async def test_the_server_may_speak_first_and_the_record_has_the_bytes(place):
    reader, writer = await place.open()
    writer.write(b"select")
    assert await read(reader, 6) == b"SELECT"
    (shown,) = place.connections.snapshot()
    assert (shown.layer, shown.name, shown.port, shown.source) == ("tcp", "db.test", 5432, GUEST)
    writer.write_eof()
    assert await read(reader) == b""
    (ended,) = await place.told()
    assert (ended.state, ended.layer, ended.address) == ("ended", "tcp", "198.51.100.10")
    assert (ended.sent, ended.received) == (6, 6 + len(BANNER))
    assert place.policy.asked[0].port == 5432
    assert place.dialled == [("198.51.100.10", 5432)]
    assert len(place.splice) == len(place.connections) == 0
    (host,) = place.accounting.hosts()
    assert (host.allowed, host.sent, host.received) == (1, 6, 6 + len(BANNER))


@pytest.mark.parametrize(
    "denied",
    ["not allowed", "not listed", "another port", "not led here", "a fault", "over budget"],
)
async def test_NW_04_who_is_refused_is_reset_and_nobody_is_resolved_or_dialled(place, denied):
    match denied:
        case "not allowed":
            place.policy.names = {"other.test"}
        case "not listed":
            place.endpoints.lead(["other.test:22"])
        case "another port":
            place.meant = (place.meant[0], 5433)
        case "not led here":
            place.meant = ("127.0.0.1", 5432)
        case "a fault":
            place.policy.broken = True
        case "over budget":
            place.calls[GUEST] = call(usage={"egress_bytes": 0, "requests": 3}, limits={"requests": 3})
    place.gate.clear()  # whoever resolved would wait here
    assert await place.refuses_one()
    assert (place.dialled, place.accepted, place.reported) == ([], 0, [])
    assert len(place.splice) == len(place.connections) == 0


async def test_nothing_is_dialled_before_the_name_has_an_address(place):
    place.gate.clear()
    reader, _ = await place.connect()
    await until(lambda: place.policy.asked)
    assert place.dialled == []
    place.gate.set()
    assert await read(reader, len(BANNER)) == BANNER


@pytest.mark.parametrize("addresses", [[], ["198.51.100.66"]])
async def test_a_name_without_a_way_is_a_reset_and_an_end_on_record(place, addresses):
    place.addresses, place.refuses = addresses, ("198.51.100.66",)
    assert await place.refuses_one()
    (ended,) = await place.told()
    assert (ended.state, ended.address, ended.received) == ("ended", "", 0)


async def test_another_address_is_tried_where_the_first_does_not_answer(place):
    async with Place(connect_s=0.2) as place:
        place.addresses = ["198.51.100.66", "198.51.100.10"]
        place.splice._dial = silent_at("198.51.100.66", place._dial)
        await place.open()
        assert place.dialled == [("198.51.100.10", 5432)]


def silent_at(address, dial):
    async def dialled(one, port):
        if one == address:
            await asyncio.Event().wait()
        return await dial(one, port)

    return dialled


async def test_NW_30_a_tunnel_ends_with_its_call(place):
    reader, _ = await place.open()
    place.calls.clear()
    await place.connections.ended("exec-1")
    with pytest.raises(ConnectionResetError):
        await read(reader)
    (ended,) = await place.told()
    assert (ended.state, ended.received) == ("cut", len(BANNER))
    assert place.cuts == []  # nobody else is needed for it


async def test_a_call_that_ends_while_its_name_is_resolved_dials_nobody(place):
    place.gate.clear()
    reader, _ = await place.connect()
    await until(lambda: len(place.connections))
    await place.connections.ended("exec-1")
    place.gate.set()
    with pytest.raises(ConnectionResetError):
        await read(reader)
    assert (await place.told())[0].state == "cut"
    assert place.dialled == []


async def test_NW_30_a_bundle_that_refuses_the_name_cuts_it_and_one_that_allows_it_does_not(place):
    reader, writer = await place.open()
    await place.connections.recheck(place.policy)
    writer.write(b"on")
    assert await read(reader, 2) == b"ON"
    place.policy.names = set()
    await place.connections.recheck(place.policy)
    with pytest.raises(ConnectionResetError):
        await read(reader)


async def test_NW_30_an_endpoint_that_is_listed_no_more_is_cut_whatever_the_rules_say(place):
    reader, writer = await place.open()
    place.endpoints.lead(["db.test:5432"])
    place.splice.lead()
    writer.write(b"on")
    assert await read(reader, 2) == b"ON"
    place.endpoints.lead(["db.test:5433", "other.test:5432"])
    place.splice.lead()
    with pytest.raises(ConnectionResetError):
        await read(reader)
    assert (await place.told())[0].state == "cut"


async def test_a_budget_holds_while_it_is_open(place):
    reader, writer = await place.open()
    place.calls[GUEST] = call(limits={"egress_bytes": 100})
    place.policy.bytes_ceiling = 100
    writer.write(bytes(101))
    with pytest.raises(ConnectionResetError):
        await read(reader)
    assert (await place.told())[0].state == "cut"


async def test_a_sandbox_that_is_gone_leaves_nothing(place):
    await place.open()
    place.connections.gone("sbx-1")
    assert len(place.splice) == len(place.connections) == len(place.accounting.hosts()) == 0
    assert len(place.reported) == 1


async def test_what_envoy_lost_is_not_the_splices(place):
    reader, writer = await place.open()
    place.connections.lost()
    writer.write(b"on")
    assert await read(reader, 2) == b"ON"
    assert len(place.connections) == 1


async def test_one_port_of_a_guest_is_one_connection(place):
    _, writer = await place.open()
    source = writer.get_extra_info("sockname")
    question = Question(layer="tls", source=GUEST, name="db.test", port=443)
    with pytest.raises(LimitExceeded, match="from this port"):
        place.connections.enter(source, question, place.policy.judge(question), None)
    (shown,) = place.connections.snapshot()
    assert shown.layer == "tcp"


async def test_what_envoy_tells_of_a_port_is_not_about_the_splices_connection_from_it(place):
    """A guest may be refused by Envoy from a port and then use it for the splice: the refusal's end ends nothing."""
    _, writer = await place.open()
    source = writer.get_extra_info("sockname")
    assert place.connections.find(source, 7) is None
    await place.connections.ended("exec-1")
    assert (await place.told())[0].state == "cut"


async def test_RS_16_connections_are_bounded_in_all_and_come_back():
    async with Place(most=2) as place:
        first, _ = [await place.open() for _ in range(2)]
        assert await place.refuses_one()
        first[1].close()
        await place.told()
        await place.open()


async def test_RS_16_new_connections_have_a_rate():
    async with Place(clock=lambda: 0.0) as place:
        place.policy.names = set()
        for _ in range(201):
            assert await place.refuses_one()
        assert len(place.policy.asked) == 200
        assert len(place.policy.refused) == 1, "what nobody was asked about is on record"


async def test_what_is_silent_for_too_long_is_ended():
    async with Place(idle_s=0.01) as place:
        reader, _ = await place.connect()
        with pytest.raises(ConnectionResetError):
            await read(reader)
        assert (await place.told())[0].state == "ended"


async def test_the_end_of_the_splice_is_the_end_of_all(place):
    reader, _ = await place.open()
    place.gate.clear()
    waiting, _ = await place.connect()
    await until(lambda: len(place.connections) == 2)
    await place.stop()
    for one in (reader, waiting):
        with pytest.raises(ConnectionResetError):
            await read(one)
    with pytest.raises(ConnectionRefusedError):
        await place.connect()
    assert len(place.reported) == 2
