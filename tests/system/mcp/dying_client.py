"""A client that makes one call, says so, and waits to be killed. Arguments: a URL, or `--`, socket, command."""

import asyncio
import sys

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.system.mcp.serving import over_http


async def call(connecting):
    async with connecting as client:
        await client.call_tool("bash", {"command": "touch here"})
        print("called", flush=True)  # noqa: T201 - the test waits for it
        await asyncio.Event().wait()


if sys.argv[1] == "--":
    socket, command, *arguments = sys.argv[2:]
    server = StdioServerParameters(command=command, args=arguments, env={"OPENSAFE_SOCKET": socket})
    asyncio.run(call(Client(server)))
else:
    asyncio.run(call(over_http(sys.argv[1])))
