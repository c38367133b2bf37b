"""Names that a session keeps (`[egress] grants = "session"`), with the real daemon; the default as a twin."""

import asyncio
import contextlib

import pytest
import pytest_asyncio

from opensafe.audit.verify import verify_state
from opensafe.client import Stdout
from opensafe.errors import OpenSafeError
from opensafe.model.outcome import OutcomeKind
from tests.harness.daemon import running, signal_process
from tests.harness.policy import site_bundle
from tests.harness.way_out import recorded, recorded_all

#: The world is read by a task of this loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")

#: A /30 that no other test's daemon has, each.
UPLINKS = {"session": "10.203.228.0/30", "call": "10.203.229.0/30"}
HELLO = b"hello from the world\n"
GRANT = "curl -sS -m 10 http://allowed.test/hello"
#: Fetches from a host that its call does not name.
FETCH = """
import sys, urllib.request
host = ".".join(sys.argv[1:])
print(urllib.request.urlopen(f"http://{host}/hello", timeout=10).read().decode(), end="")
"""
UNNAMED, NEVER = "python3 fetch.py allowed test", "python3 fetch.py git test"


@pytest.fixture(scope="module")
def daemons(world, tmp_path_factory):
    def change(settings):
        settings["hosts"]["allowed"] += ["allowed.test", "git.test", "pypi.test", "alias.test"]
        settings["paths"]["sensitive"] += ["/workspace/customers/"]

    bundle, key = site_bundle(tmp_path_factory.mktemp("site"), change=change)
    with contextlib.ExitStack() as stack:
        started = {}
        for grants, uplink in UPLINKS.items():
            egress = f'{world.egress(uplink)}grants = "{grants}"\nsession_names = 2'
            started[grants] = stack.enter_context(running(egress=egress, bundle=bundle, key=key, staffed=True))
        yield started


@pytest.fixture(scope="module")
def daemon(daemons):
    return daemons["session"]


class Place:
    """A session with one sandbox, in which the program stands that fetches."""

    def __init__(self, daemon, agent, session, sandbox):
        self.daemon = daemon
        self.agent = agent
        self.session = session
        self.sandbox = sandbox
        self._calls = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, daemon):
        async with daemon.client() as agent:
            session = await agent.create_session("tester")
            place = cls(daemon, agent, session, (await agent.create_sandbox(session)).sandbox.sandbox_id)
            await place.tool("Write", path="/workspace/fetch.py", content=FETCH)
            yield place
            with contextlib.suppress(OpenSafeError):  # it was closed
                await agent.close_session(session)

    async def tool(self, tool, **arguments):
        self._calls += 1
        return await self.agent.run_call(self.session, self.sandbox, f"call{self._calls}", tool, arguments)

    async def run(self, command):
        return await self.tool("Bash", command=command)

    @contextlib.asynccontextmanager
    async def beside(self, command):
        """A call that runs meanwhile and has printed something."""
        call = self.agent.call(self.session, self.sandbox, "beside", "Bash", {"command": command})
        try:
            async for event in call:
                if isinstance(event, Stdout):
                    break
            yield
        finally:
            await call.aclose()


@pytest_asyncio.fixture(loop_scope="module")
async def place(daemon):
    async with Place.open(daemon) as opened:
        yield opened


async def test_a_later_call_reaches_what_an_earlier_one_was_granted_and_nothing_else(place, world):
    assert (await place.run(UNNAMED)).stdout == b"", "nothing is granted yet"
    assert (await place.run(GRANT)).stdout == HELLO
    before = len(world.log)
    assert (await place.run(UNNAMED)).stdout == HELLO
    never = await place.run(NEVER)
    assert b"Name or service not known" in never.stderr
    assert not any("git.test" in str(event) for event in world.log[before:])


async def test_where_a_grant_is_the_calls_a_later_one_does_not(daemons):
    async with Place.open(daemons["call"]) as place:
        assert (await place.run(GRANT)).stdout == HELLO
        assert b"Name or service not known" in (await place.run(UNNAMED)).stderr


