"""A whole daemon with a way out, before a world of its own: what a granted call reaches, and what nobody does."""

import asyncio
import contextlib
import json

import pytest
import pytest_asyncio

from opensafe.client import Stdout
from opensafe.errors import OpenSafeError
from opensafe.model.outcome import OutcomeKind
from opensafe.proof.world.world import World
from tests.harness.daemon import Daemon, signal_process
from tests.harness.policy import site_bundle

#: The world is read by a task of this loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")

UPLINK = "10.203.240.0/30"
ALLOWED = ["allowed.test", "git.test", "pypi.test"]
FETCH = "import urllib.request\nprint(urllib.request.urlopen({url}, timeout=5).read().decode(), end='')\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world():
    async with World.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def daemon(world, tmp_path_factory):
    def change(settings):
        settings["hosts"]["allowed"] += ALLOWED
        settings["images"]["dev"] = "any"

    bundle, key = site_bundle(tmp_path_factory.mktemp("site"), change=change)
    networks = ", ".join(f'"{one}"' for one in world.networks)
    egress = f'enabled = true\nuplink = "{UPLINK}"\nresolvers = ["{world.resolver}"]\nvetted_also = [{networks}]'
    made = Daemon(egress=egress, bundle=bundle, key=key, staffed=True)
    try:
        yield made.start()
        assert made.stop() == 0
    finally:
        left = made.remove()
    assert left == []


@pytest_asyncio.fixture(loop_scope="module")
async def agent(daemon):
    async with daemon.client() as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def place(agent):
    session = await agent.create_session("tester")
    sandbox = (await agent.create_sandbox(session)).sandbox
    yield session, sandbox.sandbox_id
    await agent.delete_sandbox(sandbox.sandbox_id)


def connections(daemon, **fields):
    """Records of connections that have these fields; of a tuple, one of its values."""
    lines = [line for path in sorted((daemon.state / "audit").glob("segment-*")) for line in path.open()]
    records = [json.loads(line) for line in lines if '"kind":"connection"' in line]
    allowed = {name: value if isinstance(value, tuple) else (value,) for name, value in fields.items()}
    return [one for one in records if all(one[name] in values for name, values in allowed.items())]


async def recorded(daemon, **fields):
    """The first such record, when it is there."""
    async with asyncio.timeout(10):
        while not (found := connections(daemon, **fields)):  # noqa: ASYNC110 - the log tells nobody
            await asyncio.sleep(0.05)
    return found[0]


async def run(agent, place, call_id, command):
    session, sandbox = place
    return await agent.run_call(session, sandbox, call_id, "Bash", {"command": command})


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_granted_name_is_reached_and_the_record_joins_connection_call_and_decision(
    daemon, agent, place, scheme
):
    result = await run(agent, place, "fetch", f"curl -sSk -m 10 {scheme}://allowed.test/hello")
    assert result.stdout == b"hello from the world\n"
    layer = {"http": "http", "https": "tls"}[scheme]
    record = await recorded(daemon, sandbox_id=place[1], layer=layer, state="allowed")
    assert (record["name"], record["call_id"], record["principal"]) == ("allowed.test", "fetch", "agent")
    ended = await recorded(daemon, decision_id=record["decision_id"], layer=layer, state=("ended", "cut"))
    assert ended["received"] > 0


async def test_NW_05_what_a_call_was_not_granted_does_not_exist_and_nobody_is_asked(daemon, agent, place, world):
    await write_fetcher(agent, place, "http://den", "ied.test/")
    before = len(world.log)
    result = await run(agent, place, "other", "python3 go.py")
    assert result.outcome.exit_code == 1
    assert b"Name or service not known" in result.stderr
    assert not any("denied" in str(event) for event in world.log[before:])
    record = await recorded(daemon, sandbox_id=place[1], layer="dns", state="refused")
    assert record["name"] == "denied.test"


async def write_fetcher(agent, place, *parts):
    """A program that fetches an address of parts, which its call does not name."""
    url = " + ".join(repr(part) for part in parts)
    await agent.run_call(*place, "write", "Write", {"path": "/workspace/go.py", "content": FETCH.format(url=url)})


async def test_an_allowed_name_is_closed_to_a_call_that_did_not_name_it(agent, place, world):
    await write_fetcher(agent, place, "http://allow", "ed.test/hello")
    before = len(world.log)
    result = await run(agent, place, "unnamed", "python3 go.py")
    assert result.outcome.exit_code == 1
    assert b"Name or service not known" in result.stderr
    assert not any("allowed" in str(event) for event in world.log[before:])
    named = await run(agent, place, "named", "curl -s http://allowed.test/hello; python3 go.py")
    assert named.stdout == b"hello from the world\n" * 2


