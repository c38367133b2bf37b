"""What a session may send and receive, in all and with one host, with the real daemon before a world."""

import asyncio
import contextlib

import pytest

from opensafe.client import Limits
from tests.harness.daemon import running, signal_process
from tests.harness.policy import site_bundle
from tests.harness.way_out import recorded

#: The world is read by a task of this loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")

#: A /30 that no other test's daemon has.
UPLINK = "10.203.230.0/30"
MB = 10**6
#: Slow enough that Envoy reports several times while it lasts.
GET = "curl -sSk --limit-rate 8M -m 60 -o got {scheme}://{name}.test/bytes/{size}"
#: Sends so many bytes to a host, over TLS, on a connection of each size given.
PUT = """
import http.client, ssl, sys, time
for size in map(int, sys.argv[2:]):
    peer = http.client.HTTPSConnection(sys.argv[1], timeout=10, context=ssl._create_unverified_context())
    peer.putrequest("POST", "/upload")
    peer.putheader("Content-Length", str(size))
    peer.endheaders()
    for _ in range(20):
        peer.send(bytes(size // 20))
        time.sleep(0.1)
    print(peer.getresponse().status, flush=True)
    peer.close()
"""


@pytest.fixture(scope="module")
def daemon(world, tmp_path_factory):
    def change(settings):
        settings["hosts"]["allowed"] += ["allowed.test", "git.test", "pypi.test"]
        settings["ceilings"]["hosts"] = {"pypi.test": {"ingress_bytes": 2 * MB}, "git.test": {"requests": 3}}

    bundle, key = site_bundle(tmp_path_factory.mktemp("site"), change=change)
    with running(egress=world.egress(UPLINK), bundle=bundle, key=key, staffed=True) as started:
        yield started


class Tool:
    """Runs calls in one sandbox."""

    def __init__(self, agent, session, sandbox):
        self.agent = agent
        self.session = session
        self.sandbox = sandbox
        self._calls = 0

    async def __call__(self, tool, **arguments):
        while True:
            self._calls += 1
            done = await self.agent.run_call(self.session, self.sandbox, f"call{self._calls}", tool, arguments)
            if "for itself" not in done.outcome.detail:
                return done


@contextlib.asynccontextmanager
async def session(daemon, **limits):
    """A sandbox of a session with these limits."""
    async with daemon.client() as agent:
        session = await agent.create_session("tester", limits=Limits(**limits))
        yield Tool(agent, session, (await agent.create_sandbox(session)).sandbox.sandbox_id)
        await agent.close_session(session)


async def get(tool, size, *, name="allowed", scheme="http"):
    return await tool("Bash", command=GET.format(scheme=scheme, name=name, size=size))


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_download_beyond_the_sessions_budget_is_cut_while_it_is_open(daemon, scheme):
    async with session(daemon, ingress_bytes=20 * MB) as tool:
        assert (await get(tool, 1 * MB, scheme=scheme)).outcome.exit_code == 0
        cut = await get(tool, 200 * MB, scheme=scheme)
        assert cut.outcome.exit_code in (18, 56), cut.stderr
        record = await recorded(daemon, sandbox_id=tool.sandbox, state="cut", rules=["egress.ingress.budget"])
        assert (record["name"], record["layer"]) == ("allowed.test", layer(scheme))
        assert 19 * MB < record["received"] < 100 * MB
        after = await get(tool, 1, scheme=scheme)
        assert after.outcome.exit_code != 0 or "egress.ingress.budget" in after.outcome.detail


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_download_within_it_is_not(daemon, scheme):
    async with session(daemon, ingress_bytes=20 * MB) as tool:
        assert (await get(tool, 16 * MB, scheme=scheme)).outcome.exit_code == 0
        ended = await recorded(daemon, sandbox_id=tool.sandbox, state=("ended", "cut"), layer=layer(scheme))
        assert (ended["rules"], ended["received"] > 16 * MB) == ([], True)  # it may be cut, but as its call has ended


def layer(scheme):
    return {"http": "http", "https": "tls"}[scheme]


async def test_what_one_host_may_give_is_no_other_hosts(daemon):
    async with session(daemon) as tool:
        cut = await get(tool, 100 * MB, name="pypi")
        assert cut.outcome.exit_code in (18, 56), cut.stderr
        record = await recorded(daemon, sandbox_id=tool.sandbox, state="cut", rules=["egress.host.budget"])
        assert record["name"] == "pypi.test"
        assert (await get(tool, 6 * MB)).outcome.exit_code == 0


async def test_requests_to_one_host_are_counted_over_calls_and_helpers(daemon):
    ask = "curl -s -o got -w '%{{http_code}} ' http://{0}.test/hello http://{0}.test/hello"
    async with session(daemon) as tool:
        assert b"200" in (await tool("Bash", command=ask.format("git"))).stdout
        await recorded(daemon, sandbox_id=tool.sandbox, state="allowed", layer="http")
        await asyncio.to_thread(signal_process, daemon.child("helper"))
        seen = b""
        async with asyncio.timeout(30):
            while b"403" not in seen:
                seen = (await tool("Bash", command=ask.format("git"))).stdout
        refused = await recorded(daemon, sandbox_id=tool.sandbox, state="refused", layer="http")
        assert (refused["name"], refused["rules"]) == ("git.test", ["egress.host.budget"])
        assert b"200" in (await tool("Bash", command=ask.format("allowed"))).stdout
        async with session(daemon) as another:
            assert b"200" in (await another("Bash", command=ask.format("git"))).stdout


async def test_an_upload_is_weighed_by_its_own_connection(daemon):
    async with session(daemon) as tool:
        await tool("Write", path="/workspace/put.py", content=PUT)
        command = "curl -sS http://allowed.test/hello; python3 put.py allowed.test "
        small = await tool("Bash", command=f"{command} 700000 700000")
        assert small.stdout.count(b"200") == 2, small.stderr
        large = await tool("Bash", command=f"{command} 4000000")
        assert b"200" not in large.stdout
        record = await recorded(daemon, sandbox_id=tool.sandbox, state="cut", rules=["egress.upload.review"])
        assert record["layer"] == "tls"
