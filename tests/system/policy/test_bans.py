"""A ban ends what runs, voids what waits and blocks what comes, of its subject alone, until it is lifted."""

import asyncio

import pytest

from opensafe import errors
from opensafe.client import Decided, Ended, Stdout
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from tests.harness.audit import records

LS = {"command": "ls"}
INSTALL = {"command": "npm install"}
SLEEP = {"command": "echo up; sleep 600"}


@pytest.fixture(scope="module")
def settings():
    return {"staffed": True}


@pytest.fixture
async def operator(daemon):
    async with daemon.client("operator") as client:
        yield client


@pytest.fixture
async def place(agent):
    """A session of the agent `ada`, and its sandbox."""
    session = await agent.create_session("ada")
    yield session, (await agent.create_sandbox(session)).sandbox_id
    await agent.close_session(session)


async def run_until_output(agent, place, call_id):
    """A call under way, and the task that collects its end."""
    up, events = asyncio.Event(), []

    async def follow():
        async for event in agent.call(*place, call_id, "Bash", SLEEP):
            events.append(event)
            if isinstance(event, Stdout):
                up.set()
        return events[-1]

    task, waiting = asyncio.create_task(follow()), asyncio.create_task(up.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    assert not task.done(), task.result()
    return task


async def banned(agent, session):
    verdict = await agent.decide(session, "Bash", LS)
    return "caller.ban.deny" in [hit.id for hit in verdict.deciding()] and verdict.action is Action.BLOCK


@pytest.mark.parametrize("subject", [("agent", "ada"), ("agent", "")], ids=["agent", "principal"])
async def test_a_ban_ends_voids_and_blocks_until_it_is_lifted(
    daemon, agent, operator, place, session, sandbox, subject
):
    running = await run_until_output(agent, place, f"runs-{subject[1]}")
    neighbour = await run_until_output(agent, (session, sandbox), f"neighbour-{subject[1]}")
    parked = await agent.run_call(*place, "waits", "Bash", INSTALL)
    assert parked.verdict.action is Action.REVIEW
    effect = await operator.ban(*subject, "leaks")
    async with asyncio.timeout(1):
        ended = await running
    assert isinstance(ended, Ended)
    assert (ended.outcome.kind, ended.outcome.detail) == (OutcomeKind.CANCELLED, "banned: leaks")
    assert "sleep" not in daemon.guest_processes(place[1])
    assert effect.voided_reviews == 1
    again = await agent.run_call(*place, "waits", "Bash", INSTALL)
    assert (again.outcome.kind, again.outcome.detail) == (OutcomeKind.CANCELLED, "banned: leaks")
    starts = daemon.starts()
    assert await banned(agent, place[0])
    assert (await agent.run_call(*place, "later", "Bash", LS)).outcome.kind is OutcomeKind.BLOCKED
    assert not (await agent.begin(place[0], "elsewhere", "Bash", LS)).permit
    assert daemon.starts() == starts
    if subject[1]:
        assert effect.ended_calls == 1
        assert not await banned(agent, session), "another agent of the same principal"
        assert not neighbour.done()
        neighbour.cancel()  # which ends its call
    else:
        assert effect.ended_calls == 2
        assert await banned(agent, session)
    await asyncio.gather(neighbour, return_exceptions=True)
    await operator.unban(*subject)
    assert (await agent.run_call(*place, "free", "Bash", LS)).outcome.kind is OutcomeKind.EXITED


async def test_bans_are_recorded_and_listed(daemon, agent, operator):
    async with daemon.client("reviewer") as reviewer:
        await operator.ban("other", "", "leaks")
        (ban,) = await reviewer.list_bans()
        assert (ban.principal, ban.agent, ban.decided_by, ban.reason) == ("other", "", "operator", "leaks")
        with pytest.raises(errors.Conflict, match="already"):
            await reviewer.ban("other")
        await reviewer.unban("other")
        with pytest.raises(errors.NotFound):
            await reviewer.unban("other")
        found = [r for r in await records(reviewer, 4) if r["kind"] in ("ban", "refusal")]
        assert [(r["kind"], r.get("state") or r["request"]) for r in found] == [
            ("ban", "banned"),
            ("refusal", "Ban principal other"),
            ("ban", "lifted"),
            ("refusal", "Unban principal other"),
        ]


async def test_who_may_not_ban(daemon, agent, operator):
    for attempt in (agent.ban("other"), agent.unban("other"), agent.list_bans()):
        with pytest.raises(errors.NotPermitted, match="role"):
            await attempt
    with pytest.raises(errors.NotPermitted, match="own principal"):
        await operator.ban("operator")
    with pytest.raises(errors.NotFound, match="no such principal"):
        await operator.ban("nobody")


async def test_a_banned_reviewer_decides_on_nothing(daemon, agent, operator, session, sandbox):
    parked = (await agent.run_call(session, sandbox, "waits", "Bash", INSTALL)).verdict.review_id
    async with daemon.client("reviewer") as reviewer:
        digest = (await reviewer.get_review(parked)).digest
        await operator.ban("reviewer")
        with pytest.raises(errors.NotPermitted, match="banned"):
            await reviewer.approve_review(parked, digest)
        with pytest.raises(errors.NotPermitted):
            await reviewer.unban("reviewer")
        await operator.unban("reviewer")
        assert (await reviewer.approve_review(parked, digest)).action is Action.ALLOW


async def test_a_ban_outlives_the_daemon(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("ada")
        await reviewer.ban("agent", "ada")
    daemon.stop()
    daemon.start()
    async with daemon.client() as agent:
        assert await banned(agent, session)
        assert not await banned(agent, await agent.create_session("grace"))


async def test_a_call_that_waits_for_its_review_is_told(agent, operator, place):
    events = []

    async def wait():
        async for event in agent.call(*place, "waits", "Bash", INSTALL, wait_for_review=True):
            events.append(event)
            if isinstance(event, Decided):
                parked.set()

    parked = asyncio.Event()
    waiting = asyncio.create_task(wait())
    await parked.wait()
    await operator.ban("agent", "ada", "leaks")
    await waiting
    assert events[-1].outcome.kind is OutcomeKind.CANCELLED
    await operator.unban("agent", "ada")
