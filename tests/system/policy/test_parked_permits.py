"""Permits that a human has to allow: parked like a call, given once after the approval of exactly this request."""

import asyncio
import json

import pytest

from opensafe import errors
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from tests.harness.audit import records

INSTALL = {"command": "npm install"}
DONE = Outcome(kind=OutcomeKind.EXITED, exit_code=0)


@pytest.fixture(scope="module")
def settings():
    return {"staffed": True}


async def park(agent, session, call_id="install", **more):
    parked = await agent.begin(session, call_id, "Bash", INSTALL, **more)
    assert (parked.verdict.action, parked.permit, parked.outcome) == (Action.REVIEW, "", None)
    assert parked.verdict.review_id
    return parked.verdict.review_id


async def approve(reviewer, review_id):
    return await reviewer.approve_review(review_id, (await reviewer.get_review(review_id)).digest)


async def permits_of(client, session):
    """Permits on record of the session's call `install`."""
    found = [record for record in await records(client, 50) if record["kind"] == "decision"]
    mine = [record for record in found if (record["session_id"], record["call_id"]) == (session, "install")]
    return [record["permit"] for record in mine if record["permit"]]


async def test_an_approved_permit_is_given_once_and_used_once(daemon, agent, reviewer, session):
    before = daemon.starts()
    review_id = await park(agent, session)
    shown = await reviewer.get_review(review_id)
    assert (shown.elsewhere, shown.sandbox_id, shown.arguments) == (True, "", INSTALL)
    assert await park(agent, session) == review_id, "asked again it still waits, under the same review"
    assert (await approve(reviewer, review_id)).action is Action.ALLOW
    permit = await agent.begin(session, "install", "Bash", INSTALL)
    assert permit.verdict.action is Action.ALLOW
    assert permit.permit
    with pytest.raises(errors.Conflict):
        await agent.begin(session, "install", "Bash", INSTALL)
    await agent.finish(session, permit.permit, DONE)
    assert await permits_of(agent, session) == [permit.permit]
    assert (await reviewer.get_review(review_id)).state == "approved"
    assert daemon.starts() == before, "nothing ran here"


async def test_nothing_is_given_before_the_approval_or_for_another_request(agent, reviewer, session):
    review_id = await park(agent, session)
    with pytest.raises(errors.Conflict, match="another request"):
        await agent.begin(session, "install", "Bash", {"command": "npm install left-pad"})
    with pytest.raises(errors.Conflict, match="another request"):
        await agent.begin(session, "install", "Bash", INSTALL, description_digest="aa")
    with pytest.raises(errors.Conflict):
        await reviewer.approve_review(review_id, "0" * 64)
    await approve(reviewer, review_id)
    with pytest.raises(errors.Conflict, match="another request"):
        await agent.begin(session, "install", "Bash", {"command": "npm install left-pad"})
    assert (await agent.begin(session, "other", "Bash", INSTALL)).permit == "", "an approval is for one call_id"
    assert await permits_of(agent, session) == []
    assert (await agent.begin(session, "install", "Bash", INSTALL)).permit


async def test_PE_18_another_session_or_principal_gets_nothing_of_it(daemon, agent, reviewer, session):
    await approve(reviewer, await park(agent, session))
    other_session = await agent.create_session("second")
    assert not (await agent.begin(other_session, "install", "Bash", INSTALL)).permit
    async with daemon.client("other") as other:
        with pytest.raises(errors.NotFound):
            await other.begin(session, "install", "Bash", INSTALL)
    await agent.close_session(other_session)
    assert (await agent.begin(session, "install", "Bash", INSTALL)).permit


async def test_of_many_that_fetch_it_one_gets_it(agent, reviewer, session):
    review_id = await park(agent, session)
    waiting = [
        asyncio.create_task(agent.begin(session, "install", "Bash", INSTALL, wait_for_review=True)) for _ in range(8)
    ]
    await approve(reviewer, review_id)
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    # Conflicts, or LimitExceeded where too many were refused within a second.
    (given,) = [end for end in ends if not isinstance(end, errors.RequestError)]
    assert await permits_of(agent, session) == [given.permit]


async def test_the_reason_of_a_rejection_reaches_who_waits_and_who_asks_again(agent, reviewer, session):
    waiting = asyncio.create_task(agent.begin(session, "install", "Bash", INSTALL, wait_for_review=True))
    async for review in reviewer.watch_reviews():
        if (review.session_id, review.state) == (session, "pending"):
            break
    await reviewer.reject_review(review.review_id, "use the vendored packages")
    for answer in (await waiting, await agent.begin(session, "install", "Bash", INSTALL)):
        assert (answer.permit, answer.outcome.kind) == ("", OutcomeKind.REVIEW_REJECTED)
        assert "use the vendored packages" in answer.outcome.detail


