import asyncio
import json

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from opensafe.mcp.proxy_framing import BURST_S, Bounds, Ending, Flooded, Lines, Rate, framed


def message(at=1, text=""):
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"n": at, "t": text}}).encode()


def number(item):
    return item.message.model_dump()["params"]["n"]


class Pipe:
    """Gives what it was made with, then waits or ends; keeps what it is given."""

    def __init__(self, *pieces, ends=True):
        self._pieces, self._ends = pieces, ends
        self.written = b""

    async def read(self):
        for piece in self._pieces:
            yield piece
        if not self._ends:
            await asyncio.Event().wait()

    async def write(self, data):
        self.written += data


async def through(pipe, **bounds):
    """The messages that come through until the end, and the end."""
    ending = Ending()
    async with asyncio.timeout(10), framed(pipe, Bounds(**bounds), ending) as (source, _):
        found = [item async for item in source]
    return [item if isinstance(item, Exception) else number(item) for item in found], ending


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_lines_are_whole_however_they_are_cut(size):
    data = b"\n".join([message(1), b"", message(2), message(3), b""])
    found, ending = await through(Pipe(*(data[at : at + size] for at in range(0, len(data), size))))
    assert (found, ending.why, ending.hostile) == ([1, 2, 3], "it closed the connection", False)


async def test_a_line_that_is_none_is_an_error_and_the_next_one_is_heard():
    found, _ = await through(Pipe(b"{\n" + message(2) + b"\n"))
    assert [type(item) for item in found] != [int, int]
    assert found[1] == 2


@pytest.mark.parametrize("cut", [64, 10_000])
async def test_a_line_beyond_the_bound_ends_the_connection(cut):
    data = message(1) + b"\n" + message(2, "x" * 2000) + b"\n" + message(3) + b"\n"
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
    found, ending = await through(Pipe(*pieces, ends=False), message_bytes=1000)
    assert (found, ending.hostile) == ([1], True)
    assert "1000 bytes" in ending.why


def test_a_line_that_never_ends_is_not_kept():
    lines = Lines(1000)
    for _ in range(15):
        assert list(lines.feed(b"x" * 64)) == []
    with pytest.raises(Flooded):
        list(lines.feed(b"x" * 64))


async def test_more_messages_than_the_rate_end_the_connection_and_a_burst_does_not():
    burst = [message(number) + b"\n" for number in range(10 * BURST_S)]
    found, ending = await through(Pipe(b"".join(burst)), messages_per_s=10)
    assert (len(found), ending.hostile) == (10 * BURST_S, False)
    found, ending = await through(Pipe(b"".join(burst) * 100, ends=False), messages_per_s=10)
    assert ending.hostile
    assert "10 messages a second" in ending.why


async def test_the_rate_has_no_memory_of_what_was_taken_long_ago(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    rate = Rate(2)
    for _ in range(100):
        rate.take()
        now[0] += 0.5
    now[0] += 1000
    for _ in range(2 * BURST_S):
        rate.take()
    with pytest.raises(Flooded):
        rate.take()


async def test_what_is_sent_is_one_line_each():
    pipe = Pipe(ends=False)
    async with framed(pipe, Bounds(), Ending()) as (_, sink):
        for number in (1, 2):
            await sink.send(SessionMessage(jsonrpc_message_adapter.validate_json(message(number, "a\nb"))))
        await sink.send(SessionMessage(jsonrpc_message_adapter.validate_json(message(3))))  # the second is out by then
    assert [json.loads(line)["params"]["n"] for line in pipe.written.splitlines()][:2] == [1, 2]
