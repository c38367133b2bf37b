"""WebSockets over plain HTTP from a sandbox: to listed hosts, seen while open, and cut like any connection."""

import contextlib
import os

import pytest
import pytest_asyncio

from opensafe.client import Limits, Stdout
from opensafe.model.outcome import OutcomeKind
from opensafe.proof.world import Kind
from tests.harness.daemon import running
from tests.harness.policy import site_bundle
from tests.harness.way_out import recorded

#: The world is read by a task of this loop.
pytestmark = [pytest.mark.root, pytest.mark.runsc, pytest.mark.asyncio(loop_scope="module")]

LISTED, UNLISTED = "ws.allowed.test", "allowed.test"
#: Says the status, sends frames for a while, says what came back, and when the connection ended.
CLIENT = """
import socket, sys
host, upgrade, frames = sys.argv[1], sys.argv[2], int(sys.argv[3])
peer = socket.create_connection((host, 80), timeout=20)
peer.sendall((
    f"GET /echo HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: Upgrade\\r\\nUpgrade: {upgrade}\\r\\n"
    "Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n").encode())
stream = peer.makefile("rb")
status, accept = stream.readline().split()[1].decode(), ""
while line := stream.readline().strip():
    accept = line.split()[1].decode() if line.lower().startswith(b"sec-websocket-accept") else accept
print(status, accept, flush=True)
if status != "101":
    raise SystemExit(stream.readline().decode())
try:
    for number in range(frames):
        peer.sendall(b"\\x81\\xfe\\x04\\x00" + bytes(4) + b"x" * 1024)
        assert len(stream.read(1028)) == 1028
    print("echoed", flush=True)
    print(stream.read(1), flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
print("ended", flush=True)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The place where the daemon looks for its bundle, the key, and a bundle that lists no host."""

    def listed(settings):
        settings["hosts"]["allowed"] += [LISTED, UNLISTED]
        settings["hosts"]["websocket"] += [LISTED]

    def unlisted(settings):
        settings["hosts"]["allowed"] += [LISTED, UNLISTED]

    directory = tmp_path_factory.mktemp("site")
    bundle, key = site_bundle(directory, change=listed)
    return bundle, key, site_bundle(directory, number=2, change=unlisted)[0]


@pytest.fixture(scope="module")
def daemon(world, site):
    with running(egress=world.egress("10.203.208.0/30"), bundle=site[0], key=site[1]) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def agent(daemon):
    async with daemon.client() as client:
        yield client


@contextlib.asynccontextmanager
async def placed(agent, limits=Limits()):  # noqa: B008 - frozen
    """A session and its sandbox, in which the client is."""
    session = await agent.create_session("tester", limits=limits)
    sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
    await agent.run_call(session, sandbox, "write", "Write", {"path": "/workspace/client.py", "content": CLIENT})
    yield session, sandbox
    await agent.delete_sandbox(sandbox)


@pytest_asyncio.fixture(loop_scope="module")
async def place(agent):
    async with placed(agent) as made:
        yield made


def command(host, upgrade="websocket", frames=1):
    return {"command": f"curl -s http://{host}/hello; python3 client.py {host} {upgrade} {frames}"}


async def talk(agent, place, call_id, until, **words):
    """A call of the client, once it has said `until`; and what it says from then on."""
    call = agent.call(*place, call_id, "Bash", command(LISTED, **words))
    said = b""
    async for event in call:
        said += event.data if isinstance(event, Stdout) else b""
        if until in said:
            return call
    raise AssertionError(said)


async def test_a_listed_host_is_spoken_to_and_every_byte_counts(daemon, agent, place, world):
    call = await talk(agent, place, "echo", b"101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\nechoed", frames=20)
    await world.until(lambda event: event.kind is Kind.REQUEST and event.data == b"GET /echo HTTP/1.1")
    await call.aclose()
    record = await recorded(daemon, sent=20 * 1024, call_id="echo", layer="http", name=LISTED, state=("ended", "cut"))
    assert record["received"] > 20 * 1024


async def test_NW_24_one_that_says_more_than_its_session_may_is_cut_while_it_is_open(daemon, agent):
    async with placed(agent, Limits(egress_bytes=200_000)) as place:
        done = await agent.run_call(*place, "much", "Bash", command(LISTED, frames=1_000_000))
        assert done.stdout.splitlines()[1].startswith(b"101 ")
        assert b"echoed" not in done.stdout
        record = await recorded(daemon, call_id="much", layer="http", name=LISTED, state="cut")
        assert "egress.bytes.budget" in record["rules"]
        assert record["sent"] > 200_000


@pytest.mark.parametrize(("host", "upgrade"), [(UNLISTED, "websocket"), (LISTED, "h2c-own"), (LISTED, "tls/1.0")])
async def test_another_host_and_another_protocol_are_refused_and_the_server_hears_nothing(
    agent, place, world, host, upgrade
):
    before = len(world.log)
    done = await agent.run_call(*place, f"other-{host}-{upgrade}".replace("/", "-"), "Bash", command(host, upgrade))
    assert done.stdout.splitlines()[:2] == [b"hello from the world", b"403 "], done
    heard = [event.data for event in world.log[before:] if event.kind is Kind.REQUEST]
    assert heard == [b"GET /hello HTTP/1.1"]


async def test_NW_30_a_host_that_is_listed_no_longer_loses_what_is_open(daemon, agent, place, site):
    bundle, _, unlisted = site
    call = await talk(agent, place, "open", b"echoed")
    _put(bundle, unlisted.read_bytes())
    said = b""
    async for event in call:
        said += event.data if isinstance(event, Stdout) else b""
    assert b"ended" in said
    assert (await recorded(daemon, call_id="open", layer="http", state="cut"))["name"] == LISTED
    again = await agent.run_call(*place, "again", "Bash", command(LISTED))
    assert again.outcome.kind is OutcomeKind.EXITED
    assert b"403" in again.stdout


def _put(place, content):
    made = place.with_suffix(".new")
    made.write_bytes(content)
    os.replace(made, place)
