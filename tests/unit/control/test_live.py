"""Calls that ended are kept for clients that come back, within bounds."""

import asyncio

import pytest

from opensafe.control import live
from opensafe.control.live import LiveCall, LiveCalls, Submission
from opensafe.errors import LimitExceeded
from opensafe.execution.journal import STDOUT, Journal
from opensafe.execution.run import Stdin
from opensafe.model.calls import Principal, ToolCall
from opensafe.model.sandbox import Asked


async def ended(calls, call_id, output=b"", *, tag="", keep=False):
    """A call that wrote `output` and ended."""
    submission = Submission(
        principal=Principal(name="agent", roles=()),
        session_id="ses-1",
        sandbox_id="sb-1",
        call_id=call_id,
        tool="Exec",
        arguments_json=b"{}",
        asked=Asked(tag=tag),
        keep=keep,
        arrived_ns=0,
    )
    tool_call = ToolCall(call_id=call_id, tool="Exec", arguments={}, sealed={}, digest="")
    call = LiveCall(submission, tool_call, Stdin.of(None), Journal(1 << 20))
    calls.add(call)
    if output:
        await call.journal.write(STDOUT, output)
    calls.done(call)
    return call


@pytest.fixture
def bounds(monkeypatch):
    monkeypatch.setattr(live, "_KEPT_CALLS", 3)
    monkeypatch.setattr(live, "_KEPT_BYTES", 100_000)


async def test_the_oldest_go_when_there_are_too_many(bounds):
    calls = LiveCalls(600)
    made = [await ended(calls, str(number)) for number in range(4)]
    assert [calls.get(call.key) for call in made] == [None, *made[1:]]


async def test_the_oldest_go_when_they_are_too_large_together(bounds):
    calls = LiveCalls(600)
    made = [await ended(calls, str(number), b"x" * 40_000) for number in range(3)]
    assert [calls.get(call.key) for call in made] == [None, *made[1:]]
    last = await ended(calls, "last", b"x" * 19_000)
    assert [calls.get(call.key) for call in (*made, last)] == [None, *made[1:], last]


async def test_a_call_that_ends_twice_counts_once(bounds):
    calls = LiveCalls(600)
    first = await ended(calls, "first", b"x" * 40_000)
    calls.done(first)
    second = await ended(calls, "second", b"x" * 59_000)
    assert [calls.get(call.key) for call in (first, second)] == [first, second]
    assert len(calls) == 0


async def test_what_ended_goes_after_its_time_and_what_runs_stays():
    calls = LiveCalls(0.01)
    first, second = await ended(calls, "first"), await ended(calls, "second")
    open_ = await ended(calls, "third")
    calls.add(open_)
    while calls.get(first.key) or calls.get(second.key):  # noqa: ASYNC110 - forgetting has no event
        await asyncio.sleep(0.005)
    assert calls.get(open_.key) is open_


async def test_a_tag_finds_the_open_call_of_its_session():
    calls = LiveCalls(600)
    call = await ended(calls, "one", tag="build")
    assert calls.tagged("ses-1", "build") is None
    calls.add(call)
    assert calls.tagged("ses-1", "build") is call
    assert calls.tagged("ses-2", "build") is calls.tagged("ses-1", "") is None


@pytest.mark.parametrize("keep", [False, True])
async def test_G51_the_last_client_takes_the_call_with_it_unless_it_is_kept(keep):
    call = await ended(LiveCalls(600), "one", keep=keep)
    first, second = call.attach(), call.attach()
    call.detach(first)
    assert not call._cancelled
    call.detach(second)
    assert bool(call._cancelled) is not keep


async def test_a_call_has_so_many_clients_and_no_more():
    call = await ended(LiveCalls(600), "one")
    readers = [call.attach() for _ in range(64)]
    with pytest.raises(LimitExceeded, match="limit 64"):
        call.attach()
    call.detach(readers[0])
    call.attach()
