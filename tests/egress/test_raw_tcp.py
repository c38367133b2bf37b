"""Endpoints on other ports: a guest speaks to those that are listed, and nobody hears of it who is not."""

import asyncio
import contextlib
import json

import pytest
import pytest_asyncio

from opensafe.client import Stdout
from opensafe.egress.endpoints import Endpoints
from opensafe.errors import OpenSafeError
from opensafe.model.outcome import OutcomeKind
from opensafe.policy.manifest import CONFIG
from opensafe.proof.signed import SignedBundles
from opensafe.proof.world import plan, postgres
from opensafe.proof.world.events import Kind
from opensafe.proof.world.world import World
from tests.harness.daemon import running, signal_process
from tests.harness.policy import site_bundle
from tests.harness.way_out import Place

pytestmark = pytest.mark.asyncio(loop_scope="module")

UPLINK = "10.203.236.0/30"
#: On the allow list of hosts, each at an address of its own.
DATABASE = "ip-198-51-100-30.db.test"
QUIET = "ip-198-51-100-40.db.test"
PRIVATE = "ip-10-9-9-9.db.test"
NAMES = ["allowed.test", DATABASE, QUIET, PRIVATE]
BANNER = f"198.51.100.30:{plan.BANNER}"
LISTED = [f"{DATABASE}:{plan.POSTGRES}", f"{DATABASE}:{plan.BANNER}", f"{QUIET}:{plan.BANNER}"]

#: Says what becomes of a connection: what the server says first, or how it ends.
DIAL = """
import socket, sys
name, port = sys.argv[1], int(sys.argv[2])
try:
    peer = socket.create_connection((name, port), timeout=10)
    print(peer.recv(64).decode().strip() or "closed", flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
"""
#: Holds one, and says when it has ended.
HOLD = """
import socket, sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print(peer.recv(64).decode().strip(), flush=True)
try:
    while peer.recv(4096): pass
    print("closed", flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
"""
#: Start-up, one query, and the row of the answer.
QUERY = """
import socket, struct, sys
peer = socket.create_connection((sys.argv[1], 5432), timeout=10)
start = struct.pack("!i", 196608) + b"user\\0agent\\0database\\0world\\0\\0"
peer.sendall(struct.pack("!i", len(start) + 4) + start)
messages = peer.makefile("rb")
asked = False
while True:
    kind, length = struct.unpack("!ci", messages.read(5))
    body = messages.read(length - 4)
    if kind == b"Z" and not asked:
        asked = True
        text = b"select 'x'\\0"
        peer.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)
    elif kind == b"D":
        print(body[6:].decode(), flush=True)
    elif kind == b"Z":
        peer.sendall(b"X" + struct.pack("!i", 4))
        break
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world():
    async with World.open() as opened:
        yield opened


class Site(SignedBundles):
    """Bundles of this checkout with names of the world and endpoints of them."""

    def __init__(self, directory):
        def change(data):
            data["hosts"]["allowed"] += NAMES
            data["ceilings"]["blocks_in_ten_minutes"] = 10_000

        super().__init__(directory, site_bundle(directory, change=change)[0])
        self.lists(LISTED)

    def lists(self, endpoints):
        """Put one in place that lists these; its revision."""
        settings = json.loads(self.members[CONFIG]) | {"endpoints": dict.fromkeys(endpoints, True)}
        content, manifest = self.next({CONFIG: json.dumps(settings).encode()})
        self.put(content)
        return manifest.revision


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def daemon(world, site):
    networks = ", ".join(f'"{one}"' for one in world.networks)
    egress = f'enabled = true\nuplink = "{UPLINK}"\nresolvers = ["{world.resolver}"]\nvetted_also = [{networks}]'
    with running(egress=egress, bundle=site.place, key=site.public, staffed=True) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def place(daemon):
    async with Place.open(daemon) as opened:
        for name, text in (("dial.py", DIAL), ("hold.py", HOLD), ("query.py", QUERY)):
            await opened.write(name, text)
        yield opened


@contextlib.asynccontextmanager
async def holding(place, name=DATABASE):
    """A call that has a connection open: what it says of it from now on."""
    call = place.call(f"{granted(name)} python3 hold.py {name} {plan.BANNER}")
    lines = _lines(call)
    try:
        assert await anext(lines) == plan.BANNER_TEXT.decode().strip()
        yield lines
    finally:
        await call.aclose()


async def _lines(call):
    said = b""
    async with asyncio.timeout(60):
        async for event in call:
            if isinstance(event, Stdout):
                *lines, said = (said + event.data).split(b"\n")
                for line in lines:
                    yield line.decode()


def granted(*names):
    """A command that has these names granted, and nothing to say."""
    return "".join(f"curl -s -m 1 -o /dev/null http://{name}/hello || true; " for name in names)


def seen(world, before, address):
    return [event for event in world.log[before:] if event.target.startswith(f"{address}:")]


async def recorded(daemon, **fields):
    """The last record with these fields, of a tuple one of its values, when it is there."""
    wanted = {name: value if isinstance(value, tuple) else (value,) for name, value in fields.items()}

    def found():
        return [one for one in records(daemon) if all(one[name] in values for name, values in wanted.items())]

    async with asyncio.timeout(10):
        while not (told := found()):  # noqa: ASYNC110 - the log tells nobody
            await asyncio.sleep(0.05)
    return told[-1]


def records(daemon):
    lines = [line for path in sorted((daemon.state / "audit").glob("segment-*")) for line in path.open()]
    return [json.loads(line) for line in lines if '"kind":"connection"' in line]


async def test_a_server_that_speaks_first_is_heard_and_the_record_joins_call_and_bytes(daemon, place, world):
    before = len(world.log)
    done = await place.run(f"{granted(DATABASE)} python3 dial.py {DATABASE} {plan.BANNER}")
    assert done.stdout.decode().split("\n")[0] == plan.BANNER_TEXT.decode().strip(), done.stderr
    accepted = [one for one in seen(world, before, "198.51.100.30") if one.kind is Kind.ACCEPT]
    assert BANNER in {one.target for one in accepted}
    allowed = await recorded(daemon, sandbox_id=place.sandbox, layer="tcp", state="allowed")
    assert (allowed["name"], allowed["port"], allowed["rules"]) == (DATABASE, plan.BANNER, ["egress.domain.allow"])
    end = await recorded(
        daemon, sandbox_id=place.sandbox, layer="tcp", decision_id=allowed["decision_id"], state=("ended", "cut")
    )
    assert (end["address"], end["sent"], end["received"]) == ("198.51.100.30", 0, len(plan.BANNER_TEXT))


async def test_a_client_that_speaks_first_has_its_question_answered(place):
    """And a call may name it with its port, which no other host's call may."""
    done = await place.run(f"python3 query.py {DATABASE} postgresql://{DATABASE}:{plan.POSTGRES}/world")
    assert done.stdout.strip() == postgres.TEXT, done.stderr
    for other in (f"{DATABASE}:5433", f"{QUIET}:{plan.POSTGRES}"):
        done = await place.run(f"python3 query.py {DATABASE} postgresql://{other}/world")
        assert (done.outcome.kind, done.verdict.rules[0].id) == (OutcomeKind.BLOCKED, "egress.port.allowlist")


