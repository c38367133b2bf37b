"""Runs where no daemon answers: budgets, stops and ends, with the real client and a real checkpoint."""

import pytest
from langchain_core.language_models import FakeListChatModel

from opensafe.errors import Conflict, InvalidArgument, NotFound
from opensafe.planner import Planner
from tests.unit.planner.support import QUICK_LIMITS, call, model

PLACE = ("ses-1", "sb-1")


@pytest.fixture
def opened(client, tmp_path):
    return lambda *turns: Planner.open(client, model(*turns), tmp_path / "runs.sqlite", limits=QUICK_LIMITS)


async def test_a_daemon_that_stays_away_is_asked_so_often_and_the_run_then_fails(opened):
    async with opened({"call": call()}) as planner:
        run_id = await planner.begin("x", sandbox=PLACE)
        steps = [(step.state, step.transition) async for step in planner.steps(run_id)]
        end = await planner.end(run_id)
    again = [("gate", "failed"), ("retry", "send_again")]
    assert steps == [("plan", "call"), *again, *again, ("gate", "failed"), ("retry", "stop"), ("abort", "end")]
    assert end.kind == "failed"
    assert "given up after 3 failures" in end.text


async def test_a_run_that_ended_is_not_gone_on_with(opened):
    async with opened({"answer": "Done."}) as planner:
        run_id = await planner.begin("x", sandbox=PLACE)
        first = await planner.resume(run_id)
    async with opened({"call": call()}) as planner:
        assert [step async for step in planner.steps(run_id)] == []
        assert await planner.resume(run_id) == first
        assert (first.kind, first.text) == ("done", "Done.")


async def test_a_stop_ends_a_run_from_whatever_it_waits_for(opened):
    async with opened({"call": call()}) as planner:
        run_id = await planner.begin("x", sandbox=PLACE)
        async for step in planner.steps(run_id):
            if step.transition == "failed":
                planner.stop("enough")
        end = await planner.end(run_id)
    assert (end.kind, end.text) == ("stopped", "enough")


async def test_a_run_left_early_is_gone_on_with(opened):
    async with opened({"call": call(command="a")}) as planner:
        run_id = await planner.begin("x", sandbox=PLACE)
        assert (await anext(planner.steps(run_id))).state == "plan"
        before = await planner.state(run_id)
        with pytest.raises(Conflict, match="has not ended"):
            await planner.end(run_id)
    async with opened({"call": call(command="b")}) as planner:
        step = await anext(planner.steps(run_id))
        after = await planner.state(run_id)
    assert step.state == "gate"
    assert before["queue"][0]["call_id"] == after["queue"][0]["call_id"]
    assert after["queue"][0]["arguments"] == {"command": "a"}  # what was planned is what is sent


async def test_ids_are_of_one_run(opened):
    async with opened({"answer": ""}) as planner:
        await planner.begin("x", run_id="mine", sandbox=PLACE)
        with pytest.raises(Conflict, match="a run of that id"):
            await planner.begin("y", run_id="mine", sandbox=PLACE)
        with pytest.raises(NotFound):
            await planner.resume("other")


async def test_a_model_without_tools_is_refused(client, tmp_path):
    with pytest.raises(InvalidArgument, match="can't call tools"):
        async with Planner.open(client, FakeListChatModel(responses=["x"]), tmp_path / "runs.sqlite"):
            pytest.fail("it was taken")
