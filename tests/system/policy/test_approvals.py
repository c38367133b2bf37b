"""Who must approve, what an approval no longer covers, and what is on record of those that were refused. G28, G29,
G58, B5, PE-18."""

import asyncio

import pytest

from opensafe import errors
from opensafe.client import Stdout
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from tests.harness.audit import records

# npm is not in the image: the marker is what shows that the line was run.
INSTALL = {"command": "npm install; echo ran"}


@pytest.fixture(scope="module")
def settings():
    return {"caps": "approvals_needed = 2", "staffed": True}


@pytest.fixture
async def second(daemon):
    async with daemon.client("second") as client:
        yield client


async def park(agent, session, sandbox, call_id="install"):
    result = await agent.run_call(session, sandbox, call_id, "Bash", INSTALL)
    assert result.outcome.kind is OutcomeKind.REVIEW_PENDING
    return result.verdict.review_id


async def test_two_different_reviewers_must_approve(daemon, agent, reviewer, second, session, sandbox):
    before = daemon.starts()
    review = await park(agent, session, sandbox)
    shown = await reviewer.get_review(review)
    assert (shown.approvals_needed, shown.seconded_by) == (2, "")
    assert await reviewer.approve_review(review, shown.digest) is None
    shown = await second.get_review(review)
    assert (shown.state, shown.seconded_by) == ("pending", "reviewer")
    with pytest.raises(errors.Conflict, match="another reviewer"):
        await reviewer.approve_review(review, shown.digest)
    assert daemon.starts() == before
    assert (await second.approve_review(review, shown.digest)).action is Action.ALLOW
    result = await agent.run_call(session, sandbox, "install", "Bash", INSTALL)
    assert result.stdout == b"ran\n"
    assert daemon.starts() == before + 1
    with pytest.raises(errors.Conflict):
        await second.approve_review(review, shown.digest)


async def test_one_of_two_can_reject(agent, reviewer, second, session, sandbox):
    review = await park(agent, session, sandbox)
    assert await reviewer.approve_review(review, (await reviewer.get_review(review)).digest) is None
    await second.reject_review(review, "not today")
    result = await agent.run_call(session, sandbox, "install", "Bash", INSTALL)
    assert result.outcome.kind is OutcomeKind.REVIEW_REJECTED
    assert "not today" in result.outcome.detail


async def test_every_refused_decision_is_on_record_and_starts_nothing(
    daemon, agent, reviewer, second, session, sandbox
):
    before = daemon.starts()
    review = await park(agent, session, sandbox)
    digest = (await reviewer.get_review(review)).digest
    expected = []

    async def refused(attempt, error, by, reason, request=f"ApproveReview {review}"):
        with pytest.raises(error):
            await attempt
        expected.append((by, reason, request))

    await refused(agent.approve_review(review, digest), errors.NotPermitted, "agent", "NOT_PERMITTED")
    await refused(reviewer.approve_review(review, "0" * 64), errors.Conflict, "reviewer", "CONFLICT")
    await reviewer.approve_review(review, digest)
    await refused(reviewer.approve_review(review, digest), errors.Conflict, "reviewer", "CONFLICT")
    unknown = f"rev-{'0' * 20}"
    await refused(
        reviewer.approve_review(unknown, digest), errors.NotFound, "reviewer", "NOT_FOUND", f"ApproveReview {unknown}"
    )
    await second.reject_review(review, "no")
    await refused(second.approve_review(review, digest), errors.Conflict, "second", "CONFLICT")
    await refused(second.reject_review(review, "no"), errors.Conflict, "second", "CONFLICT", f"RejectReview {review}")
    kept = [record for record in await records(reviewer, 20) if record["kind"] == "refusal"]
    assert [(r["principal"], r["reason"], r["request"]) for r in kept][-len(expected) :] == expected
    assert daemon.starts() == before


async def test_PE_18_an_approval_does_not_reach_another_session(daemon, agent, reviewer, second, session, sandbox):
    review = await park(agent, session, sandbox)
    other = await agent.create_session("tester")
    digest = (await reviewer.get_review(review)).digest
    await reviewer.approve_review(review, digest)
    await second.approve_review(review, digest)
    again = await agent.run_call(other, sandbox, "install", "Bash", INSTALL)
    assert again.outcome.kind is OutcomeKind.REVIEW_PENDING
    assert again.verdict.review_id != review
    await agent.close_session(other)


async def test_a_review_shows_what_ran_in_its_workspace_since(agent, reviewer, second, session, sandbox):
    review = await park(agent, session, sandbox)
    await agent.run_call(session, sandbox, "look", "Bash", {"command": "ls"})
    shown = await reviewer.get_review(review)
    assert (shown.workspace_changes, shown.taints) == (0, ())
    await agent.run_call(session, sandbox, "write", "Bash", {"command": "echo '{}' > package.json"})
    running = agent.call(session, sandbox, "writes", "Bash", {"command": "echo up > up; echo up; sleep 600"})
    async for event in running:
        if isinstance(event, Stdout):
            break
    assert (await reviewer.get_review(review)).workspace_changes == 2
    await running.aclose()
    for client in (reviewer, second):
        await client.approve_review(review, shown.digest)
    await agent.run_call(session, sandbox, "install", "Bash", INSTALL)
    assert (await reviewer.get_review(review)).taints == ("workspace.changed",)
    decision = [r for r in await records(reviewer, 10) if r["kind"] == "decision"][-1]
    assert decision["input"]["session"]["taints"] == ["workspace.changed"], "policy is told of it"


async def test_watching_shows_what_waits_and_what_becomes_of_it(agent, reviewer, second, session, sandbox):
    first = await park(agent, session, sandbox, "one")
    seen: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()

    async def watch():
        async for review in second.watch_reviews():
            await seen.put((review.review_id, review.state, review.seconded_by))

    watching = asyncio.create_task(watch())
    async with asyncio.timeout(30):
        while await seen.get() != (first, "pending", ""):  # others may still wait
            pass
        other = await park(agent, session, sandbox, "two")
        assert await seen.get() == (other, "pending", "")
        await reviewer.approve_review(first, (await reviewer.get_review(first)).digest)
        assert await seen.get() == (first, "pending", "reviewer")
        await reviewer.reject_review(other, "no")
        assert await seen.get() == (other, "rejected", "")
        await second.reject_review(first, "no")
        assert await seen.get() == (first, "rejected", "reviewer")
    watching.cancel()


async def test_only_grave_calls_need_two_where_it_is_so_configured(own_daemon):
    daemon = own_daemon(caps="approvals_needed_high = 2")
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox_id
        review = await park(agent, session, sandbox)
        assert (await reviewer.get_review(review)).approvals_needed == 1
        for number in range(20):
            await agent.begin(session, f"probe-{number}", "Bash", {"command": "sudo ls"})
        review = await park(agent, session, sandbox, "in-quarantine")
        shown = await reviewer.get_review(review)
        assert "session.denials.quarantine" in [hit.id for hit in shown.rules]
        assert shown.approvals_needed == 2
