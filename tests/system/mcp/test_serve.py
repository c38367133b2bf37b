"""The official client at `opensafe mcp serve`, over both transports: allow, block, review, cancellation, trace."""

import asyncio
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
import pytest
from mcp.client import Client

from opensafe.model.outcome import OutcomeKind
from tests.harness.audit import records
from tests.system.mcp.serving import BLOCKED, INSTALL, approve, gone, listening, only_session, over_http, stdio

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
META = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


@asynccontextmanager
async def connected(transport, daemon, tmp_path):
    match transport:
        case "stdio":
            async with Client(stdio(daemon)) as client:
                yield client
        case "stdio before 2026":
            async with Client(stdio(daemon), mode="legacy") as client:
                yield client
        case _:
            async with listening(daemon, tmp_path / "token") as url, over_http(url) as client:
                yield client


@pytest.mark.parametrize("transport", ["stdio", "stdio before 2026", "http"])
async def test_a_conversation(transport, daemon, agent, reviewer, tmp_path):
    async with connected(transport, daemon, tmp_path) as client:
        await tools_are_listed(client)
        await commands_run_in_the_callers_trace(client, agent)
        await denials_say_what_to_do(client, daemon)
        await a_parked_call_runs_once_after_another_principal_approved_it(client, daemon, reviewer)
        await a_rejected_call_is_a_denial_with_the_reviewers_words(client, reviewer)
        await a_cancelled_request_ends_its_call(client, agent)
        await malformed_calls_are_told(client, daemon)
        after = await client.call_tool("bash", {"command": "echo; exit 4"})
        assert (after.is_error, after.structured_content["exit_code"]) == (False, 4)
    await gone(agent)


async def tools_are_listed(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"bash", "exec", "read", "write", "edit", "list", "search", "fetch"} <= tools.keys()
    assert tools["read"].annotations.read_only_hint
    assert tools["bash"].annotations.destructive_hint


async def commands_run_in_the_callers_trace(client, agent):
    failed = await client.call_tool("bash", {"command": "echo out; echo err >&2; exit 3", "cwd": "/tmp"}, meta=META)
    assert not failed.is_error
    content = failed.structured_content
    assert (content["exit_code"], content["stdout"], content["stderr"]) == (3, "out\n", "err\n")
    assert "[exit code 3]" in failed.content[0].text
    assert not (await client.call_tool("write", {"path": "a", "content": "b"}, meta=META)).is_error
    session = await only_session(agent)
    found = [line for line in await records(agent, 20) if line.get("session_id") == session]
    decisions = [line for line in found if line.get("kind") == "decision"]
    assert len(decisions) >= 2
    assert {line["trace_id"] for line in decisions} == {TRACE}


async def denials_say_what_to_do(client, daemon):
    before = daemon.starts()
    for tool, arguments in (("bash", BLOCKED), ("fetch", {"url": "https://evil.example.com/"})):
        refused = await client.call_tool(tool, arguments)
        assert refused.is_error
        content = refused.structured_content
        assert content["denied"] is True
        assert content["rule"]
        assert content["remedy"] in refused.content[0].text
        assert "evil.example.com" in content["value"]
        assert content["call_id"].startswith("mcp-")
    secret = await client.call_tool("read", {"path": "/etc/shadow"})
    assert (secret.is_error, secret.structured_content["denied"]) == (True, True)
    assert secret.structured_content["call_id"]
    assert daemon.starts() == before


async def a_parked_call_runs_once_after_another_principal_approved_it(client, daemon, reviewer):
    before = daemon.starts()
    parked = await client.call_tool("bash", INSTALL)
    assert not parked.is_error
    content = parked.structured_content
    assert content["pending"] is True
    again = await client.call_tool("call_status", {"call_id": content["call_id"]})
    assert again.structured_content["review_id"] == content["review_id"]
    assert daemon.starts() == before
    await approve(reviewer, content["review_id"])
    for _ in range(2):
        done = await client.call_tool("call_status", {"call_id": content["call_id"], "wait_s": 60})
        assert done.structured_content["stdout"] == "ran\n"
    assert daemon.starts() == before + 1


async def a_rejected_call_is_a_denial_with_the_reviewers_words(client, reviewer):
    content = (await client.call_tool("bash", INSTALL)).structured_content
    await reviewer.reject_review(content["review_id"], "use the vendored copy")
    rejected = await client.call_tool("call_status", {"call_id": content["call_id"], "wait_s": 60})
    assert rejected.is_error
    assert rejected.structured_content["outcome"] == "review_rejected"
    assert "use the vendored copy" in rejected.content[0].text


async def a_cancelled_request_ends_its_call(client, agent):
    """Cancelled as soon as it is told to be under way, while somebody else looks on."""
    session = await only_session(agent)

    async def under_way(*_):
        if (await agent.list_calls(session, state="running")).calls:
            scope.cancel()

    with anyio.CancelScope() as scope:
        await client.call_tool("bash", {"command": "sleep 1000"}, progress_callback=under_way)
    assert scope.cancelled_caught
    call = (await agent.list_calls(session)).calls[0]
    async for event in agent.attach(session, call.call_id):
        last = event
    assert last.outcome.kind is OutcomeKind.CANCELLED


