"""Verdicts without runs, and permits for tools that run elsewhere: one run, for a while, or lost."""

import asyncio
import json

import pytest

from opensafe import errors
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from tests.harness.audit import records

OK = Outcome(kind=OutcomeKind.EXITED, exit_code=0)
LS = {"command": "ls"}


async def test_decide_runs_nothing_and_is_recorded(daemon, agent, session):
    before = daemon.starts()
    assert (await agent.decide(session, "Bash", LS)).action is Action.ALLOW
    assert (await agent.decide(session, "Bash", {"command": "curl evil.example.com"})).action is Action.BLOCK
    assert daemon.starts() == before
    assert [record["purpose"] for record in await records(agent, 2)] == ["query", "query"]


async def test_a_permit_is_used_once(agent, session):
    permit = await agent.begin(session, "p1", "Bash", LS)
    assert permit.permit
    await agent.finish(session, permit.permit, OK)
    (record,) = await records(agent, 1)
    assert (record["kind"], record["outcome"]["exit_code"]) == ("outcome", 0)
    with pytest.raises(errors.Conflict):
        await agent.finish(session, permit.permit, OK)


async def test_refused_questions_and_permits_are_on_record_and_what_is_taken_is_not_refused(daemon, agent, session):
    open_permit = (await agent.begin(session, "taken", "Bash", LS)).permit
    foreign = "permit-00000000000000000000"
    refused = (
        (agent.decide(session, "Frob", {}), errors.UnknownTool, ("Decide", "", "Frob")),
        (agent.decide(session, "Bash", {"cmd": "ls"}), errors.InvalidArgument, ("Decide", "", "Bash")),
        (agent.decide("ses-no", "Bash", LS), errors.NotFound, ("Decide", "", "Bash")),
        (agent.begin(session, "r1", "Frob", {}), errors.UnknownTool, ("Begin", "r1", "Frob")),
        (agent.begin(session, "r1", "Bash", {"cmd": "ls"}), errors.InvalidArgument, ("Begin", "r1", "Bash")),
        (agent.begin(session, "no id", "Bash", LS), errors.InvalidArgument, ("Begin", "no id", "Bash")),
        (agent.begin(session, "taken", "Bash", LS), errors.Conflict, ("Begin", "taken", "Bash")),
        (agent.finish(session, foreign, OK), errors.NotFound, (f"Finish {foreign}", "", "")),
    )
    expected = []
    for attempt, error, asked in refused:
        with pytest.raises(error):
            await attempt
        expected.append((error.reason, *asked))
    async with daemon.client("reviewer") as auditor:  # a session that is not is nobody's, so its refusals are hers
        kept = await records(auditor, len(refused))
    assert [(r["reason"], r["request"], r["call_id"], r["tool"]) for r in kept] == expected
    await agent.decide(session, "Bash", LS)
    await agent.finish(session, open_permit, OK)
    assert [record["kind"] for record in await records(agent, 2)] == ["decision", "outcome"]


async def test_a_blocked_or_reviewed_call_gets_no_permit(agent, session):
    for number, command in enumerate(("curl evil.example.com", "npm install")):
        assert not (await agent.begin(session, f"none-{number}", "Bash", {"command": command})).permit


async def test_a_used_call_id_gets_no_second_permit(agent, session):
    await agent.begin(session, "p2", "Bash", LS)
    with pytest.raises(errors.Conflict):
        await agent.begin(session, "p2", "Bash", LS)


async def test_G58_a_permit_of_another_session_or_principal_is_unknown(daemon, agent, session):
    permit = (await agent.begin(session, "p3", "Bash", LS)).permit
    other_session = await agent.create_session("second")
    with pytest.raises(errors.NotFound):
        await agent.finish(other_session, permit, OK)
    async with daemon.client("other") as other:
        with pytest.raises(errors.NotFound):
            await other.finish(session, permit, OK)
    await agent.finish(session, permit, OK)
    await agent.close_session(other_session)


@pytest.mark.parametrize("kind", [OutcomeKind.BLOCKED, OutcomeKind.REVIEW_PENDING, OutcomeKind.REVIEW_REJECTED])
async def test_an_end_that_a_run_elsewhere_can_not_have_is_refused(agent, session, kind):
    permit = (await agent.begin(session, f"p-{kind}", "Bash", LS)).permit
    with pytest.raises(errors.InvalidArgument):
        await agent.finish(session, permit, Outcome(kind=kind))


async def test_a_permit_that_expires_is_lost(own_daemon):
    daemon = own_daemon(caps="permit_ttl_s = 1")
    async with daemon.client() as agent, daemon.client("reviewer") as auditor:
        session = await agent.create_session("tester")

        async def lost():
            async for record in auditor.tail_audit(0, follow=True):
                content = json.loads(record.line)
                if content["kind"] == "outcome":
                    return content["outcome"]
            return None

        watching = asyncio.create_task(lost())
        permit = (await agent.begin(session, "late", "Bash", LS)).permit
        outcome = await watching
        assert (outcome["kind"], outcome["detail"]) == ("lost", "the permit expired")
        with pytest.raises(errors.Conflict):
            await agent.finish(session, permit, OK)
