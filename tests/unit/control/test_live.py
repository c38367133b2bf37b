"""Calls that ended are kept for clients that come back, within bounds."""

import pytest

from opensafe.control import live
from opensafe.control.live import LiveCall, LiveCalls, Submission
from opensafe.execution.journal import STDOUT
from opensafe.execution.run import Stdin
from opensafe.model.calls import Principal, ToolCall


async def ended(calls, call_id, output=b""):
    """A call that wrote `output` and ended."""
    submission = Submission(
        principal=Principal(name="agent", roles=()),
        session_id="ses-1",
        sandbox_id="sb-1",
        call_id=call_id,
        tool="Exec",
        arguments_json=b"{}",
        stdin=False,
        carrier={},
        arrived_ns=0,
    )
    tool_call = ToolCall(call_id=call_id, tool="Exec", arguments={}, sealed={}, digest="")
    call = LiveCall(submission, tool_call, Stdin.of(None), retained=1 << 20)
    calls.add(call)
    await call.journal.write(STDOUT, output)
    calls.done(call)
    return call


@pytest.fixture
def bounds(monkeypatch):
    monkeypatch.setattr(live, "_KEPT_CALLS", 3)
    monkeypatch.setattr(live, "_KEPT_BYTES", 100)


async def test_the_oldest_go_when_there_are_too_many(bounds):
    calls = LiveCalls()
    made = [await ended(calls, str(number)) for number in range(4)]
    assert [calls.get(call.key) for call in made] == [None, *made[1:]]


async def test_the_oldest_go_when_they_are_too_large_together(bounds):
    calls = LiveCalls()
    made = [await ended(calls, str(number), b"x" * 40) for number in range(3)]
    assert [calls.get(call.key) for call in made] == [None, *made[1:]]
    last = await ended(calls, "last", b"x" * 20)
    assert [calls.get(call.key) for call in (*made, last)] == [None, *made[1:], last]


async def test_a_call_that_ends_twice_counts_once(bounds):
    calls = LiveCalls()
    first = await ended(calls, "first", b"x" * 40)
    calls.done(first)
    second = await ended(calls, "second", b"x" * 60)
    assert [calls.get(call.key) for call in (first, second)] == [first, second]
    assert len(calls) == 0
