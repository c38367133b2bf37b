"""The whole daemon: what a client is told of a breach, what is on record, and what a helper's death costs."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import msgspec
import pytest

from opensafe.audit.verify import read_records
from opensafe.model.decision import Action
from opensafe.model.ids import new_id
from opensafe.model.outcome import OutcomeKind
from opensafe.model.records import DecisionRecord
from opensafe.policy.keys import trust
from opensafe.policy.replay import Replayer
from opensafe.proof.private import trusted_key
from tests.harness.daemon import signal_process
from tests.harness.policy import site_bundle
from tests.system.monitor.test_rules import EXECUTES, FATAL


def decisions(daemon, purpose):
    return [record for record in map(json.loads, daemon.audit_lines()) if record.get("purpose") == purpose]


async def eventually(found):
    """What `found` gives once it gives something."""
    async with asyncio.timeout(20):
        while not (result := found()):  # noqa: ASYNC110 - nothing tells when another process has written
            await asyncio.sleep(0.05)
    return result


def replayed(daemon):
    verify = [sys.executable, "-m", "opensafe.cli", "audit", "verify", "--replay", "--json", "--state", daemon.state]
    return json.loads(subprocess.run(verify, capture_output=True, check=True).stdout)["summary"]


async def written(agent, session, sandbox, text):
    await agent.run_call(session, sandbox, new_id("call"), "Write", {"path": "/workspace/x.py", "content": text})


async def run(agent, session, sandbox, call, *words):
    return await agent.run_call(session, sandbox, call, "Exec", {"argv": ["/usr/bin/python3", "x.py", *words]})


async def has_marker(agent, session, sandbox):
    listed = await agent.run_call(session, sandbox, new_id("call"), "List", {"path": "/workspace"})
    return b"marker" in listed.stdout


async def test_67_the_client_and_the_record_say_what_happened(daemon, agent, session, sandbox):
    await written(agent, session, sandbox, FATAL)
    done = await run(agent, session, sandbox, "fatal", "165", "5")
    assert done.outcome.kind is OutcomeKind.VIOLATION
    assert done.outcome.detail.startswith("runtime.syscall.deny: ")
    assert not await has_marker(agent, session, sandbox)
    [record] = await eventually(lambda: decisions(daemon, "runtime"))
    assert (record["call_id"], record["session_id"], record["principal"]) == ("fatal", session, "agent")
    assert (record["sandbox_id"], record["path"], record["result"]["action"]) == (
        sandbox,
        "opensafe/gate/runtime",
        "block",
    )
    assert record["input"]["runtime"] == {"event": "syscall", "syscall": "SIGSYS", "path": "", "announced": False}
    summary = replayed(daemon)
    assert (summary["ok"], summary["findings"]) == (True, 0)
    assert summary["replayed"] == len(decisions(daemon, "runtime")) + daemon.starts() + 1  # and the sandbox


async def test_67_twin_an_honest_call_in_the_same_sandbox_is_told_nothing(agent, session, sandbox):
    await written(agent, session, sandbox, EXECUTES)
    done = await run(agent, session, sandbox, "honest", "0", "/usr/bin/git", "--version")
    assert (done.outcome.kind, done.outcome.exit_code) == (OutcomeKind.EXITED, 0)
    assert await has_marker(agent, session, sandbox)


async def test_a_forged_verdict_on_a_breach_is_named(daemon, agent, session, sandbox):
    await written(agent, session, sandbox, FATAL)
    await run(agent, session, sandbox, "forged", "165", "5")
    await eventually(lambda: [one for one in decisions(daemon, "runtime") if one["call_id"] == "forged"])
    honest = next(
        record
        for _, record in read_records(daemon.state)
        if isinstance(record, DecisionRecord) and record.purpose == "runtime"
    )
    forged = msgspec.structs.replace(honest, result=msgspec.structs.replace(honest.result, action=Action.ALLOW))
    replayer = Replayer(daemon.state, trust((trusted_key().read_text(),)))
    [divergence] = replayer.replay([(1, honest), (2, forged)], lambda: None)
    replayer.close()
    assert (divergence.index, divergence.message) == (2, "the record says allow, policy says block")


async def test_the_helper_is_killed_while_programs_run(own_daemon):
    """They stand still until the next helper reads, and end as they would have."""
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
        text = "import subprocess\nfor i in range(150):\n    subprocess.run(['/bin/true'])\nprint(i)\n"
        await written(agent, session, sandbox, text)
        running = asyncio.create_task(run(agent, session, sandbox, "long"))
        helper = daemon.child("helper")
        await eventually(lambda: "python3" in daemon.guest_processes(sandbox))
        signal_process(helper)
        done = await asyncio.wait_for(running, 60)
        assert (done.outcome.kind, done.stdout) == (OutcomeKind.EXITED, b"149\n")
        assert daemon.child("helper") != helper
        await written(agent, session, sandbox, FATAL)
        done = await run(agent, session, sandbox, "fatal", "165", "30")
        assert done.outcome.kind is OutcomeKind.VIOLATION
    assert decisions(daemon, "runtime")
    assert daemon.stop() == 0


async def test_the_helper_is_stopped_while_a_program_breaks_a_rule(own_daemon):
    """Nobody reads; the program goes on for as long as the silence takes to be noticed, and no further."""
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
        await written(agent, session, sandbox, FATAL)
        helper = daemon.child("helper")
        os.kill(helper, signal.SIGSTOP)
        done = await asyncio.wait_for(run(agent, session, sandbox, "fatal", "165", "30"), 60)
        assert done.outcome.kind is OutcomeKind.VIOLATION
        assert daemon.child("helper") != helper
        assert not await has_marker(agent, session, sandbox)
    assert daemon.stop() == 0


@pytest.fixture(scope="module")
def few_programs(tmp_path_factory):
    """A site's bundle whose calls may execute bash, python3 and true, and nothing else."""

    def change(settings):
        for family in ("bash", "exec"):
            settings["grants"][family]["programs"] = ["/bin/bash", "python3", "/usr/bin/true"]

    return site_bundle(tmp_path_factory.mktemp("bundle"), change=change)


async def test_68_a_sites_grant_of_programs_holds_while_a_call_runs(own_daemon, few_programs):
    bundle, key = few_programs
    daemon = own_daemon(bundle=bundle, key=key)
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
        await written(agent, session, sandbox, EXECUTES)
        done = await run(agent, session, sandbox, "covered", "0", "/bin/true")
        assert (done.outcome.kind, done.outcome.exit_code) == (OutcomeKind.EXITED, 0)
        assert await has_marker(agent, session, sandbox)
        done = await run(agent, session, sandbox, "not-covered", "30", "/usr/bin/git", "--version")
        assert done.outcome.kind is OutcomeKind.VIOLATION
        assert done.outcome.detail.startswith("runtime.exec.unannounced: /usr/bin/git ")
    [record] = await eventually(lambda: decisions(daemon, "runtime"))
    assert record["input"]["runtime"]["path"] == "/usr/bin/git"
    assert daemon.stop() == 0
