"""Parked calls: run once after an approval of exactly them, never otherwise. G28, G29, G58, B5, PE-18."""

import asyncio

import pytest

from opensafe import errors
from opensafe.client import Decided, Ended, Stdout
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from tests.harness.audit import records
from tests.harness.daemon import signal_process

# npm is not in the image: the marker is what shows that the line was run.
INSTALL = {"command": "npm install; echo ran >> runs.txt; cat runs.txt"}


async def park(agent, session, sandbox, call_id="install"):
    result = await agent.run_call(session, sandbox, call_id, "Bash", INSTALL)
    assert result.verdict.action is Action.REVIEW
    assert result.outcome.kind is OutcomeKind.REVIEW_PENDING
    return result.verdict.review_id


async def digest_of(reviewer, review_id):
    return next(row.digest for row in await reviewer.list_reviews() if row.review_id == review_id)


async def test_a_parked_call_is_listed_and_not_executed(agent, reviewer, session, sandbox, daemon):
    before = daemon.starts()
    review_id = await park(agent, session, sandbox)
    rows = {row.review_id: row for row in await reviewer.list_reviews()}
    assert rows[review_id].tool == "Bash"
    assert daemon.starts() == before


@pytest.mark.parametrize(("stdin", "streamed"), [(b"data", True), (None, False)], ids=["streamed", "closed"])
async def test_t11_a_reviewer_is_told_of_standard_input_that_the_digest_does_not_cover(
    agent, reviewer, session, sandbox, stdin, streamed
):
    result = await agent.run_call(session, sandbox, f"fed-{streamed}", "Bash", INSTALL, stdin=stdin)
    review_id = result.verdict.review_id
    assert (await reviewer.get_review(review_id)).stdin is streamed
    [decision] = [record for record in await records(agent, 20) if record.get("review_id") == review_id]
    assert decision["input"]["call"]["stdin"] is streamed


async def test_an_approved_call_runs_once(agent, reviewer, session, sandbox, daemon):
    before = daemon.starts()
    review_id = await park(agent, session, sandbox)
    digest = await digest_of(reviewer, review_id)
    assert (await reviewer.approve_review(review_id, digest)).action is Action.ALLOW
    result = await agent.run_call(session, sandbox, "install", "Bash", INSTALL)
    assert result.outcome.kind is OutcomeKind.EXITED
    assert result.stdout == b"ran\n"
    with pytest.raises(errors.Conflict):
        await reviewer.approve_review(review_id, digest)
    assert daemon.starts() == before + 1


async def test_a_client_that_waits_gets_the_approved_run(agent, reviewer, session, sandbox):
    events = []

    async def wait():
        async for event in agent.call(session, sandbox, "wait", "Bash", INSTALL, wait_for_review=True):
            events.append(event)
            if isinstance(event, Decided):
                decided.set()

    decided = asyncio.Event()
    waiting = asyncio.create_task(wait())
    await decided.wait()
    review_id = events[0].verdict.review_id
    await reviewer.approve_review(review_id, await digest_of(reviewer, review_id))
    await waiting
    verdicts = [event.verdict.action for event in events if isinstance(event, Decided)]
    assert verdicts == [Action.REVIEW, Action.ALLOW]
    assert b"".join(event.data for event in events if isinstance(event, Stdout)) == b"ran\n"
    assert isinstance(events[-1], Ended)


async def test_an_approval_does_not_cover_another_call(agent, reviewer, session, sandbox):
    review_id = await park(agent, session, sandbox)
    await reviewer.approve_review(review_id, await digest_of(reviewer, review_id))
    other = await agent.run_call(session, sandbox, "install-2", "Bash", {"command": INSTALL["command"] + " "})
    assert other.verdict.action is Action.REVIEW


async def test_an_approval_of_another_digest_is_refused(agent, reviewer, session, sandbox, daemon):
    before = daemon.starts()
    review_id = await park(agent, session, sandbox)
    with pytest.raises(errors.Conflict, match="another request"):
        await reviewer.approve_review(review_id, "0" * 64)
    assert daemon.starts() == before