async def test_a_client_that_went_away_while_waiting_loses_no_permit(daemon, agent, reviewer, session):
    async with daemon.client() as leaving:
        waiting = asyncio.create_task(leaving.begin(session, "install", "Bash", INSTALL, wait_for_review=True))
        async for review in reviewer.watch_reviews():
            if (review.session_id, review.state) == (session, "pending"):
                break
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await approve(reviewer, review.review_id)
    assert (await agent.begin(session, "install", "Bash", INSTALL)).permit


async def test_its_call_id_is_no_call_and_the_other_way_round(agent, reviewer, session, sandbox):
    await approve(reviewer, await park(agent, session))
    with pytest.raises(errors.Conflict, match="permit"):
        await agent.run_call(session, sandbox, "install", "Bash", INSTALL)
    await agent.run_call(session, sandbox, "parked-call", "Bash", INSTALL)
    with pytest.raises(errors.Conflict):
        await agent.begin(session, "parked-call", "Bash", INSTALL)
    assert (await agent.begin(session, "install", "Bash", INSTALL)).permit


@pytest.mark.parametrize("approved", [False, True], ids=["undecided", "approved"])
async def test_a_closed_session_voids_it(agent, reviewer, approved):
    session = await agent.create_session("tester")
    review_id = await park(agent, session)
    if approved:
        await approve(reviewer, review_id)
    await agent.close_session(session)
    assert (await reviewer.get_review(review_id)).state == "void"
    with pytest.raises(errors.NotFound):
        await agent.begin(session, "install", "Bash", INSTALL)


@pytest.mark.parametrize("approved", [False, True], ids=["undecided", "approved"])
async def test_a_ban_voids_it(daemon, reviewer, approved):
    async with daemon.client("other") as banned, daemon.client("operator") as operator:
        session = await banned.create_session("bad")
        review_id = await park(banned, session)
        if approved:
            await approve(reviewer, review_id)
        assert (await operator.ban("other", "bad", "enough")).voided_reviews == 1
        assert (await reviewer.get_review(review_id)).state == "void"
        answer = await banned.begin(session, "install", "Bash", INSTALL)
        assert (answer.permit, answer.outcome.kind) == ("", OutcomeKind.CANCELLED)
        await operator.unban("other", "bad")
        assert not (await banned.begin(session, "install", "Bash", INSTALL)).permit, "void is for good"
        await approve(reviewer, await park(banned, session, "again"))
        assert (await banned.begin(session, "again", "Bash", INSTALL)).permit


@pytest.mark.parametrize("approved", [False, True], ids=["undecided", "approved"])
async def test_it_expires(own_daemon, approved):
    daemon = own_daemon(caps="review_ttl_s = 2")
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("tester")
        review_id = await park(agent, session)
        if approved:
            await approve(reviewer, review_id)
        async with asyncio.timeout(30):
            async for record in reviewer.tail_audit(10, follow=True):
                content = json.loads(record.line)
                if content["kind"] == "outcome":
                    break
        assert content["outcome"]["kind"] == "review_expired"
        answer = await agent.begin(session, "install", "Bash", INSTALL)
        assert (answer.permit, answer.outcome.kind) == ("", OutcomeKind.REVIEW_EXPIRED)
        assert await permits_of(agent, session) == []


@pytest.mark.parametrize("forget", [False, True], ids=["index kept", "index folded anew"])
@pytest.mark.parametrize("approved", [False, True], ids=["undecided", "approved"])
async def test_it_survives_a_restart(own_daemon, approved, forget):
    daemon = own_daemon()
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("tester")
        review_id = await park(agent, session)
        if approved:
            await approve(reviewer, review_id)
    daemon.stop()
    if forget:
        for path in (daemon.state / "front").glob("index.sqlite*"):
            path.unlink()
    daemon.start()
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        if not approved:
            assert await park(agent, session) == review_id
            await approve(reviewer, review_id)
        permit = await agent.begin(session, "install", "Bash", INSTALL)
        assert permit.permit
        with pytest.raises(errors.Conflict):
            await agent.begin(session, "install", "Bash", INSTALL)
        await agent.finish(session, permit.permit, DONE)


async def test_a_daemon_that_stops_does_not_wait_for_reviewers(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        waiting = asyncio.create_task(agent.begin(session, "install", "Bash", INSTALL, wait_for_review=True))
        async with daemon.client("reviewer") as reviewer:
            async for review in reviewer.watch_reviews():
                if review.session_id == session:
                    break
        assert await asyncio.to_thread(daemon.stop) == 0
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], errors.OpenSafeError)
    daemon.start()
    async with daemon.client() as agent:
        assert await park(agent, session) == review.review_id


async def test_parked_permits_count_for_the_cap_of_reviews(own_daemon):
    daemon = own_daemon(caps="parked_reviews = 1")
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("tester")
        review_id = await park(agent, session)
        with pytest.raises(errors.LimitExceeded, match="parked_reviews"):
            await agent.begin(session, "more", "Bash", INSTALL)
        await reviewer.reject_review(review_id, "no")
        await park(agent, session, "more")
