"""What a run makes of what a daemon may answer. The double stands for answers that a real one can't be made to give."""

import asyncio

import pytest

from opensafe.client import Client
from opensafe.model.outcome import OutcomeKind
from opensafe.planner import Planner
from opensafe.planner.scripted import Wanted
from tests.unit.client import daemon_double
from tests.unit.planner.support import QUICK_LIMITS, model


@pytest.fixture
async def double(tmp_path):
    async with daemon_double.running(tmp_path / "opensafe.sock") as double:
        yield double


@pytest.fixture
def opened(double, tmp_path):
    def opened(*calls, **options):
        turns = [{"call": wanted} for wanted in calls]
        client = Client.connect(tmp_path / "opensafe.sock")
        return Opened(client, model(*turns, {"answer": "Done."}), tmp_path / "runs.sqlite", options)

    return opened


class Opened:
    """A planner on a client of its own."""

    def __init__(self, client, model, path, options):
        self._client = client
        self._opening = Planner.open(client, model, path, **{"limits": QUICK_LIMITS, **options})

    async def __aenter__(self):
        await self._client.__aenter__()
        return await self._opening.__aenter__()

    async def __aexit__(self, *error):
        await self._opening.__aexit__(*error)
        await self._client.__aexit__(*error)


async def followed(planner, run_id):
    return [(step.state, step.transition) async for step in planner.steps(run_id)]


async def told(planner, run_id):
    return [message.content for message in (await planner.state(run_id))["messages"] if message.type == "tool"]


async def test_what_a_program_wrote_is_told_and_the_session_ends_with_the_run(opened, double):
    async with opened(Wanted("Exec", {"argv": ["hi", "there"]})) as planner:
        run_id = await planner.begin("x")
        steps = await followed(planner, run_id)
        (text,) = await told(planner, run_id)
    assert steps[1:4] == [("gate", "allow"), ("execute", "ended"), ("observe", "result")]
    assert text.startswith("It exited with 3.\n--- stdout ---\nhi there\n--- stderr ---\n")
    assert double.opened == ["planner"]
    assert double.closed == [daemon_double.SESSION]
    (start,) = double.started
    assert (start.call_id, start.wait_for_review) == (f"{run_id}.1", True)


@pytest.mark.parametrize("kind", [kind for kind in OutcomeKind if kind is not OutcomeKind.REVIEW_PENDING])
async def test_however_a_call_ends_the_model_is_told_and_goes_on(opened, kind):
    async with opened(Wanted("End", {"kind": kind.name})) as planner:
        run_id = await planner.begin("x")
        steps = await followed(planner, run_id)
        assert len(await told(planner, run_id)) == 1
    assert steps[-2:] == [("plan", "answer"), ("done", "end")]


async def test_a_parked_call_is_followed_on_one_stream_to_its_end(opened, double):
    async with opened(Wanted("Park", {})) as planner:
        run_id = await planner.begin("x")
        steps = []
        async for step in planner.steps(run_id):
            steps.append((step.state, step.transition))
            if step.review_id:
                asyncio.get_running_loop().call_soon(double.reviewed.set)
        assert (await told(planner, run_id))[0].endswith("approved")
    assert steps[1:4] == [("gate", "review"), ("await_review", "approved"), ("execute", "ended")]
    assert len(double.started) == 1


async def test_an_interrupted_run_asks_the_daemon_each_time_it_is_resumed(opened, double):
    async with opened(Wanted("Park", {}), await_reviews=False) as planner:
        end = await planner.run("x")
        assert (end.kind, end.review_id) == ("waiting", daemon_double.REVIEW)
        assert await followed(planner, end.run_id) == [("await_review", "pending")]
    assert {start.call_id for start in double.started} == {f"{end.run_id}.1"}


async def test_a_call_that_was_not_taken_is_sent_again_under_its_id(opened, double):
    double.refusals = 2
    async with opened(Wanted("Refuse", {})) as planner:
        run_id = await planner.begin("x")
        steps = await followed(planner, run_id)
        assert (await told(planner, run_id))[0].endswith("at last")
    assert steps.count(("retry", "send_again")) == 2
    assert {start.call_id for start in double.started} == {f"{run_id}.1"}


async def test_an_unknown_tool_is_told(opened):
    async with opened(Wanted("Unregistered", {})) as planner:
        run_id = await planner.begin("x")
        assert ("gate", "refuse") in await followed(planner, run_id)
        assert "Use Bash." in (await told(planner, run_id))[0]


async def test_a_stream_that_breaks_off_is_attached_to_and_not_sent_again(opened, double):
    async with opened(Wanted("Vanish", {})) as planner:
        run_id = await planner.begin("x")
        await followed(planner, run_id)
        (text,) = await told(planner, run_id)
    assert "It exited with 5." in text
    assert "2 bytes of output are no longer retained" in text
    assert len(double.started) == 1


async def test_a_verdict_that_is_none_ends_the_run(opened):
    async with opened(Wanted("Undecided", {})) as planner:
        end = await planner.run("x")
    assert end.kind == "failed"
    assert "unknown action" in end.text


async def test_a_stop_leaves_a_hanging_call(opened, double):
    async with opened(Wanted("Hang", {})) as planner:
        run_id = await planner.begin("x")
        async for step in planner.steps(run_id):
            if step.transition == "allow":
                await double.hanging.wait()
                planner.stop("enough")
        end = await planner.end(run_id)
    assert (end.kind, end.text) == ("stopped", "enough")
    assert double.closed == [daemon_double.SESSION]  # which ends the call


async def test_a_hostile_flood_is_kept_to_its_limit(opened):
    async with opened(Wanted("Flood", {"chunks": 64})) as planner:
        run_id = await planner.begin("x")
        await followed(planner, run_id)
        (text,) = await told(planner, run_id)
    assert len(text) < QUICK_LIMITS.output_bytes + 200
    assert "4177920 bytes are left out" in text
