"""`opensafe mcp proxy` as a client starts it: servers in a sandbox, on the host, behind a URL, and one of others."""

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys

import httpx2
import pytest
from mcp import MCPError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from opensafe.normalize.site_tools import read_manifest
from tests.system.mcp.proxy_support import SERVER, Site, text

ADD = {"a": 1, "b": 2}
EVIL = {"url": "https://evil.example.com/"}
COMMAND = [sys.executable, "-m", "opensafe.cli", "mcp", "proxy"]


@pytest.fixture(scope="module")
def settings(site_of_servers):
    return site_of_servers


@pytest.fixture
def place(daemon, tmp_path):
    return Site(daemon, tmp_path)


async def test_a_server_in_its_sandbox_has_no_files_and_no_network_of_the_hosts(place, agent, reviewer):
    secret = place.directory / "secret"
    secret.write_text("a secret of the host's")
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as listener:
        where = {"path": str(secret), "host": "127.0.0.1", "port": listener.sockets[0].getsockname()[1]}
        async with place.here() as client:
            control = text(await client.call_tool("reach", where))
        assert control == "file: a secret of the host's; network: yes"
        async with place.command("--name", "plain", "--copy", str(SERVER), "--", "python3", SERVER.name) as client:
            found = text(await client.call_tool("reach", where))
            assert (found.startswith("file: FileNotFoundError; network: "), "yes" in found) == (True, False)
            assert (await client.call_tool("visit", EVIL)).structured_content["rule"] == "egress.domain.allowlist"
            parked = await client.call_tool("publish", {"page": "news"})
            review_id = parked.structured_content["review_id"]
            await reviewer.approve_review(review_id, (await reviewer.get_review(review_id)).digest)
            assert text(await client.call_tool("publish", {"page": "news"})) == "publish done"
            assert (await client.call_tool("publish", {"page": "news"})).structured_content["kind"] == "review"
            with pytest.raises(MCPError, match="larger than"):
                await client.call_tool("publish", {"page": "x" * (10 << 20)})
            died = await client.call_tool("die", {})
            assert (died.is_error, died.structured_content["value"]) == (True, "it ended: exited 3")
            assert text(await client.call_tool("add", ADD)) == "3"
            assert len(await agent.list_sandboxes(states=("running",))) == 1
    async with asyncio.timeout(30):
        while await agent.list_sandboxes(states=("running", "paused", "deleting")):  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0.05)
    said = place.said.read_text()
    assert "the tool 'poison' is dropped" in said
    assert "opensafe review show" in said


def test_a_start_that_policy_blocks_is_no_start(place, daemon):
    before = daemon.starts()
    words = ["--name", "plain", "--", "curl", "https://evil.example.com/"]
    done = subprocess.run([*COMMAND, *words], env=place.environment(), stdin=subprocess.DEVNULL, capture_output=True)
    assert (done.returncode, done.stdout, daemon.starts()) == (193, b"", before)
    assert b"egress.domain.allowlist" in done.stderr


def test_its_manifest_is_one_that_a_site_can_sign(place):
    words = ["--name", "plain", "--manifest", "--on-host", "--pins", str(place.pins), "--", sys.executable, str(SERVER)]
    done = subprocess.run([*COMMAND, *words], env=place.environment(), capture_output=True, check=True)
    tools = {tool.name: tool for tool in read_manifest(done.stdout)}
    assert {"mcp__plain__add", "mcp__plain__visit"} <= tools.keys()
    assert "mcp__plain__poison" not in tools
    pins = json.loads((place.pins / "plain.json").read_bytes())["tools"]
    assert tools["mcp__plain__add"].description_sha256 == pins["add"]
    assert b"on this host" in done.stderr


async def test_a_server_behind_a_url_and_clients_over_http(place):
    token = place.directory / "token"
    token.touch(0o600)
    token.write_text("0123456789abcdef")
    async with contextlib.AsyncExitStack() as stack:
        served = await started(stack, sys.executable, str(SERVER.with_name("http_server.py")))
        port = int(await served.stdout.readline())
        url = ["--url", f"http://127.0.0.1:{port}/mcp", "--name", "plain", "--pins", str(place.pins)]
        http = ["--http", "127.0.0.1:0", "--token-file", str(token)]
        proxy = await started(stack, *COMMAND, *url, *http, env=place.environment())
        line = await proxy.stderr.readline()
        while b"serving MCP at" not in line:
            assert line
            line = await proxy.stderr.readline()
        door = line.split()[-1].decode()
        async with (
            httpx2.AsyncClient(headers={"authorization": "Bearer 0123456789abcdef"}) as client,
            Client(streamable_http_client(door, http_client=client)) as speaker,
        ):
            assert text(await speaker.call_tool("add", ADD)) == "3"
            assert (await speaker.call_tool("visit", EVIL)).structured_content["kind"] == "denied"
        async with httpx2.AsyncClient() as stranger:
            assert (await stranger.post(door, json={})).status_code == 401


async def started(stack, *argv, env=None):
    process = await asyncio.create_subprocess_exec(
        *argv, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    stack.push_async_callback(process.wait)
    stack.callback(process.terminate)
    return process


@pytest.mark.skipif(importlib.util.find_spec("mcp_server_time") is None, reason="the reference server is not installed")
async def test_a_reference_server_of_the_ecosystem_in_a_sandbox(place):
    packages = place.directory / "packages"
    for name in closure("mcp-server-time", "cryptography"):
        for file in importlib.metadata.files(name):
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), packages / file)
    words = ["--name", "time", "--copy", str(packages), "--env", "PYTHONPATH=/workspace/packages"]
    async with place.command(*words, "--", "python3", "-m", "mcp_server_time", "--local-timezone", "UTC") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"get_current_time", "convert_time"}
        told = await client.call_tool("get_current_time", {"timezone": "UTC"})
        assert told.structured_content["timezone"] == "UTC"
        assert (await client.call_tool("get_current_time", {"timezone": "UTC", "more": 1})).is_error
        unknown = await client.call_tool("convert_time", {})
        assert unknown.structured_content["error"] == "UNKNOWN_TOOL"


def closure(*names):
    """Distributions and what they require here, extras aside."""
    found, left = set(), [*names]
    while left:
        name = left.pop().lower().replace("_", "-")
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # for another platform
            required = importlib.metadata.requires(name) or ()
            if name not in found:
                found.add(name)
                left += [re.split(r"[^\w.-]", text)[0] for text in required if "extra ==" not in text]
    return found
