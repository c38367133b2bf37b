"""What a model answers becomes calls with ids, bounded and plain, before anything is sent."""

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from opensafe.planner import Limits
from opensafe.planner.faults import ModelError
from opensafe.planner.planning import plan
from opensafe.planner.scripted import Wanted
from tests.unit.planner.support import QUICK_LIMITS, call, model, run_state


async def planned(door, *turns, limits=QUICK_LIMITS, **state):
    return await plan(run_state(**state), door(model(*turns), limits))


async def test_a_call_gets_its_id_from_the_run_and_goes_to_the_gate(door):
    update = await planned(door, {"call": call(command="ls")}, made=3)
    assert update["transition"] == "call"
    assert update["queue"] == [
        {"call_id": "run-1.4", "answers": "turn0-0", "tool": "Bash", "arguments": {"command": "ls"}, "error": ""}
    ]
    assert update["made"] == 4
    assert [message["id"] for message in update["messages"][0].tool_calls] == ["turn0-0"]


async def test_asked_twice_the_same_id_is_given(door):
    """A plan that was killed before its checkpoint had sent nothing under the id."""
    first, second = [await planned(door, {"call": call(command="ls")}) for _ in range(2)]
    assert first["queue"] == second["queue"]


async def test_an_answer_without_a_call_ends_the_run(door):
    update = await planned(door, {"answer": "Done."})
    assert update["transition"] == "answer"
    assert update["end"] == {"kind": "done", "text": "Done."}


async def test_arguments_that_are_no_json_are_answered_and_not_sent(door):
    update = await planned(door, {"call": Wanted("Bash", '{"command": ')})
    assert update["transition"] == "malformed"
    assert "no JSON object" in update["queue"][0]["error"]
    (entry,) = update["messages"][0].tool_calls  # providers refuse an answer to a call that is not there
    assert entry["id"] == update["queue"][0]["answers"]


async def test_ten_megabytes_of_arguments_reach_neither_the_queue_nor_the_conversation(door):
    update = await planned(door, {"call": call("Write", path="x", content="x" * 10_000_000)})
    assert update["transition"] == "malformed"
    assert "limit 1048576" in update["queue"][0]["error"]
    assert len(str(update)) < 10_000


async def test_more_calls_at_once_than_may_be_are_answered_unsent(door):
    update = await planned(door, {"calls": [call()] * 3}, limits=Limits(calls_per_turn=2))
    assert [bool(one["error"]) for one in update["queue"]] == [False, False, True]
    assert update["transition"] == "call"


@pytest.mark.parametrize(
    ("limits", "state", "kind"),
    [
        (Limits(turns=3), {"turns": 3}, "budget"),
        (Limits(calls=3), {"made": 3}, "budget"),
        (Limits(repeats=1), {}, "loop"),
    ],
)
async def test_a_budget_that_is_used_up_ends_the_run(door, limits, state, kind):
    update = await planned(door, {"call": call()}, limits=limits, **state)
    assert (update["transition"], update["end"]["kind"]) == ("stop", kind)


async def test_equal_requests_in_a_row_are_counted_and_another_one_begins_anew(door):
    first = await planned(door, {"call": call(command="a")})
    again = await planned(
        door, {"call": call(command="a")}, last_request=first["last_request"], repeats=first["repeats"]
    )
    other = await planned(door, {"call": call(command="b")}, last_request=again["last_request"], repeats=2)
    assert [update["repeats"] for update in (first, again, other)] == [1, 2, 1]


class Odd(BaseChatModel):
    """Gives one message, or raises."""

    gives: Any

    @property
    def _llm_type(self):
        return "odd"

    def _generate(self, messages, stop=None, run_manager=None, **_):
        if isinstance(self.gives, Exception):
            raise self.gives
        return ChatResult(generations=[ChatGeneration(message=self.gives)])


async def test_calls_without_ids_or_with_one_id_twice_get_ours(door):
    entries = [{"name": "Bash", "args": {"command": "a"}, "id": known} for known in ("same", "same", None)]
    update = await plan(run_state(), door(Odd(gives=AIMessage("", tool_calls=entries))))
    assert [one["answers"] for one in update["queue"]] == ["run-1.1", "run-1.2", "run-1.3"]
    assert [one["id"] for one in update["messages"][0].tool_calls] == ["run-1.1", "run-1.2", "run-1.3"]


class RateLimitError(Exception):
    status_code = 429


@pytest.mark.parametrize(
    ("error", "passing"),
    [(ConnectionError("gone"), True), (TimeoutError(), True), (RateLimitError(), True), (ValueError("key"), False)],
)
async def test_what_a_provider_raises_may_pass_or_not(door, error, passing):
    with pytest.raises(ModelError, match=type(error).__name__) as raised:
        await plan(run_state(), door(Odd(gives=error)))
    assert raised.value.passing is passing


class Slow(Odd):
    """Never answers."""

    async def _agenerate(self, messages, stop=None, run_manager=None, **_):
        await asyncio.Event().wait()


async def test_a_model_that_does_not_answer_in_time_may_answer_when_it_is_asked_again(door):
    with pytest.raises(ModelError, match="TimeoutError") as raised:
        await plan(run_state(), door(Slow(gives=None), Limits(model_s=0.01)))
    assert raised.value.passing


async def test_tokens_that_could_not_be_reported_are_kept_for_the_next_report(door):
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    update = await plan(run_state(unreported=[1, 1]), door(Odd(gives=AIMessage("x", usage_metadata=usage))))
    assert update["unreported"] == [6, 3]
