"""What a client sends into a call that ends meanwhile: a race that a real program loses too seldom to wait for it."""

import pytest

from opensafe._proto.v1 import exec_pb2
from opensafe.api.exec_stream import feed
from opensafe.control.live import LiveCall, Submission
from opensafe.errors import InvalidArgument, NotFound
from opensafe.execution.journal import Journal
from opensafe.execution.run import Stdin
from opensafe.model.calls import Principal, ToolCall

RESIZE = exec_pb2.ExecRequest(resize=exec_pb2.TerminalSize(columns=80, rows=24))
SIGNAL = exec_pb2.ExecRequest(signal=exec_pb2.SendSignal(signal=15))


class Answering:
    """An execution whose warden answers everything with `error`."""

    def __init__(self, error):
        self.error = error

    async def resize(self, _size):
        raise self.error

    async def signal(self, _number, *, whole_tree):
        raise self.error


def call(execution):
    submission = Submission(
        principal=Principal(name="agent"),
        session_id="ses-1",
        sandbox_id="sb-1",
        call_id="c",
        tool="Exec",
        arguments_json=b"{}",
        arrived_ns=0,
    )
    tool_call = ToolCall(call_id="c", tool="Exec", arguments={}, sealed={}, digest="")
    live = LiveCall(submission, tool_call, Stdin.of(None), Journal(0))
    live.execution = execution
    return live


async def sent(*messages):
    for message in messages:
        yield message


async def test_a_size_or_a_signal_for_a_program_that_has_ended_takes_nothing_from_the_outcome():
    live = call(Answering(NotFound("it has ended")))
    await feed(live, sent(RESIZE, SIGNAL), stdin=False, ends_with_stream=True)


@pytest.mark.parametrize("message", [RESIZE, SIGNAL], ids=["resize", "signal"])
async def test_one_that_can_not_be_carried_out_is_told(message):
    live = call(Answering(InvalidArgument("it has no terminal")))
    with pytest.raises(InvalidArgument):
        await feed(live, sent(message), stdin=False, ends_with_stream=True)


async def test_neither_is_taken_before_the_call_runs():
    with pytest.raises(InvalidArgument, match="does not run"):
        await feed(call(None), sent(RESIZE), stdin=False, ends_with_stream=True)
