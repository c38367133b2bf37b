"""What people see of the way out: what is open, what hosts were used for, and whether one would be reached."""

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys

import pytest
import pytest_asyncio

from opensafe.client import Stdout
from opensafe.errors import InvalidArgument, NotFound, Unavailable
from tests.harness.daemon import running, signal_process
from tests.harness.policy import site_bundle

#: The world is read by a task of this loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")

UPLINK = "10.203.244.0/30"
NUMBERS = itertools.count()
#: Fetches from a host that its call does not name, as a client library would.
FETCH = """
import urllib.request
for host in "allow", "deni":
    try: print(urllib.request.urlopen(f"http://{host}ed.test/hello").read())
    except OSError as error: print(error)
"""
#: Holds a TLS tunnel and sends a request on it for each line that a file gets; ends when told to.
HOLD = """
import pathlib, socket, ssl, time
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
peer = context.wrap_socket(socket.create_connection(("allowed.test", 443)), server_hostname="allowed.test")
said = pathlib.Path("said")
done = 0
while not pathlib.Path("over").exists():
    for _ in range(done, int(said.read_text()) if said.exists() else 1):
        peer.sendall(b"GET /hello HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")
        while b"hello" not in peer.recv(4096): pass
        done += 1
        print("sent", done, flush=True)
    time.sleep(0.05)
peer.close()
print("over", flush=True)
"""


@pytest.fixture(scope="module")
def daemon(world, tmp_path_factory):
    def change(settings):
        settings["hosts"]["allowed"] += ["allowed.test", "other.test"]
        settings["endpoints"]["allowed.test:2222"] = True

    bundle, key = site_bundle(tmp_path_factory.mktemp("site"), change=change)
    with running(egress=world.egress(UPLINK), bundle=bundle, key=key, staffed=True) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def agent(daemon):
    async with daemon.client() as client:
        await again(client.status, until=lambda status: status.helper_revision)
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def place(agent):
    session = await agent.create_session("tester")
    sandbox = (await agent.create_sandbox(session)).sandbox
    yield session, sandbox.sandbox_id
    await agent.delete_sandbox(sandbox.sandbox_id)


