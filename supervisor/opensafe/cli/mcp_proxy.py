"""`opensafe mcp proxy`, and the pins of the servers that it stands before."""

import os
import pathlib
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from opensafe.errors import InvalidArgument

from . import options, present

if TYPE_CHECKING:  # the SDK is an extra, and slow to import
    from opensafe.mcp.proxy_pins import Pins

#: Programs that say nothing of the server that they start.
_LAUNCHERS = frozenset({"bash", "bunx", "deno", "docker", "env", "node", "npx", "python", "python3", "sh", "uv", "uvx"})
_Server = Annotated[str, typer.Argument(metavar="SERVER", help="The server's name, as --name gives it.")]
_PinsAt = Annotated[
    pathlib.Path | None,
    typer.Option("--pins", metavar="DIR", help="Where pins are kept. Default: ~/.local/state/opensafe/mcp."),
]


def proxy(
    command: Annotated[list[str] | None, typer.Argument(metavar="[-- CMD…]", help="Starts the server.")] = None,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="A server of streamable HTTP, instead.")] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The server's name in the site's policy. Default: CMD's.")
    ] = "",
    sandbox: Annotated[
        str, typer.Option("--sandbox", metavar="TEMPLATE", help="The runner image that CMD runs in. Default: base.")
    ] = "",
    on_host: Annotated[
        bool, typer.Option("--on-host", help="Run CMD on this host as this user, with nothing around it.")
    ] = False,
    copy: Annotated[
        list[pathlib.Path] | None,
        typer.Option("--copy", metavar="PATH", help="A file or directory that CMD finds in /workspace. Repeats."),
    ] = None,
    network: Annotated[
        str, typer.Option("--network", metavar="NET", help="The sandbox's: `none` or `gateway`.")
    ] = "none",
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable for CMD. Repeats.")
    ] = None,
    bearer_env: Annotated[
        str, typer.Option("--bearer-env", metavar="NAME", help="With --url: the variable that holds its token.")
    ] = "",
    wait: Annotated[
        int, typer.Option("--wait", metavar="S", min=0, help="Seconds that a parked call waits for its reviewer.")
    ] = 0,
    timeout: Annotated[
        int, typer.Option("--timeout", metavar="S", min=1, max=3600, help="Seconds that a call may take.")
    ] = 120,
    site_pins: Annotated[
        bool, typer.Option("--site-pins", help="Only the site's tool manifest pins descriptions, no first sight.")
    ] = False,
    pins: _PinsAt = None,
    allow_sampling: Annotated[
        bool, typer.Option("--allow-sampling", help="The server may ask the client's model.")
    ] = False,
    allow_elicitation: Annotated[
        bool, typer.Option("--allow-elicitation", help="The server may ask the client's user.")
    ] = False,
    manifest: Annotated[
        bool, typer.Option("--manifest", help="Print the server's tools as entries of a tool manifest, and end.")
    ] = False,
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="Serve streamable HTTP there. Default: stdio.")
    ] = "",
    token_file: Annotated[
        pathlib.Path | None, typer.Option("--token-file", metavar="FILE", help="With --http: the bearer token.")
    ] = None,
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="The agent's name, in traces and bans.")
    ] = "mcp-proxy",
    principal: options.Principal = None,
) -> int:
    """Stand before another MCP server: its tools are vetted and pinned, and every call of them is judged."""
    try:
        from opensafe import listening
        from opensafe.mcp import proxy_run
        from opensafe.mcp.proxy import Wish
        from opensafe.mcp.proxy_framing import Bounds
        from opensafe.mcp.proxy_pins import directory
        from opensafe.mcp.proxy_places import name_of
        from opensafe.mcp.proxy_vetting import SERVER
        from opensafe.mcp.server_http import Door, read_token
    except ImportError as error:
        raise InvalidArgument(str(error)) from None
    from .connect import ask

    argv = tuple(command or ())
    if bool(argv) == bool(url):
        raise InvalidArgument("one server is needed", remedy="Give a command after --, or --url URL.")
    if url and (on_host or sandbox or copy or env):
        raise InvalidArgument("a server behind a URL is not started by the proxy", value=url)
    if on_host and (sandbox or copy):
        raise InvalidArgument("on the host there is no sandbox", remedy="Leave --sandbox and --copy out.")
    if url and urlsplit(url).scheme not in {"http", "https"}:
        raise InvalidArgument("no URL of HTTP", value=url)
    server = name or name_of(urlsplit(url).hostname or "" if url else argv[0])
    if not SERVER.fullmatch(server) or "__" in server or (not name and server in _LAUNCHERS):
        raise InvalidArgument(
            "this can't be a server's name",
            value=server,
            limit="32 of A-Za-z0-9_.-, without __",
            remedy="Give one with --name.",
        )
    door = None
    if http:
        host, port = listening.address(http, example="127.0.0.1:8765")
        if token_file is None:
            raise InvalidArgument("over HTTP a token is needed", remedy="Give --token-file FILE.")
        door = Door(host=host, port=port, token=read_token(token_file))
    if on_host:
        present.say(f"the server {server} runs on this host, as this user, with nothing around it")
    wish = Wish(
        server=server,
        argv=argv,
        url=url,
        headers=_bearer(bearer_env),
        on_host=on_host,
        template=sandbox,
        network=network,
        copies=tuple(copy or ()),
        environment=dict(_pair(text) for text in env or ()),
        agent=agent,
        wait_s=float(wait),
        pins=None if site_pins else pins or directory(),
        sampling=allow_sampling,
        elicitation=allow_elicitation,
        bounds=Bounds(call_s=float(timeout), start_s=30.0 + wait),
    )
    if manifest:
        present.raw(ask(principal, lambda client: proxy_run.manifest(client, wish)))
    else:
        ask(principal, lambda client: proxy_run.run(client, wish, door))
    return 0


def show_pins(server: _Server, at: _PinsAt = None) -> int:
    """List the digests that a server's tools are pinned to."""
    for tool, digest in _pins(server, at).read().items():
        present.out(f"{digest}  {tool}")
    return 0


def approve(
    server: _Server,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Its tool.")],
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="What it shows now, as the proxy says.")],
    at: _PinsAt = None,
) -> int:
    """Pin a changed tool to what it shows now. Look at it first: `opensafe mcp proxy --manifest`."""
    _pins(server, at).approve(tool, digest)
    present.out(f"{server}: {tool} is pinned to {digest}")
    return 0


def _pins(server: str, at: pathlib.Path | None) -> "Pins":
    try:
        from opensafe.mcp.proxy_pins import Pins, directory
        from opensafe.mcp.proxy_vetting import SERVER
    except ImportError as error:
        raise InvalidArgument(str(error)) from None
    if not SERVER.fullmatch(server):
        raise InvalidArgument("this can't be a server's name", value=server)
    return Pins(server, at or directory())


def _bearer(variable: str) -> dict[str, str]:
    if not variable:
        return {}
    token = os.environ.get(variable)
    if not token:
        raise InvalidArgument("the variable with the token is not set", value=variable)
    return {"authorization": f"Bearer {token}"}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidArgument("no NAME=VALUE", value=text)
    return name, value
