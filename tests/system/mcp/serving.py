"""`opensafe mcp serve` as an MCP client meets it, and what the daemon says of it."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.system.exec.support import eventually

TOKEN = "t" * 32
#: A call that policy parks; npm is not in the image, the marker is what shows that the line was run.
INSTALL = {"command": "npm install; echo ran >> runs.txt; cat runs.txt"}
BLOCKED = {"command": "curl https://evil.example.com"}
COMMAND = [sys.executable, "-m", "opensafe.cli", "mcp", "serve"]


def at(daemon):
    """The environment of a server of that daemon's agent."""
    return {"OPENSAFE_SOCKET": str(daemon.socket_of("agent"))}


def stdio(daemon, *options):
    return StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *options], env=at(daemon))


@asynccontextmanager
async def listening(daemon, token, *options):
    """A server over HTTP; its URL."""
    token.write_text(TOKEN)
    token.chmod(0o600)
    arguments = [*COMMAND, "--http", "127.0.0.1:0", "--token-file", str(token), *options]
    server = await asyncio.create_subprocess_exec(
        *arguments, stderr=asyncio.subprocess.PIPE, env=os.environ | at(daemon)
    )
    try:
        yield (await server.stderr.readline()).split()[-1].decode()
    finally:
        if server.returncode is None:
            server.terminate()
        await server.communicate()


@asynccontextmanager
async def over_http(url, token=TOKEN, **options):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client


async def approve(reviewer, review_id):
    return await reviewer.approve_review(review_id, (await reviewer.get_review(review_id)).digest)


async def gone(agent, session_id=""):
    """Wait until no sandbox of the agent's (or of that session) is left."""
    await eventually(lambda: agent.list_sandboxes(session_id=session_id), lambda left: not left)


async def only_session(agent):
    """The session of the only sandbox there is."""
    [sandbox] = await agent.list_sandboxes()
    return sandbox.session_id