def opensafe(daemon, *words, principal="agent"):
    command = [sys.executable, "-m", "opensafe.cli", *words]
    environment = {"OPENSAFE_SOCKET": str(daemon.socket_of(principal)), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


async def write(agent, place, path, content):
    name = f"write-{next(NUMBERS)}"
    written = await agent.run_call(*place, name, "Write", {"path": f"/workspace/{path}", "content": content})
    assert written.outcome.exit_code == 0


async def when(true, ask):
    """What is answered, when it is as it is waited for."""
    async with asyncio.timeout(20):
        while not true(answer := await ask()):  # noqa: ASYNC110 - nobody tells that Envoy has reported
            await asyncio.sleep(0.05)
    return answer


@contextlib.asynccontextmanager
async def tunnel(agent, place, call_id):
    """A call that holds a TLS tunnel on which a request was answered, and its further output."""
    session, sandbox = place
    await write(agent, place, "hold.py", HOLD)
    command = "rm -f over said; curl -sS http://allowed.test/hello; python3 hold.py"
    call = agent.call(session, sandbox, call_id, "Bash", {"command": command})
    try:
        await until(call, b"sent 1")
        yield call
    finally:
        await call.aclose()


async def until(call, text):
    seen, events = b"", []
    async for event in call:
        events.append(event)
        seen += event.data if isinstance(event, Stdout) else b""
        if text in seen:
            return
    raise AssertionError(events)


async def test_a_tunnel_is_listed_with_growing_bytes_and_gone_after_its_end(agent, place):
    assert (await agent.list_connections(place[1])).connections == ()
    async with tunnel(agent, place, "tunnel") as call:

        async def listed():
            return (await agent.list_connections(place[1])).connections

        (first,) = await when(lambda found: found and found[0].received_bytes > 500, listed)
        assert (first.sandbox_id, first.call_id, first.principal) == (place[1], "tunnel", "agent")
        assert (first.layer, first.name, first.port) == ("tls", "allowed.test", 443)
        await write(agent, place, "said", "3")
        await until(call, b"sent 3")
        (more,) = await when(lambda found: found[0].received_bytes > first.received_bytes, listed)
        assert more.sent_bytes > first.sent_bytes
        assert more.since_unix_ns == first.since_unix_ns
        await write(agent, place, "over", "")
        await until(call, b"over")
        await when(lambda found: not found, listed)


async def test_hosts_are_counted_with_what_was_allowed_and_refused(daemon, agent, place):
    await write(agent, place, "fetch.py", FETCH)
    command = "curl -sS http://allowed.test/hello; python3 fetch.py; curl -sS http://allowed.test:80/hello"
    assert (await agent.run_call(*place, "fetch", "Bash", {"command": command})).stdout.count(b"hello") == 3

    async def counted():
        return {one.name: one for one in (await agent.list_hosts(place[1])).hosts}

    found = await when(lambda found: found["allowed.test"].received_bytes > 3 * 19, counted)
    assert set(found) == {"allowed.test", "denied.test"}
    assert (found["allowed.test"].allowed, found["allowed.test"].refused) == (3, 0)
    assert found["denied.test"].allowed == found["denied.test"].sent_bytes == 0
    assert found["denied.test"].refused > 0
    shown = opensafe(daemon, "egress", "hosts", "--sandbox", place[1]).stdout.splitlines()
    assert shown[0].split() == ["SANDBOX", "PRINCIPAL", "HOST", "ALLOWED", "REFUSED", "SENT", "RECEIVED"]
    assert shown[1].split()[:5] == [place[1], "agent", "allowed.test", "3", "0"]
    assert shown[2].split()[:4] == [place[1], "agent", "denied.test", "0"]


@pytest.mark.parametrize(
    ("host", "reachable", "steps", "rules"),
    [
        ("allowed.test", True, ["dns", "tls", "http"], {"egress.domain.allow"}),
        ("ALLOWED.test.:443", True, ["dns", "tls"], {"egress.domain.allow"}),
        ("allowed.test:80", True, ["dns", "http"], {"egress.domain.allow"}),
        ("denied.test:443", False, ["dns", "tls"], {"egress.domain.allowlist"}),
        ("allowed.test:2222", True, ["dns", "tcp"], {"egress.domain.allow"}),
        ("allowed.test:22", False, ["dns", "tcp"], {"egress.port.allowlist"}),
        ("metadata.google.internal", False, ["dns", "tls", "http"], {"egress.metadata.deny"}),
        ("169.254.169.254:80", False, ["http"], {"egress.ip.literal.deny", "egress.metadata.deny"}),
        ("[2606:4700::1111]:443", False, ["tls"], {"egress.ip.literal.deny"}),
    ],
)
async def test_it_is_explained_whether_a_call_that_is_granted_a_host_reaches_it(agent, host, reachable, steps, rules):
    found = await agent.explain_egress(host)
    assert (found.reachable, [one.layer for one in found.layers]) == (reachable, steps)
    decided = {rule.id for one in found.layers for rule in one.rules}
    assert rules <= decided
    assert all(rule.remedy for one in found.layers if not one.allowed for rule in one.rules)
    served = not host.endswith(":22")
    assert [one.reason for one in found.obstacles] == ([] if served else ["the gateway does not serve the port"])


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("https://allowed.test/x", "Ask for allowed.test:443."),
        ("me@allowed.test", "Ask for allowed.test."),
        ("", "Give a name"),
        ("two words", "Give a name"),
        ("allowed.test:99999", "Give a name"),
        ("a%2eb", "Give a name"),
    ],
)
async def test_what_is_no_host_is_told_with_what_would_be_one(agent, text, remedy):
    with pytest.raises(InvalidArgument) as told:
        await agent.explain_egress(text)
    assert told.value.remedy.startswith(remedy)
    assert told.value.limit == "NAME or NAME:PORT"


