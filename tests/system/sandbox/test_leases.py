"""Sandboxes end when their lease does, whoever is away; the cause is on record; what is renewed or used stays."""

import asyncio
import contextlib
import json

import pytest

from opensafe import errors
from opensafe.client import Lease, Started
from opensafe.model.outcome import OutcomeKind
from tests.harness.daemon import signal_process

pytestmark = [pytest.mark.root, pytest.mark.runsc]


@pytest.fixture(scope="module")
def settings():
    return {"caps": "sandbox_ttl_s = 600"}


async def until(agent, sandbox_id, *states):
    """The sandbox as it is in one of the states; watching is how a client waits."""
    async with asyncio.timeout(30), contextlib.aclosing(agent.watch_sandboxes()) as changes:
        async for sandbox in changes:
            if sandbox.sandbox_id == sandbox_id and sandbox.state in states:
                return sandbox
    raise AssertionError("the stream ended")


async def test_a_lease_that_ends_deletes_the_sandbox_with_its_cause_on_record(daemon, agent, session):
    short = await agent.create_sandbox(session, lease=Lease(ttl_s=1))
    long = await agent.create_sandbox(session)
    gone = await until(agent, short.sandbox_id, "deleted")
    assert gone.cause == "ttl"
    with pytest.raises(errors.NotFound, match="ttl"):
        await agent.get_sandbox(short.sandbox_id)
    assert (await agent.get_sandbox(long.sandbox_id)).state == "running"  # the twin
    records = [json.loads(line) for line in (daemon.state / "audit/segment-000000.jsonl").read_text().splitlines()]
    of_it = [record for record in records if record["kind"] == "sandbox" and record["sandbox_id"] == short.sandbox_id]
    assert [(record["state"], record["cause"]) for record in of_it] == [
        ("running", "asked"),
        ("deleting", "ttl"),
        ("deleted", ""),
    ]


async def test_a_renewed_lease_goes_on_from_now(agent, session):
    made = await agent.create_sandbox(session, lease=Lease(ttl_s=2))
    renewed = await agent.renew_sandbox(made.sandbox_id, 300)
    assert renewed.expires_unix_ns > made.sandbox.expires_unix_ns + 250 * 10**9
    await asyncio.sleep(2.2)
    assert (await agent.get_sandbox(made.sandbox_id)).state == "running"


async def test_a_lease_is_no_longer_than_the_site_allows(agent, session):
    for ttl_s in (601, 10**6):
        with pytest.raises(errors.LimitExceeded, match=r"caps\.sandbox_ttl_s = 600"):
            await agent.create_sandbox(session, lease=Lease(ttl_s=ttl_s))
    made = (await agent.create_sandbox(session)).sandbox
    assert made.expires_unix_ns - made.created_unix_ns == 600 * 10**9
    with pytest.raises(errors.LimitExceeded):
        await agent.renew_sandbox(made.sandbox_id, 601)
    for ttl_s in (-1, 2**53, 2**62):
        with pytest.raises((errors.InvalidArgument, errors.LimitExceeded)):
            await agent.renew_sandbox(made.sandbox_id, ttl_s)
    assert (await agent.get_sandbox(made.sandbox_id)).expires_unix_ns == made.expires_unix_ns


@pytest.mark.parametrize(("action", "state"), [("pause", "paused"), ("delete", "deleted")])
async def test_an_idle_sandbox_is_paused_or_deleted_as_asked(agent, session, action, state):
    made = await agent.create_sandbox(session, lease=Lease(idle_timeout_s=1, idle_action=action))
    idle = await until(agent, made.sandbox_id, state)
    assert idle.cause == "idle"


async def test_a_running_call_keeps_a_sandbox_from_being_idle(agent, session):
    made = await agent.create_sandbox(session, lease=Lease(idle_timeout_s=1, idle_action="delete"))
    result = await agent.run_call(session, made.sandbox_id, "long", "Bash", {"command": "sleep 2.5"})
    assert result.outcome.kind is OutcomeKind.EXITED
    assert (await agent.get_sandbox(made.sandbox_id)).state == "running"
    assert (await until(agent, made.sandbox_id, "deleted")).cause == "idle"


