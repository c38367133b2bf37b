"""A server of the official SDK over streamable HTTP, on a port of its own choice, which it prints."""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("plain")


@server.tool(description="Add two whole numbers.")
def add(a: int, b: int) -> int:
    return a + b


@server.tool(description="Look at a page.")
def visit(url: str) -> str:
    return f"seen {url}"


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", lifespan="on")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
