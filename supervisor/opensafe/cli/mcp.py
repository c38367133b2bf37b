"""`opensafe mcp`: the Model Context Protocol's front doors, as a server of tools and before other servers."""

import pathlib
from typing import Annotated

import typer

from . import mcp_proxy, options

group = typer.Typer(help="Serve agents over the Model Context Protocol.", no_args_is_help=True)


@group.command("serve")
def serve(
    http: Annotated[
        str,
        typer.Option("--http", metavar="HOST:PORT", help="Streamable HTTP there, at /mcp. Default: stdio."),
    ] = "",
    token_file: Annotated[
        pathlib.Path | None,
        typer.Option("--token-file", metavar="FILE", help="With --http: the bearer token. Only its owner may read it."),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="With --http on loopback: every user of this host may ask.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="With --http: a name that clients reach it under. Repeats."),
    ] = None,
    sessions: Annotated[
        int, typer.Option("--sessions", metavar="N", min=1, max=1000, help="With --http: sessions at once.")
    ] = 16,
    idle: Annotated[
        int, typer.Option("--idle", metavar="S", min=1, help="With --http: seconds a session outlives its client.")
    ] = 300,
    lease: Annotated[
        int, typer.Option("--lease", metavar="S", min=2, help="Seconds a sandbox outlives a server that was killed.")
    ] = 120,
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="The agent's name, in traces and bans.")
    ] = "mcp",
    template: Annotated[str, typer.Option("--template", metavar="IMAGE", help="The sandboxes' runner image.")] = "",
    network: Annotated[
        str, typer.Option("--network", metavar="NET", help="`none` or `gateway`. Default: the site's.")
    ] = "",
    principal: options.Principal = None,
) -> int:
    """Offer an MCP client bash, exec, read, write, edit, list, search and fetch in a sandbox, every call judged."""
    from . import mcp_serving

    wish = mcp_serving.Serving(
        http=http,
        token_file=token_file,
        no_token=no_token,
        allow_host=tuple(allow_host or ()),
        sessions=sessions,
        idle_s=idle,
        lease_s=lease,
        agent=agent,
        template=template,
        network=network,
        principal=principal,
    )
    return mcp_serving.perform(wish)


group.command("proxy")(mcp_proxy.proxy)
group.command("pins")(mcp_proxy.show_pins)
group.command("approve")(mcp_proxy.approve)