async def test_a_call_in_a_paused_sandbox_is_refused_with_the_remedy_until_it_is_resumed(agent, session):
    made = await agent.create_sandbox(session, lease=Lease(idle_timeout_s=1, idle_action="pause"))
    await until(agent, made.sandbox_id, "paused")
    with pytest.raises(errors.SandboxPaused, match="opensafe sandbox resume"):
        await agent.run_call(session, made.sandbox_id, "one", "Bash", {"command": "true"})
    assert (await agent.resume_sandbox(made.sandbox_id)).state == "running"
    assert (await agent.run_call(session, made.sandbox_id, "two", "Bash", {"command": "echo on"})).stdout == b"on\n"
    # It was in use until now, so it is paused later again.
    assert (await until(agent, made.sandbox_id, "paused")).cause == "idle"


async def test_r60_pausing_for_idleness_keeps_the_files(agent, session):
    made = await agent.create_sandbox(session, lease=Lease(idle_timeout_s=1, idle_action="pause"))
    command = "head -c 3M /dev/urandom > /workspace/f; sha256sum /workspace/f"
    before = await agent.run_call(session, made.sandbox_id, "w", "Bash", {"command": command})
    await until(agent, made.sandbox_id, "paused")
    await agent.resume_sandbox(made.sandbox_id)
    after = await agent.run_call(session, made.sandbox_id, "r", "Bash", {"command": "sha256sum /workspace/f"})
    assert (after.stdout, len(after.stdout)) == (before.stdout, 79)


async def test_pause_and_resume_are_once_however_often_they_are_asked_for(agent, session):
    made = await agent.create_sandbox(session)
    for state, ask in (("paused", agent.pause_sandbox), ("running", agent.resume_sandbox)):
        for _ in range(3):
            assert (await ask(made.sandbox_id)).state == state
    assert (await agent.run_call(session, made.sandbox_id, "c", "Bash", {"command": "echo on"})).stdout == b"on\n"


async def test_a_deadline_goes_on_in_a_paused_sandbox(agent, session):
    made = await agent.create_sandbox(session)
    running = agent.call(session, made.sandbox_id, "c", "Exec", {"argv": ["sleep", "1000"], "timeout_ms": 1000})
    async for event in running:
        if isinstance(event, Started):
            await agent.pause_sandbox(made.sandbox_id)
    assert event.outcome.kind is OutcomeKind.DEADLINE
    assert (await agent.get_sandbox(made.sandbox_id)).state == "paused"


async def test_leases_and_states_survive_a_restart_of_the_front(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        kept, paused, ending = [
            (await agent.create_sandbox(session, labels={"n": str(n)}, lease=Lease(ttl_s=ttl))).sandbox
            for n, ttl in enumerate((500, 500, 4))
        ]
        await agent.pause_sandbox(paused.sandbox_id)
        signal_process(daemon.child("front"))
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(errors.Unavailable):
                    now = {sandbox.sandbox_id: sandbox for sandbox in await agent.list_sandboxes()}
                    break
                await asyncio.sleep(0.05)
        assert now[kept.sandbox_id] == kept
        assert now[paused.sandbox_id].state == "paused"
        with pytest.raises(errors.SandboxPaused):
            await agent.run_call(session, paused.sandbox_id, "a", "Bash", {"command": "true"})
        await agent.resume_sandbox(paused.sandbox_id)
        ran = await agent.run_call(session, paused.sandbox_id, "b", "Bash", {"command": "echo on"})
        assert ran.stdout == b"on\n"
        assert (await until(agent, ending.sandbox_id, "deleted")).cause == "ttl"


async def test_what_ended_while_the_front_was_away_is_lost_with_its_cause(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        made = (await agent.create_sandbox(session)).sandbox
    assert daemon.stop() == 0
    daemon.start()
    async with daemon.client() as agent:
        with pytest.raises(errors.NotFound, match="daemon stopped"):
            await agent.get_sandbox(made.sandbox_id)
