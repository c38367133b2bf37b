"""Ceilings hold at their limit and not one below, per session and principal, at once and across restarts."""

import asyncio

import pytest

from opensafe import errors
from opensafe.client import Limits
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from tests.harness.audit import records
from tests.harness.policy import site_bundle

LS = {"command": "ls"}
DONE = Outcome(kind=OutcomeKind.EXITED, exit_code=0)


@pytest.fixture
async def limited(agent):
    """Makes sessions with limits of their own; closed at the end."""
    made = []

    async def make(**limits):
        made.append(await agent.create_session("tester", limits=Limits(**limits)))
        return made[-1]

    yield make
    for session in made:
        await agent.close_session(session)


async def rules(agent, session, command="ls"):
    """What decides on a call, which nothing executes."""
    verdict = await agent.decide(session, "Bash", {"command": command})
    return {hit.id for hit in verdict.deciding()} if verdict.action is Action.BLOCK else set()


async def test_calls_end_at_the_sessions_own_limit(agent, limited):
    session = await limited(calls=2)
    for number in range(2):
        assert (await agent.begin(session, f"call-{number}", "Bash", LS)).permit
    denied = await agent.begin(session, "call-2", "Bash", LS)
    assert [hit.id for hit in denied.verdict.deciding()] == ["budget.calls.ceiling"]
    assert await rules(agent, await limited()) == set()


async def test_calls_sent_at_once_do_not_share_the_last_one(agent, limited):
    session = await limited(calls=5)
    permits = await asyncio.gather(*(agent.begin(session, f"call-{n}", "Bash", LS) for n in range(20)))
    assert sum(bool(permit.permit) for permit in permits) == 5


async def test_run_time_ends_at_its_limit(agent, limited):
    session = await limited(wall_s=1)
    sandbox = (await agent.create_sandbox(session)).sandbox_id
    await agent.run_call(session, sandbox, "short", "Bash", {"command": "sleep 0.1"})
    assert await rules(agent, session) == set()
    await agent.run_call(session, sandbox, "long", "Bash", {"command": "sleep 1"})
    assert await rules(agent, session) == {"budget.wall.ceiling"}
    result = await agent.run_call(session, sandbox, "late", "Bash", LS)
    assert result.outcome.kind is OutcomeKind.BLOCKED


async def test_a_call_under_way_counts_its_time(agent, limited):
    session = await limited(wall_s=1)
    await agent.begin(session, "elsewhere", "Bash", LS)
    async with asyncio.timeout(30):
        while await rules(agent, session) != {"budget.wall.ceiling"}:  # noqa: ASYNC110 - awaits the daemon's clock
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("kind", ["tokens", "cost_microusd"])
async def test_declared_cost_only_adds_and_ends_at_its_limit(agent, limited, kind):
    session = await limited(**{kind: 100})
    assert getattr(await agent.report_usage(session, **{kind: 99}), kind) == 99
    assert await rules(agent, session) == set()
    assert getattr(await agent.report_usage(session, **{kind: 1}), kind) == 100
    assert await rules(agent, session) == {"budget.cost.ceiling"}
    for wrong in (-1, 0, 10**9 + 1):
        with pytest.raises(errors.InvalidArgument):
            await agent.report_usage(session, **{kind: wrong})
    assert await rules(agent, session) == {"budget.cost.ceiling"}


async def test_a_report_is_on_record_and_for_ones_own_session(daemon, agent, limited):
    session = await limited()
    await agent.report_usage(session, tokens=7)
    (record,) = await records(agent, 1)
    assert (record["kind"], record["usage"]["tokens"]) == ("usage", 7)
    async with daemon.client("other") as other:
        with pytest.raises(errors.NotFound):
            await other.report_usage(session, tokens=7)


async def test_an_outcome_says_what_was_used(agent, limited):
    session = await limited()
    sandbox = (await agent.create_sandbox(session)).sandbox_id
    await agent.run_call(session, sandbox, "out", "Bash", {"command": "sleep 0.05; printf 12345; printf 67 >&2"})
    (record,) = await records(agent, 1)
    assert record["usage"]["output_bytes"] == 7
    assert record["usage"]["wall_us"] >= 50_000


async def test_a_session_can_tighten_and_not_widen(own_daemon, tmp_path):
    def small(settings):
        settings["ceilings"]["session"]["calls"] = 2
        settings["ceilings"]["principal"]["calls"] = 3

    bundle, key = site_bundle(tmp_path, change=small)
    daemon = own_daemon(bundle=bundle, key=key)
    async with daemon.client() as agent, daemon.client("other") as other:
        wide = await agent.create_session("tester", limits=Limits(calls=10**6))
        for number in range(2):
            assert (await agent.begin(wide, f"call-{number}", "Bash", LS)).permit
        assert await rules(agent, wide) == {"budget.calls.ceiling"}
        fresh = await agent.create_session("tester")
        assert (await agent.begin(fresh, "call-0", "Bash", LS)).permit
        assert await rules(agent, fresh) == {"budget.calls.ceiling"}, "the principal's day is used up"
        assert await rules(other, await other.create_session("tester")) == set()


async def test_what_was_used_survives_a_restart_and_a_lost_index(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester", limits=Limits(calls=3, tokens=10))
        permit = await agent.begin(session, "call-0", "Bash", LS)
        await agent.finish(session, permit.permit, DONE)
        await agent.report_usage(session, tokens=9)
    daemon.stop()
    for path in daemon.state.glob("front/index.sqlite*"):
        path.unlink()
    daemon.start()
    async with daemon.client() as agent:
        assert await rules(agent, session) == set()
        assert (await agent.report_usage(session, tokens=1)).tokens == 10
        assert await rules(agent, session) == {"budget.cost.ceiling"}
