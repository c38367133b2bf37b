"""A site that knows the plain server's tools, and the ways to stand before it."""

import asyncio
import contextlib
import json
import os
import pathlib
import sys

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from opensafe.client import description_digest
from opensafe.mcp.proxy import Proxy, Wish
from tests.harness.policy import site_bundle
from tests.system.mcp import plain_server

SERVER = pathlib.Path(plain_server.__file__)
RISKS = {"publish": "high"}
FACTS = {"visit": [{"pointer": "/url", "as": "url"}]}
#: What the signed manifest pins of `add`, for the server of that name.
APPROVED = description_digest(plain_server.TOOLS[0]["description"], plain_server.TOOLS[0]["inputSchema"])


def entry(server, tool, **more):
    return {
        "name": f"mcp__{server}__{tool['name']}",
        "description": tool["description"],
        "schema": tool["inputSchema"],
        "facts": FACTS.get(tool["name"], []),
        "risk": RISKS.get(tool["name"], "low"),
        "server": server,
        **more,
    }


def site(directory):
    """The bundle and the key of a site that lists the servers `plain`, `signed` and `time`."""
    known = plain_server.TOOLS[: [tool["name"] for tool in plain_server.TOOLS].index("bash")]
    tools = [entry("plain", tool) for tool in known]
    tools.append(entry("signed", plain_server.TOOLS[0], description_sha256=APPROVED))
    zone = {"type": "object", "properties": {"timezone": {"type": "string"}}, "additionalProperties": False}
    now = {"name": "get_current_time", "description": "Say what time it is.", "inputSchema": zone}
    tools.append(entry("time", now))

    def settings(data):
        data["roles"]["developer"] |= dict.fromkeys(("mcp:plain", "mcp:signed", "mcp:time"), True)
        data["servers"] |= dict.fromkeys(("plain", "signed", "time"), "any")

    return site_bundle(directory, change=settings, tools=tools)


class Site:
    """One test's place before the plain server: what was called there, and what the proxy said."""

    def __init__(self, daemon, directory):
        self.daemon, self.directory = daemon, directory
        self.pins, self.said = directory / "pins", directory / "stderr"
        self._count = directory / "count"

    def called(self):
        """Names of the tools that the server executed, in order."""
        return self._count.read_text().split() if self._count.exists() else []

    async def has_called(self, *names):
        """Wait until the server has been given exactly these calls."""
        while self.called() != list(names):  # noqa: ASYNC110 - another process writes the file
            await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def here(self, *, name="plain", server=SERVER, argv=(), environment=None, client=None, **wish):
        """A client of the proxy, both in this process; the server on the host."""
        async with self.daemon.client() as caller:
            session = await caller.create_session("mcp-proxy")
            wanted = Wish(
                server=name,
                argv=argv or (sys.executable, str(server)),
                on_host=True,
                environment={"COUNT": str(self._count), **(environment or {})},
                **{"pins": self.pins, **wish},
            )
            async with (
                Proxy(caller, session, wanted).server() as door,
                Client(door, **{"mode": "legacy", **(client or {})}) as speaker,
            ):
                yield speaker
            await caller.close_session(session)

    @contextlib.asynccontextmanager
    async def command(self, *words, environment=None):
        """A client of `opensafe mcp proxy` over its standard input and output."""
        argv = ["-m", "opensafe.cli", "mcp", "proxy", "--pins", str(self.pins), *words]
        parameters = StdioServerParameters(command=sys.executable, args=argv, env=self.environment(environment))
        with self.said.open("a") as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as speaker:
                yield speaker

    def environment(self, more=None):
        return {**os.environ, "OPENSAFE_SOCKET": str(self.daemon.socket_of("agent")), **(more or {})}


def text(result):
    (content,) = result.content
    return content.text


async def decisions(client, tool):
    """The latest records of a tool's permits and how they ended, by call."""
    return _permits([json.loads(record.line) async for record in client.tail_audit(200)], tool)


def on_disk(daemon, tool):
    """The same of the whole log, also of what was before a restart."""
    return _permits([json.loads(line) for line in daemon.audit_lines()], tool)


def _permits(found, tool):
    mine = [record for record in found if record["kind"] == "decision" and record["input"]["call"].get("tool") == tool]
    ends = {record["call_id"]: record["outcome"] for record in found if record["kind"] == "outcome"}
    return [(record, ends.get(record["call_id"])) for record in mine]