async def test_NW_01_a_port_that_is_not_listed_with_the_name_is_reset_and_nobody_is_dialled(place, world):
    before = len(world.log)
    names = (DATABASE, DATABASE, QUIET, "allowed.test", "allowed.test")
    ports = (22, 6379, plan.POSTGRES, plan.BANNER, plan.POSTGRES)
    tries = "".join(f"python3 dial.py {name} {port}; " for name, port in zip(names, ports, strict=True))
    done = await place.run(f"{granted(DATABASE, QUIET, 'allowed.test')} {tries}")
    assert done.stdout.split() == [b"ConnectionRefusedError"] * 5
    reached = {one.target.rpartition(":")[2] for one in world.log[before:] if one.kind is Kind.ACCEPT}
    assert reached == {"80"}  # by what has the names granted


async def test_NW_05_a_name_that_is_not_granted_does_not_exist_and_its_address_leads_nowhere(daemon, place, world):
    """Nobody is asked for it, nobody is dialled, and none of the banner's bytes is seen."""
    own = Endpoints("10.203.0.0/22")
    own.lead(LISTED)
    await place.write("names.txt", f"{QUIET}\n{own.address(QUIET)}\ndenied.test\n")
    before = len(world.log)
    command = f"while read name; do python3 dial.py $name {plan.BANNER}; done < names.txt"
    for grant in (granted(DATABASE), ""):
        done = await place.run(f"{grant} {command}")
        assert done.stdout.split() == [b"gaierror", b"ConnectionResetError", b"gaierror"], done.stderr
    assert not any(event.name in (QUIET, "denied.test") for event in world.log[before:])
    assert seen(world, before, "198.51.100.40") == seen(world, before, plan.DENIED) == []
    refused = await recorded(daemon, sandbox_id=place.sandbox, layer="tcp", state="refused")
    assert (refused["name"], refused["port"], refused["rules"]) == (QUIET, plan.BANNER, ["egress.domain.allowlist"])
    done = await place.run(f"{granted(QUIET)} {command}")  # the control
    assert done.stdout.decode().split("\n")[:2] == [plan.BANNER_TEXT.decode().strip()] * 2


