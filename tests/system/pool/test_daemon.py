"""The whole daemon with a pool: what clients see, the monitor over claimed sandboxes, and what a crash leaves."""

import asyncio
import json
import shutil
import signal

import pytest

from opensafe import errors
from opensafe.audit.verify import verify_state
from opensafe.client import SandboxSize
from opensafe.model.ids import new_id
from opensafe.model.outcome import OutcomeKind
from tests.harness.daemon import signal_process
from tests.system.gate.test_evidence import rewrite
from tests.system.monitor.test_daemon import decisions, eventually, run, written
from tests.system.monitor.test_rules import EXECUTES, FATAL

POOL = """
[[pool]]
principal = "agent"
ready = 2
warm_up = ["/usr/bin/python3", "-c", "open('/workspace/warmed', 'w')"]
"""


@pytest.fixture(scope="module")
def settings():
    return {"pool": POOL}


async def filled(client):
    async with asyncio.timeout(60):
        while not all(one.ready == one.wanted for one in (await client.status()).pool):  # noqa: ASYNC110 - by polling only
            await asyncio.sleep(0.05)


@pytest.fixture
async def warm(agent, session):
    """A claimed sandbox."""
    await filled(agent)
    made = await agent.create_sandbox(session, require_warm=True)
    assert made.warm
    return made.sandbox_id


async def test_a_claim_is_a_create_that_was_judged_and_says_warm(daemon, agent, session):
    await filled(agent)
    made = await agent.create_sandbox(session, labels={"a": "b"}, require_warm=True)
    assert (made.warm, made.sandbox.state, made.sandbox.labels) == (True, "running", {"a": "b"})
    assert 0 < made.claim_ns < made.create_ns
    [record] = [one for one in decisions(daemon, "sandbox") if one["sandbox_id"] == made.sandbox_id]
    assert record["decision_id"] == made.verdict.decision_id
    done = await agent.run_call(session, made.sandbox_id, new_id("call"), "Bash", {"command": "ls; id -u; pwd"})
    assert done.stdout == b"warmed\n1000\n/workspace\n"


async def test_r66_without_a_cell_of_that_kind_the_error_is_typed(agent, session):
    with pytest.raises(errors.NoWarmSandbox):
        await agent.create_sandbox(session, size=SandboxSize(pids=99), require_warm=True)
    assert not (await agent.create_sandbox(session, size=SandboxSize(pids=99))).warm


async def test_r64_another_principal_neither_gets_nor_sees_them(daemon, agent):
    await filled(agent)
    async with daemon.client("other") as other, daemon.client("reviewer") as auditor:
        assert (await other.status()).pool == ()
        assert [one.principal for one in (await auditor.status()).pool] == ["agent"]
        session = await other.create_session("tester")
        with pytest.raises(errors.NoWarmSandbox):
            await other.create_sandbox(session, require_warm=True)
        await other.close_session(session)
    assert [one.ready for one in (await agent.status()).pool] == [2]


async def test_67_the_monitor_watches_a_claimed_sandbox_under_its_own_id(daemon, agent, session, warm):
    await written(agent, session, warm, FATAL)
    done = await run(agent, session, warm, "fatal", "165", "5")
    assert done.outcome.kind is OutcomeKind.VIOLATION
    [record] = await eventually(lambda: [one for one in decisions(daemon, "runtime") if one["call_id"] == "fatal"])
    assert (record["sandbox_id"], record["input"]["sandbox"]["id"]) == (warm, warm)


async def test_67_twin_an_honest_call_is_told_nothing(agent, session, warm):
    await written(agent, session, warm, EXECUTES)
    done = await run(agent, session, warm, "honest", "0", "/usr/bin/git", "--version")
    assert (done.outcome.kind, done.outcome.exit_code) == (OutcomeKind.EXITED, 0)


async def test_the_next_helper_reads_claimed_sandboxes_and_cells(daemon, agent, session, warm):
    await filled(agent)
    signal_process(daemon.child("helper"), signal.SIGKILL)
    done = await agent.run_call(session, warm, new_id("call"), "Bash", {"command": "git --version >&2; echo on"})
    assert (done.outcome.exit_code, done.stdout) == (0, b"on\n")
    made = await agent.create_sandbox(session, require_warm=True)
    done = await agent.run_call(session, made.sandbox_id, new_id("call"), "Bash", {"command": "git --version"})
    assert done.outcome.exit_code == 0


async def test_r64_a_cell_that_was_handed_out_twice_is_named(daemon, warm, tmp_path):
    copy = tmp_path / "state"
    shutil.copytree(daemon.state, copy)
    assert not verify_state(copy).findings  # the control: so far none was

    def doubled(entries):
        for entry in entries:
            yield entry
            if entry["kind"] == "claim" and entry["sandbox_id"] == warm:
                yield entry

    rewrite(copy / "ledger.jsonl", doubled)
    [finding] = verify_state(copy).findings
    assert finding.kind == "cell_used_twice"
    assert warm in finding.message


async def test_r45_a_killed_daemon_leaves_cells_and_claims_to_its_next_start(own_daemon):
    daemon = own_daemon(pool=POOL)
    async with daemon.client() as agent:
        await filled(agent)
        session = await agent.create_session("tester")
        made = await agent.create_sandbox(session, require_warm=True)
        await filled(agent)
    daemon.kill()
    assert len([one for one in daemon.leftovers() if one.startswith("process")]) > 3  # the control
    daemon.start()
    async with daemon.client() as agent:
        status = await agent.status()
        removed = {line.split()[-1] for line in status.removed_at_start if line.startswith("container")}
        entries = [json.loads(line) for line in daemon.ledger()]
        cells = {entry["sandbox_id"] for entry in entries if entry["kind"] == "pool"}
        assert removed <= cells
        assert len(removed) == 3
        [lost] = await agent.list_sandboxes(session_id=session, states=("lost", "deleting", "deleted"))
        assert lost.sandbox_id == made.sandbox_id
    assert daemon.stop() == 0