async def test_what_a_sandbox_reaches_now_is_what_its_running_call_was_granted(daemon, agent, place):
    before = await agent.explain_egress("allowed.test", place[1])
    assert not before.reachable
    assert [one.reason for one in before.obstacles] == ["no call runs in the sandbox, so no grant is open"]
    async with tunnel(agent, place, "granted") as call:
        granted = await agent.explain_egress("allowed.test:443", place[1])
        assert granted.reachable
        assert (granted.standing.call_id, granted.standing.network) == ("granted", ("allowed.test",))
        assert granted.standing.requests == 2
        other = await agent.explain_egress("other.test:443", place[1])  # which another call could be granted
        assert not other.reachable
        assert {rule.id for one in other.layers for rule in one.rules} == {"egress.domain.allowlist"}
        assert (await agent.explain_egress("other.test:443")).reachable
        shown = opensafe(daemon, "egress", "explain", "allowed.test:443", "--sandbox", place[1])
        assert (shown.returncode, shown.stdout.splitlines()[0]) == (0, "reachable: allowed.test:443")
        await write(agent, place, "over", "")
        await until(call, b"over")
    after = await when(
        lambda found: not found.standing.call_id, lambda: agent.explain_egress("allowed.test:443", place[1])
    )
    assert not after.reachable


async def test_another_principal_sees_nothing_of_it_and_an_operator_does(daemon, agent, place):
    async with tunnel(agent, place, "seen"), daemon.client("other") as other, daemon.client("operator") as operator:
        await when(lambda found: found.connections, lambda: operator.list_connections(place[1]))
        assert place[1] in {one.sandbox_id for one in (await operator.list_hosts()).hosts}
        assert (await other.list_connections()).connections == ()
        assert (await other.list_hosts()).hosts == ()
        for ask in other.list_connections, other.list_hosts:
            with pytest.raises(NotFound, match="no such sandbox"):
                await ask(place[1])
        with pytest.raises(NotFound, match="no such sandbox"):
            await other.explain_egress("allowed.test", place[1])


async def test_without_a_helper_nothing_is_shown_and_then_what_is_true_again(daemon, agent):
    session = await agent.create_session("tester")
    place = session, (await agent.create_sandbox(session)).sandbox.sandbox_id
    async with tunnel(agent, place, "before"):
        assert (await agent.list_connections(place[1])).connections
        await asyncio.to_thread(signal_process, daemon.child("helper"))
        with contextlib.suppress(Unavailable):  # the next one may be there already: then it knows of nothing
            assert (await agent.list_connections(place[1])).connections == ()
    assert await again(agent.list_connections)
    explained = await again(lambda: agent.explain_egress("allowed.test"), until=lambda found: found.reachable)
    assert explained.obstacles == ()
    session = await agent.create_session("tester")
    place = session, (await agent.create_sandbox(session)).sandbox.sandbox_id
    async with tunnel(agent, place, "after"):
        assert await again(lambda: agent.list_connections(place[1]), until=lambda found: found.connections)


async def again(ask, until=lambda found: True):
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(Unavailable):
                if until(answer := await ask()):
                    return answer
            await asyncio.sleep(0.05)  # nobody tells that the new helper serves


async def test_what_envoy_carried_is_not_shown_once_it_is_gone(daemon, agent, place):
    async with tunnel(agent, place, "carried"):
        assert (await agent.list_connections(place[1])).connections
        await asyncio.to_thread(signal_process, daemon.envoy())
        await when(lambda found: not found.connections, lambda: agent.list_connections(place[1]))


async def test_a_report_is_json_and_what_is_no_host_ends_with_the_status_of_a_wrong_request(daemon):
    shown = opensafe(daemon, "egress", "explain", "denied.test", "--json")
    report = json.loads(shown.stdout)
    assert (shown.returncode, report["schema"]) == (0, "opensafe.egress-explain/1")
    assert report["summary"]["reachable"] is False
    assert report["summary"]["refused_layers"] == "dns, tls, http"
    for words in ("list", "hosts"):
        assert json.loads(opensafe(daemon, "egress", words, "--json").stdout)["summary"]["left_out"] == 0
    wrong = opensafe(daemon, "egress", "explain", "https://docs.python.org/simple")
    assert wrong.returncode == 197
    assert "Ask for docs.python.org:443" in wrong.stderr
