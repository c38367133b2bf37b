"""The pipe: lines, their bounds, and what a client that misbehaves is told."""

import asyncio
import json
import os

import mcp_types as types
import pytest

from opensafe import errors
from opensafe.mcp import server, server_stdio
from opensafe.mcp.server_place import Wish
from opensafe.mcp.server_stdio import MAX_MESSAGE, MAX_UNANSWERED, Unanswered, id_of, lines


async def split(*chunks, most=10):
    reader = asyncio.StreamReader()
    for chunk in chunks:
        reader.feed_data(chunk)
    reader.feed_eof()
    return [found async for found in lines(reader, most)]


async def test_lines_are_put_together_and_a_long_one_is_told():
    assert await split(b"ab", b"c\nde\n", b"rest") == [(b"abc", True), (b"de", True)]
    assert await split(b"0123456789\n") == [(b"0123456789", True)]
    assert await split(b"0123456789a\nb\n") == [(b"0123456789a", False), (b"b", True)]


async def test_of_a_long_line_only_the_beginning_is_kept():
    [(head, whole), after] = await split(*[b"x" * 50_000] * 20, b"\n", b"ok\n")
    assert not whole
    assert len(head) <= 4096
    assert after == (b"ok", True)


@pytest.mark.parametrize(
    ("head", "number"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call"', 7),
        (b' { "method" : "tools/call", "id": "a-1", "params": {', "a-1"),
        (b'{"jsonrpc":"2.0","params":{"id":9},"id":7,', None),
        (b'{"jsonrpc":"2.0","method":"a","params":{"id":9,', None),
        (b'[{"id":1,', None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_the_id_is_read_only_where_it_can_be_no_other(head, number):
    assert id_of(head) == number


def request(number):
    return types.JSONRPCRequest(jsonrpc="2.0", id=number, method="ping")


async def test_a_client_that_reads_no_answers_is_not_read_from():
    unanswered = Unanswered()
    for number in range(MAX_UNANSWERED):
        assert await unanswered.add(request(number), 1)
    waiting = asyncio.create_task(unanswered.add(request("next"), 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    unanswered.answered(types.JSONRPCResponse(jsonrpc="2.0", id=3, result={}))
    assert await waiting


async def test_bytes_count_as_well_and_a_cancelled_request_does_not():
    unanswered = Unanswered()
    await unanswered.add(request(1), server_stdio.MAX_UNANSWERED_BYTES)
    waiting = asyncio.create_task(unanswered.add(request(2), 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    cancelled = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1})
    await unanswered.add(cancelled, 1)
    assert await waiting


async def test_an_id_in_use_is_not_taken_again():
    unanswered = Unanswered()
    assert await unanswered.add(request(1), 1)
    assert not await unanswered.add(request(1), 1)
    unanswered.answered(types.JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
    assert await unanswered.add(request(1), 1)


@pytest.fixture
async def pipe(monkeypatch):
    """A server on two pipes: a function that sends lines and gives the next answers."""
    monkeypatch.setattr(os, "dup2", lambda *_: None)  # this process's own output stays where it is
    source, sender = os.pipe()
    receiver, sink = os.pipe()
    serving = asyncio.create_task(server_stdio.serve(server.build(Wish()), source, sink))
    answers = asyncio.StreamReader(limit=MAX_MESSAGE)
    loop = asyncio.get_running_loop()
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(answers), os.fdopen(receiver, "rb", 0)
    )

    async def talk(*sent, expect):
        await asyncio.to_thread(os.write, sender, b"".join(line + b"\n" for line in sent))
        return [json.loads(await answers.readline()) for _ in range(expect)]

    yield talk
    os.close(sender)
    await serving
    reading.close()
    os.close(source)
    os.close(sink)


def initialize(number=0):
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params}).encode()


async def test_what_is_no_message_is_answered_and_the_next_one_works(pipe):
    [broken] = await pipe(b'{"jsonrpc": "2.0", "id": 1, oops', expect=1)
    assert (broken["error"]["code"], broken["id"]) == (types.PARSE_ERROR, 1)
    [strange] = await pipe(b'{"jsonrpc": "1.0"}', expect=1)
    assert strange["error"]["code"] == types.INVALID_REQUEST
    nested = b'{"jsonrpc": "2.0", "id": 2, "method": "x", "params": ' + b'{"a":' * 10_000
    [deep] = await pipe(nested, expect=1)
    assert "error" in deep
    [answer] = await pipe(initialize(), expect=1)
    assert answer["result"]["serverInfo"]["name"] == "opensafe"


async def test_a_flood_of_calls_is_answered_one_by_one(pipe):
    await pipe(initialize(), expect=1)
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "bash", "arguments": {"command": 1}}}
    sent = [json.dumps(call | {"id": number}).encode() for number in range(1, 301)]
    answers = await pipe(*sent, expect=300)
    assert {answer["id"] for answer in answers} == set(range(1, 301))
    assert all(answer["result"]["isError"] for answer in answers)


async def test_an_unknown_tool_is_an_error_that_names_those_there_are(pipe):
    await pipe(initialize(), expect=1)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm", "arguments": {}}}
    [answer] = await pipe(json.dumps(call).encode(), expect=1)
    assert answer["error"]["code"] == types.INVALID_PARAMS
    assert "bash" in answer["error"]["message"]


async def test_plain_files_are_no_pipes(tmp_path):
    with (tmp_path / "in").open("w+b") as file, pytest.raises(errors.InvalidArgument):
        await server_stdio.serve(server.build(Wish()), file.fileno(), file.fileno())