async def test_a_connection_is_on_record_under_the_call_that_was_granted_its_name_last(daemon, place):
    await place.run(GRANT)
    await place.run(GRANT)
    await place.run(UNNAMED)
    await place.run(UNNAMED)
    found = await recorded_all(
        daemon, lambda found: len(found) >= 4, sandbox_id=place.sandbox, layer="http", state="allowed"
    )
    assert [one["call_id"] for one in found] == ["call2", "call3", "call3", "call3"]


async def test_programs_live_side_by_side_and_share_what_the_session_has(place):
    async with place.beside(f"{GRANT}; sleep 60"):
        assert (await place.run("echo alive")).stdout == b"alive\n"
        assert (await place.run(UNNAMED)).stdout == HELLO
        assert (await place.run("curl -sS -m 10 http://git.test/hello")).stdout == HELLO
        assert (await place.run(NEVER)).stdout == HELLO, "granted beside, to be used beside"


async def test_another_sessions_call_is_not_started_in_this_ones_sandbox(place):
    await place.run(GRANT)
    other = await place.agent.create_session("other")
    for command in (GRANT, "echo hello"):
        refused = await place.agent.run_call(other, place.sandbox, f"c{len(command)}", "Bash", {"command": command})
        assert refused.outcome.kind is OutcomeKind.NOT_STARTED
        assert "session that made it" in refused.outcome.detail
    await place.agent.close_session(other)


async def test_a_session_has_so_many_names(place):
    for name in ("allowed", "git", "allowed"):
        assert (await place.run(f"curl -sS -m 10 http://{name}.test/hello")).stdout == HELLO
    refused = await place.run("curl -sS -m 10 http://pypi.test/hello")
    assert refused.outcome.kind is OutcomeKind.NOT_STARTED
    assert "session_names = 2" in refused.outcome.detail
    assert b"Name or service not known" in (await place.run("python3 fetch.py pypi test")).stderr


async def test_what_a_later_call_reads_weighs_on_what_an_earlier_one_was_granted(place):
    await place.run("mkdir customers; echo secret > customers/list")
    await place.run(GRANT)
    assert (await place.run(UNNAMED)).stdout == HELLO
    read = await place.run(f"cat customers/list; {UNNAMED}")
    assert read.stdout == b"secret\n", read.outcome
    assert (await place.run(UNNAMED)).stdout == b""
    refused = await recorded(place.daemon, sandbox_id=place.sandbox, state="refused", rules=["egress.taint.review"])
    assert refused["name"] == "allowed.test"


async def test_after_the_session_is_closed_nothing_is_left(daemon, place):
    await place.run(GRANT)
    await place.agent.close_session(place.session)
    async with Place.open(daemon) as later:
        assert b"Name or service not known" in (await later.run(UNNAMED)).stderr


async def test_a_helper_that_starts_anew_knows_what_was_granted_and_no_more(daemon, place):
    await place.run(GRANT)
    await asyncio.to_thread(signal_process, daemon.child("helper"))
    assert await again(place) == HELLO
    assert b"Name or service not known" in (await place.run(NEVER)).stderr
    async with place.beside(f"{GRANT}; sleep 60"):
        await asyncio.to_thread(signal_process, daemon.child("helper"))
        assert await again(place) == HELLO
        assert b"Name or service not known" in (await place.run(NEVER)).stderr


async def again(place):
    """What is fetched once there is a helper again."""
    async with asyncio.timeout(30):
        while not (fetched := (await place.run(UNNAMED)).stdout):
            pass
    return fetched


async def test_all_that_was_let_out_was_granted_on_record(daemon, place):
    await place.run(GRANT)
    await place.run(UNNAMED)
    await recorded(daemon, sandbox_id=place.sandbox, layer="http", state=("ended", "cut"))
    report = await asyncio.to_thread(verify_state, daemon.state)
    assert not [one for one in report.findings if one.kind == "connection_without_grant"]
    assert report.decisions > 0