async def test_NW_12_a_listed_name_that_leads_to_a_private_address_is_not_dialled(daemon, place, world, site):
    await in_force(daemon, site, [*LISTED, f"{PRIVATE}:{plan.BANNER}"])
    before = len(world.log)
    done = await place.run(f"{granted(PRIVATE)} python3 dial.py {PRIVATE} {plan.BANNER}")
    assert done.stdout.split() == [b"ConnectionResetError"]
    assert any(event.name == PRIVATE for event in world.log[before:])  # it was asked for, and answered
    assert seen(world, before, plan.PRIVATE) == []
    refused = await recorded(daemon, layer="dns", name=PRIVATE, state="refused")
    assert refused["rules"] == ["egress.address.private.deny"]
    await in_force(daemon, site, LISTED)


async def in_force(daemon, site, endpoints):
    """A bundle that lists these, and nobody judges by another."""
    async with daemon.client("reviewer") as reviewer:
        revision = site.lists(endpoints)
        async with asyncio.timeout(60):
            async for settled in reviewer.watch_bundle():
                if settled.revision == revision:
                    return


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_web_of_a_listed_name_goes_through_envoy_as_before(daemon, place, scheme):
    done = await place.run(f"curl -sSk -m 10 {scheme}://{DATABASE}/hello; getent hosts {DATABASE}")
    assert done.stdout.startswith(b"hello from the world\n"), done.stderr
    layer = {"http": "http", "https": "tls"}[scheme]
    assert (await recorded(daemon, sandbox_id=place.sandbox, layer=layer, state="allowed"))["name"] == DATABASE


async def test_NW_30_a_tunnel_ends_with_its_call(daemon, place, world):
    before = len(world.log)
    async with holding(place):
        pass
    await closed(world, before)
    allowed = await recorded(daemon, sandbox_id=place.sandbox, layer="tcp", state="allowed")
    end = await recorded(daemon, decision_id=allowed["decision_id"], layer="tcp", state=("ended", "cut"))
    assert end["received"] == len(plan.BANNER_TEXT)


async def closed(world, before):
    """The world's side of a tunnel has ended."""
    async with asyncio.timeout(10):
        while not any(one.kind is Kind.CLOSED and one.target == BANNER for one in world.log[before:]):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)


async def test_NW_30_a_tunnel_ends_when_its_endpoint_is_listed_no_more_and_others_go_on(daemon, place, site):
    async with Place.open(daemon) as other:
        await other.write("hold.py", HOLD)
        async with holding(place) as lines, holding(other, QUIET) as others:
            await in_force(daemon, site, [one for one in LISTED if not one.endswith(f"{DATABASE}:{plan.BANNER}")])
            assert await anext(lines) == "ConnectionResetError"
            done = await place.run(f"{granted(DATABASE)} python3 dial.py {DATABASE} {plan.BANNER}")
            assert done.stdout.split() == [b"ConnectionRefusedError"]
            done = await place.run(f"{granted(DATABASE)} python3 query.py {DATABASE}")
            assert done.stdout.strip() == postgres.TEXT
            await in_force(daemon, site, [])
            assert await anext(others) == "ConnectionResetError"
    await in_force(daemon, site, LISTED)
    done = await place.run(f"{granted(DATABASE)} python3 dial.py {DATABASE} {plan.BANNER}")
    assert done.stdout.decode().strip() == plan.BANNER_TEXT.decode().strip()


async def test_NW_26_a_tunnel_ends_with_the_helper_and_what_is_listed_leads_nowhere_until_it_is_back(
    daemon, place, world
):
    before = len(world.log)
    async with holding(place) as lines:
        await asyncio.to_thread(signal_process, daemon.child("helper"))
        assert await anext(lines) in ("ConnectionResetError", "closed")
        await closed(world, before)
    async with asyncio.timeout(30):
        while True:
            command = f"{granted(DATABASE)} python3 dial.py {DATABASE} {plan.BANNER}"
            with contextlib.suppress(OpenSafeError):
                if (await place.run(command)).stdout.decode().strip() == plan.BANNER_TEXT.decode().strip():
                    break