async def test_nobody_without_the_role_decides(agent, session, sandbox):
    review_id = await park(agent, session, sandbox)
    with pytest.raises(errors.NotPermitted, match="role"):
        await agent.approve_review(review_id, "0" * 64)
    with pytest.raises(errors.NotPermitted, match="role"):
        await agent.reject_review(review_id, "no")


async def test_nobody_decides_on_a_call_of_their_own(reviewer, daemon):
    session = await reviewer.create_session("tester")
    try:
        sandbox = (await reviewer.create_sandbox(session)).sandbox.sandbox_id
        result = await reviewer.run_call(session, sandbox, "mine", "Bash", INSTALL)
        if result.verdict.action is Action.REVIEW:
            with pytest.raises(errors.NotPermitted, match="their own"):
                await reviewer.approve_review(
                    result.verdict.review_id, await digest_of(reviewer, result.verdict.review_id)
                )
    except errors.Denied:
        pass  # the role may not run tools at all, which comes to the same
    finally:
        await reviewer.close_session(session)


async def test_the_reason_of_a_rejection_reaches_the_agent(agent, reviewer, session, sandbox, daemon):
    before = daemon.starts()
    review_id = await park(agent, session, sandbox)
    await reviewer.reject_review(review_id, "use the vendored packages")
    result = await agent.run_call(session, sandbox, "install", "Bash", INSTALL)
    assert result.outcome.kind is OutcomeKind.REVIEW_REJECTED
    assert "use the vendored packages" in result.outcome.detail
    with pytest.raises(errors.Conflict):
        await reviewer.approve_review(review_id, "0" * 64)
    assert daemon.starts() == before


async def test_a_closed_session_voids_what_it_parked(daemon, agent, reviewer):
    session = await agent.create_session("tester")
    sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
    review_id = await park(agent, session, sandbox)
    await agent.close_session(session)
    assert (await reviewer.get_review(review_id)).state == "void"
    with pytest.raises(errors.Conflict):
        await reviewer.approve_review(review_id, "0" * 64)


async def test_a_large_call_is_shown_whole_and_listed_short(agent, reviewer, session, sandbox):
    arguments = {"command": f"npm install # {'x' * 20_000}"}
    result = await agent.run_call(session, sandbox, "large", "Bash", arguments)
    review_id = result.verdict.review_id
    assert (await reviewer.get_review(review_id)).arguments == arguments
    (listed,) = [row for row in await reviewer.list_reviews() if row.review_id == review_id]
    assert listed.arguments is None


async def test_a_review_expires(own_daemon):
    daemon = own_daemon(caps="review_ttl_s = 1")
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
        events = [e async for e in agent.call(session, sandbox, "late", "Bash", INSTALL, wait_for_review=True)]
        assert events[-1].outcome.kind is OutcomeKind.REVIEW_EXPIRED
        with pytest.raises(errors.Conflict):
            await reviewer.approve_review(events[0].verdict.review_id, "0" * 64)
    assert daemon.starts() == 0


async def test_a_parked_call_survives_a_kill_of_the_front(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
        review_id = await park(agent, session, sandbox)
    signal_process(daemon.child("front"))
    async with daemon.client("reviewer") as reviewer:
        async with asyncio.timeout(30):
            while True:
                try:
                    rows = await reviewer.list_reviews()
                    break
                except errors.Unavailable:
                    await asyncio.sleep(0.2)
        assert [row.review_id for row in rows] == [review_id]
        assert daemon.starts() == 0
        assert (await reviewer.approve_review(review_id, rows[0].digest)).action is Action.ALLOW
    async with daemon.client() as agent:
        result = await agent.run_call(session, sandbox, "install", "Bash", INSTALL)
        assert result.stdout == b"ran\n"
    assert daemon.starts() == 1
