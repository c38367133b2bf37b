"""The loop behind `RolloutPool.map`: each item is accounted for once, and what was executed is not started again."""

import asyncio
from contextlib import aclosing

import pytest

from opensafe.errors import Denied, SandboxLost
from opensafe.integrations.ray import HostLost, NoHostLeft, RolloutStatus, SentCall
from opensafe.integrations.ray._rollouts import run_all

DONE, FAILED, LOST = RolloutStatus.DONE, RolloutStatus.FAILED, RolloutStatus.LOST


class Held:
    """A claim without a host."""

    host = "here"

    def __init__(self, made):
        self.calls: tuple[SentCall, ...] = ()
        self.released = False
        made.append(self)

    @property
    def untouched(self):
        return all(call.state == "not executed" for call in self.calls)

    def sent(self, state):
        self.calls += (SentCall(call_id=f"c{len(self.calls)}", tool="Bash", state=state),)

    async def release(self):
        self.released = True


@pytest.fixture
def made():
    claims: list[Held] = []
    yield claims
    assert all(claim.released for claim in claims)


def _running(made, rollout, items, *, width=3, restarts=2, told=None, claim=None):
    async def plain(_):
        return Held(made)

    ended = (told if told is not None else []).append
    return run_all(claim or plain, rollout, items, width=width, restarts=restarts, ended=ended)


async def _all(*args, **kwargs):
    outcomes = [outcome async for outcome in _running(*args, **kwargs)]
    return sorted(outcomes, key=lambda outcome: outcome.index)


async def _until_it_raises(outcomes):
    seen = []
    while True:
        try:
            seen.append(await anext(outcomes))
        except Exception as error:  # noqa: BLE001 - it is looked at
            return seen, error


async def test_each_item_has_one_outcome(made):
    async def rollout(held, item):
        if item % 3 == 1:
            raise ValueError(item)
        return item * item

    told: list[str] = []
    outcomes = await _all(made, rollout, range(10), told=told)
    assert [outcome.index for outcome in outcomes] == list(range(10))
    assert [outcome.value for outcome in outcomes] == [0, None, 4, 9, None, 25, 36, None, 64, 81]
    assert [outcome.status for outcome in outcomes] == [FAILED if i % 3 == 1 else DONE for i in range(10)]
    assert sorted(told) == sorted(outcome.status.value for outcome in outcomes)


@pytest.mark.parametrize(
    ("states", "attempts", "status"),
    [
        ([], 3, LOST),
        (["not executed"], 3, LOST),
        (["sent"], 1, LOST),
        (["ended"], 1, LOST),
        (["not executed", "ended"], 1, LOST),
    ],
)
async def test_only_what_executed_nothing_is_started_again(made, states, attempts, status):
    async def rollout(held, item):
        for state in states:
            held.sent(state)
        raise HostLost("gone")

    [outcome] = await _all(made, rollout, ["x"])
    assert (outcome.status, outcome.attempts, len(made)) == (status, attempts, attempts)
    assert [call.state for call in outcome.calls] == states


async def test_one_that_is_started_again_can_be_done(made):
    async def rollout(held, item):
        if len(made) == 1:
            raise SandboxLost("gone")
        held.sent("ended")
        return "there"

    [outcome] = await _all(made, rollout, ["x"])
    assert (outcome.status, outcome.attempts, outcome.value) == (DONE, 2, "there")


async def test_a_denial_is_a_failure_and_not_tried_again(made):
    async def rollout(held, item):
        held.sent("not executed")
        raise Denied("blocked")

    [outcome] = await _all(made, rollout, ["x"])
    assert (outcome.status, outcome.attempts) == (FAILED, 1)
    assert isinstance(outcome.error, Denied)


async def test_no_more_are_taken_than_are_looked_at(made):
    taken = []

    async def items():
        for item in range(1000):
            taken.append(item)
            yield item

    async def rollout(held, item):
        return item

    async with aclosing(_running(made, rollout, items(), width=2)) as outcomes:
        await anext(outcomes)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(taken) <= 1 + 2 + 2 + 1  # looked at, waiting to be, held by a worker each, and one of slack


async def test_where_no_host_is_left_those_taken_are_told_and_the_rest_is_not(made):
    async def none(_):
        raise NoHostLeft("no host")

    async def rollout(held, item):
        raise AssertionError

    seen, error = await _until_it_raises(_running(made, rollout, range(1000), claim=none))
    assert isinstance(error, NoHostLeft)
    assert 1 <= len(seen) <= 3
    assert {outcome.status for outcome in seen} == {LOST}


async def test_items_that_fail_are_raised_once_those_taken_are_told(made):
    def items():
        yield from range(2)
        raise KeyError("items")

    async def rollout(held, item):
        return item

    seen, error = await _until_it_raises(_running(made, rollout, items()))
    assert isinstance(error, KeyError)
    assert sorted(outcome.value for outcome in seen) == [0, 1]


async def test_leaving_early_releases_what_runs(made):
    async def rollout(held, item):
        if item:
            await asyncio.Event().wait()
        return item

    async with aclosing(_running(made, rollout, range(10))) as outcomes:
        assert (await anext(outcomes)).value == 0
    assert len(made) >= 1


async def test_a_rollout_that_cancels_itself_has_failed(made):
    async def rollout(held, item):
        raise asyncio.CancelledError

    [outcome] = await _all(made, rollout, ["x"])
    assert outcome.status is FAILED