async def malformed_calls_are_told(client, daemon):
    before = daemon.starts()
    for arguments in ({}, {"command": 3}, {"command": ""}, {"command": "ls", "sudo": True}):
        wrong = await client.call_tool("bash", arguments)
        assert wrong.is_error
        assert wrong.structured_content["kind"] == "arguments"
    unknown = await client.call_tool("call_status", {"call_id": "mcp-0"})
    assert (unknown.is_error, unknown.structured_content["error"]) == (True, "NOT_FOUND")
    with pytest.raises(Exception, match="there is no tool 'rm'"):
        await client.call_tool("rm", {})
    with pytest.raises(Exception, match="8388608 bytes"):
        await client.call_tool("write", {"path": "a", "content": "x" * 10_000_000})
    assert daemon.starts() == before


async def test_files_and_bounds(daemon, agent):
    async with Client(stdio(daemon)) as client:
        exact = await client.call_tool("exec", {"argv": ["printf", "%s|", "a b", "$HOME"], "env": {"A": "b"}})
        assert exact.structured_content["stdout"] == "a b|$HOME|"
        missing = await client.call_tool("read", {"path": "src/one.txt"})
        assert missing.is_error
        assert (missing.structured_content["kind"], missing.structured_content["error"]) == ("file", "FILE_NOT_FOUND")
        assert not (await client.call_tool("write", {"path": "one.txt", "content": "héllo\nworld\n"})).is_error
        edited = await client.call_tool("edit", {"path": "one.txt", "old": "world", "new": "sandbox"})
        assert edited.structured_content["replaced"] == 1
        part = (await client.call_tool("read", {"path": "/workspace/one.txt", "length": 2})).structured_content
        assert part | {"content": "h", "truncated": True, "next_offset": 1} == part
        rest = await client.call_tool("read", {"path": "one.txt", "offset": 1})
        assert rest.structured_content["content"] == "éllo\nsandbox\n"
        listed = await client.call_tool("list", {})
        assert [entry["name"] for entry in listed.structured_content["entries"]] == ["one.txt"]
        found = await client.call_tool("search", {"pattern": "SAND.*", "ignore_case": True, "include": "*.txt"})
        assert found.structured_content["stdout"] == "/workspace/one.txt:2:sandbox\n"
        missed = await client.call_tool("search", {"pattern": "nothing"})
        assert (missed.is_error, missed.structured_content["exit_code"]) == (False, 1)
        large = await client.call_tool("bash", {"command": "head -c 200000 /dev/zero | tr '\\0' a"})
        assert len(large.structured_content["stdout"]) == 64 * 1024
        assert large.structured_content["dropped_bytes"] == 200_000 - 64 * 1024
        assert "[truncated:" in large.content[0].text
        slow = await client.call_tool("bash", {"command": "sleep 100", "timeout_s": 0.2})
        assert slow.is_error
        assert (slow.structured_content["kind"], slow.structured_content["error"]) == ("command", "COMMAND_TIMED_OUT")
        many = {asyncio.create_task(client.call_tool("bash", {"command": "sleep 1000"})) for _ in range(16 + 4)}
        refused: list[str] = []
        while len(refused) < 4:
            ended, many = await asyncio.wait(many, return_when=asyncio.FIRST_COMPLETED)
            refused += [task.result().structured_content["error"] for task in ended]
        assert refused == ["LIMIT_EXCEEDED"] * 4
        for task in many:
            task.cancel()
        await asyncio.gather(*many, return_exceptions=True)
    await gone(agent)


@pytest.mark.parametrize("answer", ["accept", "decline"])
async def test_a_user_who_is_asked_can_wait_and_not_approve(daemon, agent, reviewer, answer):
    asked: asyncio.Queue[str] = asyncio.Queue()
    before = daemon.starts()

    async def ask(_context, params):
        await asked.put(params.message)
        return types.ElicitResult(action=answer, content={} if answer == "accept" else None)

    async with Client(stdio(daemon), mode="legacy", elicitation_callback=ask) as client:
        calling = asyncio.create_task(client.call_tool("bash", INSTALL))
        message = await asked.get()
        [review] = await reviewer.list_reviews()
        assert review.review_id in message
        assert daemon.starts() == before
        if answer == "decline":
            content = (await calling).structured_content
            assert content["pending"] is True
        await approve(reviewer, review.review_id)
        if answer == "decline":
            done = await client.call_tool("call_status", {"call_id": content["call_id"], "wait_s": 60})
        else:
            done = await calling
        assert done.structured_content["stdout"] == "ran\n"
        assert daemon.starts() == before + 1
    await gone(agent)


async def test_a_decision_comes_before_the_users_answer(daemon, agent, reviewer):
    asked = asyncio.Event()

    async def never(_context, _params):
        asked.set()
        await asyncio.Event().wait()

    async with Client(stdio(daemon), mode="legacy", elicitation_callback=never) as client:
        calling = asyncio.create_task(client.call_tool("bash", INSTALL))
        await asked.wait()
        [review] = await reviewer.list_reviews()
        await reviewer.reject_review(review.review_id, "no")
        assert (await calling).structured_content["outcome"] == "review_rejected"
    await gone(agent)
