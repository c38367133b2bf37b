"""G30: a candidate judges along in a real daemon. Callers never notice it; the report names every difference."""

import asyncio
import json
from typing import Any

import pytest

from opensafe.errors import Conflict, NotPermitted, OpenSafeError
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from opensafe.policy import archive
from opensafe.policy.manifest import ALLOWED, SIGNATURE, WASM
from tests.harness.policy import compile_bomb, repack


@pytest.fixture
async def shadowed(reviewer, bundles):
    """Starts a candidate by name, and stops the one that runs at the end."""

    async def start(name):
        return await reviewer.start_shadow(bundles[name].read_bytes())

    yield start
    if (await reviewer.get_shadow()).candidate is not None:
        await reviewer.stop_shadow()


async def judged(reviewer, number):
    """The report once the candidate has looked at `number` decisions: it comes after the verdict, never before."""
    async with asyncio.timeout(30):
        while True:
            report = await reviewer.get_shadow()
            if report.candidate.evaluated >= number:
                return report
            await asyncio.sleep(0.01)  # there is nothing to wait on: nobody but this test wants to know


async def test_a_candidate_that_would_block_changes_nothing_and_is_named(agent, reviewer, session, sandbox, shadowed):
    started = await shadowed("stricter")
    assert (started.evaluated, started.started_by) == (0, "reviewer")
    result = await agent.run_call(session, sandbox, "echo", "Bash", {"command": "echo still here"})
    assert (result.outcome.kind, result.stdout) == (OutcomeKind.EXITED, b"still here\n")
    twin = await agent.run_call(session, sandbox, "ls", "Bash", {"command": "ls"})
    assert twin.outcome.kind is OutcomeKind.EXITED

    report = await judged(reviewer, 2)
    assert (report.candidate.differed, report.candidate.same) == (1, 1)
    assert report.candidate.transitions == {"allow>block": 1}
    assert report.candidate.rules == {"default.deny": 1}
    sample = report.samples[-1]
    assert (sample.decision_id, sample.enforced, sample.candidate) == (
        result.verdict.decision_id,
        Action.ALLOW,
        Action.BLOCK,
    )
    assert "echo" in sample.rules[0].reason


async def test_the_same_rules_differ_in_nothing(agent, reviewer, session, sandbox, shadowed):
    await shadowed("same")
    for number, command in enumerate(("echo same", "curl https://evil.example.com", "npm install x")):
        await agent.run_call(session, sandbox, f"same-{number}", "Bash", {"command": command})
    report = await judged(reviewer, 3)
    assert (report.candidate.differed, report.candidate.other_rules, report.candidate.dropped) == (0, 0, 0)
    assert report.samples == ()


async def test_differences_and_the_candidates_life_are_on_record(agent, reviewer, session, sandbox, shadowed):
    started = await shadowed("stricter")
    result = await agent.run_call(session, sandbox, "recorded", "Bash", {"command": "echo on record"})
    await judged(reviewer, 1)
    stopped = await reviewer.stop_shadow()
    assert stopped.differed == 1
    ends: list[dict[str, Any]] = []
    difference: dict[str, Any] = {}
    async with asyncio.timeout(30):
        async for record in reviewer.tail_audit(20, follow=True):
            line = json.loads(record.line)
            if line["kind"] == "candidate":
                ends.append(line)
            if line["kind"] == "shadow" and line["decision_id"] == result.verdict.decision_id:
                difference = line
            if difference and ends[-1]["state"] == "stopped":
                break
    assert (difference["enforced"], difference["action"]) == ("allow", "block")
    assert difference["candidate"]["revision"] == started.revision
    assert [end["state"] for end in ends[-2:]] == ["started", "stopped"]
    assert (ends[-1]["evaluated"], ends[-1]["differed"], ends[-1]["principal"]) == (1, 1, "reviewer")


async def test_one_candidate_at_a_time(reviewer, shadowed):
    await shadowed("same")
    with pytest.raises(Conflict, match="already"):
        await shadowed("stricter")
    await reviewer.stop_shadow()
    with pytest.raises(Conflict, match="no candidate"):
        await reviewer.stop_shadow()


async def test_a_candidate_must_be_signed(reviewer, bundles):
    members = archive.unpack(bundles["same"].read_bytes(), ALLOWED)
    unsigned = archive.pack({name: content for name, content in members.items() if name != SIGNATURE})
    with pytest.raises(OpenSafeError, match="not signed"):
        await reviewer.start_shadow(unsigned)
    with pytest.raises(OpenSafeError):
        await reviewer.start_shadow(b"no bundle")
    assert (await reviewer.get_shadow()).candidate is None


async def test_a_candidate_that_is_a_bomb_ends_its_own_process_and_no_other(daemon, agent, reviewer, session, bundles):
    front = daemon.child("front")
    members = archive.unpack(bundles["same"].read_bytes(), ALLOWED)
    bomb = repack(members | {WASM: compile_bomb()})
    assert len(bomb) < 1 << 20
    starting = asyncio.create_task(reviewer.start_shadow(bomb))
    judged = 0
    while not starting.done():  # calls go on meanwhile
        assert (await agent.decide(session, "Bash", {"command": "ls"})).action is Action.ALLOW
        judged += 1
    assert judged > 1
    with pytest.raises(OpenSafeError, match="ended without a result"):
        await starting
    assert (await reviewer.get_shadow()).candidate is None
    assert daemon.child("front") == front
    assert list((daemon.state / "front").glob("candidate*")) == []
    twin = await reviewer.start_shadow(bundles["same"].read_bytes())
    assert (await reviewer.stop_shadow()).revision == twin.revision


async def test_an_agent_may_neither_start_nor_see_it(agent, bundles):
    with pytest.raises(NotPermitted, match="role"):
        await agent.start_shadow(bundles["same"].read_bytes())
    with pytest.raises(NotPermitted, match="role"):
        await agent.stop_shadow()
    with pytest.raises(NotPermitted, match="role"):
        await agent.get_shadow()