async def test_NW_01_an_address_without_a_name_is_refused_at_once(agent, place, world):
    script = (
        "import socket\n"
        "for address in ('198.51.100.10', '198.51.100.20', '10.203.240.1', '169.254.169.254'):\n"
        "    for port in (22, 80, 443):\n"
        "        try: print(socket.create_connection((address, port), timeout=5))\n"
        "        except OSError as error: print(type(error).__name__)\n"
    )
    await agent.run_call(*place, "w", "Write", {"path": "/workspace/dial.py", "content": script})
    before = len(world.log)
    result = await run(agent, place, "dial", "python3 dial.py")
    assert result.stdout.split() == [b"ConnectionRefusedError"] * 12
    assert world.log[before:] == ()


async def test_a_call_with_the_network_has_its_sandbox_for_itself(agent, place):
    session, sandbox = place
    first = agent.call(session, sandbox, "long", "Bash", {"command": "curl -sS http://allowed.test/hello; sleep 30"})
    async for event in first:
        if isinstance(event, Stdout):
            break
    beside = await run(agent, place, "beside", "echo hello")
    assert beside.outcome.kind is OutcomeKind.NOT_STARTED
    assert "for itself" in beside.outcome.detail
    listed = await agent.run_call(session, sandbox, "file", "List", {"path": "/workspace"})  # the file helper may
    assert listed.outcome.exit_code == 0
    await first.aclose()
    async with asyncio.timeout(20):
        number = 0
        while (after := await run(agent, place, f"after{number}", "echo hello")).stdout == b"":
            number += 1
    assert after.stdout == b"hello\n"


async def test_git_clones_from_an_allowed_host_and_from_no_other(agent, place):
    result = await run(agent, place, "clone", "git clone http://git.test/project.git project")
    assert result.outcome.exit_code == 0, result.stderr
    refused = await run(agent, place, "other", "git clone http://denied.test/project.git other")
    assert refused.outcome.kind is OutcomeKind.BLOCKED


#: Prints a line, then holds a connection of its own and says when it has ended.
HOLD = """
import socket, sys
peer = socket.create_connection(("allowed.test", 80))
peer.sendall(b"GET /hello HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")
print(peer.recv(12), flush=True)
while peer.recv(4096): pass
print("ended", flush=True)
"""


@contextlib.asynccontextmanager
async def holding(agent, place, call_id):
    """A call that has a connection open, and its further output as it comes."""
    session, sandbox = place
    await agent.run_call(session, sandbox, "hold", "Write", {"path": "/workspace/hold.py", "content": HOLD})
    command = "curl -s http://allowed.test/hello; python3 hold.py"
    call = agent.call(session, sandbox, call_id, "Bash", {"command": command})
    try:
        seen = b""
        async for event in call:
            seen += event.data if isinstance(event, Stdout) else b""
            if b"200" in seen:
                break
        yield call
    finally:
        await call.aclose()


@pytest.mark.parametrize("role", ["helper", "front"])
async def test_NW_26_what_is_open_ends_with_the_process_that_judged_it_and_with_the_one_that_records(
    daemon, agent, role
):
    session = await agent.create_session("tester")
    place = session, (await agent.create_sandbox(session)).sandbox.sandbox_id
    gateway = daemon.run / "netns" / "gateway"
    async with holding(agent, place, "open"):
        assert b":80" in await established(gateway)  # the control
        await asyncio.to_thread(signal_process, daemon.child(role))
        async with asyncio.timeout(2):
            while b":80" in await established(gateway):  # noqa: ASYNC110 - the kernel tells nobody
                await asyncio.sleep(0.02)
    async with asyncio.timeout(30):
        number = 0
        while True:  # both come back
            number += 1
            with contextlib.suppress(OpenSafeError):
                session = await agent.create_session("tester")
                place = session, (await agent.create_sandbox(session)).sandbox.sandbox_id
                if (await run(agent, place, f"again{number}", "curl -s http://allowed.test/hello")).stdout:
                    break


async def established(namespace):
    """What the gateway's stack has open with guests."""
    listing = ("ss", "-Htn", "state", "established", "src", "10.201.0.0/16")
    shown = await asyncio.create_subprocess_exec(
        "nsenter", f"--net={namespace}", *listing, stdout=asyncio.subprocess.PIPE
    )
    return (await shown.communicate())[0]


async def test_an_approved_pip_install_installs_from_an_allowed_index(daemon, agent):
    session = await agent.create_session("tester")
    sandbox = (await agent.create_sandbox(session, template="dev")).sandbox.sandbox_id
    command = "pip install --quiet --target lib --index-url http://pypi.test/simple --trusted-host pypi.test worldly"
    parked = await agent.run_call(session, sandbox, "pip", "Bash", {"command": command})
    assert parked.outcome.kind is OutcomeKind.REVIEW_PENDING
    async with daemon.client("reviewer") as reviewer:
        shown = await reviewer.get_review(parked.outcome.detail)
        await reviewer.approve_review(shown.review_id, shown.digest)
    done = await agent.run_call(session, sandbox, "pip", "Bash", {"command": command})
    assert (done.outcome.kind, done.outcome.exit_code) == (OutcomeKind.EXITED, 0), done.stderr
    listed = await agent.run_call(session, sandbox, "ls", "Bash", {"command": "ls lib"})
    assert b"worldly" in listed.stdout
    await agent.delete_sandbox(sandbox)
