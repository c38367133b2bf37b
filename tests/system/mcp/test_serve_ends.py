"""What is left when an MCP client, its server or the daemon dies: nothing, and the next call works."""

import asyncio
import pathlib
import signal
import sys

import httpx2
import pytest
from mcp.client import Client

from tests.harness.daemon import ROOT, signal_process
from tests.system.exec.support import eventually
from tests.system.mcp.serving import COMMAND, TOKEN, at, gone, listening, over_http, stdio

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


async def dying(*arguments):
    """A client that has made its call."""
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.system.mcp.dying_client", *arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert await client.stdout.readline() == b"called\n"
    return client


async def killed(process):
    await asyncio.to_thread(signal_process, process.pid)
    await process.communicate()


async def test_a_killed_client_leaves_no_sandbox(daemon, agent):
    client = await dying("--", at(daemon)["OPENSAFE_SOCKET"], *COMMAND)
    assert await agent.list_sandboxes()
    await killed(client)
    await gone(agent)


async def test_a_killed_client_over_http_leaves_no_sandbox(daemon, agent, tmp_path):
    async with listening(daemon, tmp_path / "token", "--idle", "1") as url:
        client = await dying(url)
        assert await agent.list_sandboxes()
        await killed(client)
        await gone(agent)


async def test_a_killed_server_leaves_no_sandbox(daemon, agent):
    client = await dying("--", at(daemon)["OPENSAFE_SOCKET"], *COMMAND, "--lease", "3")
    [server] = children(client.pid)
    await asyncio.to_thread(signal_process, server)
    await gone(agent)
    await killed(client)


async def test_a_terminated_server_ends_its_sandbox_before_its_lease(daemon, agent):
    client = await dying("--", at(daemon)["OPENSAFE_SOCKET"], *COMMAND, "--lease", "1000")
    [server] = children(client.pid)
    await asyncio.to_thread(signal_process, server, signal.SIGTERM)
    await gone(agent)
    await killed(client)


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_after_a_restart_of_the_daemon_the_next_call_works(own_daemon):
    daemon = own_daemon()
    async with Client(stdio(daemon)) as client:
        await client.call_tool("bash", {"command": "echo one > here"})
        starts = daemon.starts()
        calling = asyncio.create_task(client.call_tool("bash", {"command": "echo two >> here; sleep 1000"}))
        await eventually(lambda: asyncio.to_thread(daemon.starts), lambda now: now == starts + 1)
        daemon.kill()
        daemon.start()
        broken = await calling
        assert broken.is_error
        assert broken.structured_content["kind"] in ("sandbox", "unavailable", "command")
        assert broken.structured_content["call_id"]
        for _ in range(2):
            after = await client.call_tool("bash", {"command": "cat here 2>/dev/null; echo three"})
            if not after.is_error:
                break
        assert after.structured_content["stdout"].endswith("three\n")
        assert daemon.starts() == starts + 2


async def test_a_sandbox_that_was_taken_away_is_replaced(daemon, agent):
    async with Client(stdio(daemon)) as client:
        await client.call_tool("bash", {"command": "true"})
        [before] = await agent.list_sandboxes()
        await agent.delete_sandbox(before.sandbox_id)
        lost = await client.call_tool("bash", {"command": "true"})
        assert lost.is_error
        assert not (await client.call_tool("bash", {"command": "true"})).is_error
        [after] = await agent.list_sandboxes()
        assert (after.session_id, after.sandbox_id == before.sandbox_id) == (before.session_id, False)
    await gone(agent)


async def test_who_may_not_ask_over_http(daemon, agent, tmp_path):
    async with listening(daemon, tmp_path / "token") as url:
        accepted = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=accepted) as http:
            for headers, status in (
                ({"Authorization": "Bearer wrong"}, 401),
                ({"Authorization": ""}, 401),
                ({"Host": "evil.example.com"}, 421),
                ({"Origin": "http://evil.example.com"}, 403),
            ):
                assert (await http.post(url, json=CALL, headers=headers)).status_code == status
            assert (await http.post(url, json=CALL)).status_code not in (401, 403, 421)
        async with over_http(url) as client:
            assert len((await client.list_tools()).tools) == 9
    assert not await agent.list_sandboxes()


async def test_sessions_are_apart_and_not_more_than_said(daemon, agent, tmp_path):
    async with listening(daemon, tmp_path / "token", "--sessions", "2") as url:
        async with over_http(url) as one, over_http(url) as two:
            await one.call_tool("write", {"path": "mine", "content": "x"})
            assert (await two.call_tool("read", {"path": "mine"})).structured_content["error"] == "FILE_NOT_FOUND"
            assert len(await agent.list_sandboxes()) == 2
            with pytest.raises(Exception, match=r".*"):
                async with over_http(url):
                    pass
        async with over_http(url) as three:
            assert not (await three.call_tool("bash", {"command": "true"})).is_error
    await gone(agent)
