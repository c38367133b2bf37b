"""`opensafe console`: what agents try, why it was stopped, and people's decisions, in a browser."""

import pathlib
from typing import Annotated

import typer


def console(
    principal: Annotated[
        list[str] | None,
        typer.Option("--principal", metavar="NAME", help="Whom people can act as; repeats. Default: whom you may."),
    ] = None,
    socket: Annotated[
        list[pathlib.Path] | None,
        typer.Option("--socket", metavar="PATH", help="A socket elsewhere, of whom its directory names; repeats."),
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="WHERE", help="HOST:PORT on loopback, or the path of a unix socket.")
    ] = "127.0.0.1:8900",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A further name that browsers reach it under; repeats."),
    ] = None,
    user_header: Annotated[
        str, typer.Option("--user-header", metavar="HEADER", help="On a unix socket: where a proxy names its user.")
    ] = "",
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="USER=NAME", help="A proxy's user and its principal. Default: the same name."),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Browsers come over TLS, which a proxy ends.")] = False,
    reports: Annotated[
        pathlib.Path | None,
        typer.Option("--reports", metavar="DIR", help="Where reports of proof are. Default: the nightly unit's."),
    ] = None,
    audit_key: Annotated[
        pathlib.Path | None,
        typer.Option("--audit-key", metavar="FILE", help="The audit log's public key: proofs are checked with it."),
    ] = None,
    idle: Annotated[
        int, typer.Option("--idle", metavar="S", min=1, help="A sign-in ends after so long unused.")
    ] = 3600,
    demo: Annotated[
        bool, typer.Option("--demo", help="With a daemon of its own and the demo's session; as root.")
    ] = False,
) -> int:
    """Serve the console until interrupted. It prints a link for each principal; each works once, within ten minutes."""
    from . import consoling

    return consoling.perform(
        consoling.Asked(
            principals=tuple(principal or ()),
            sockets=tuple(socket or ()),
            listen=listen,
            names=tuple(allow_host or ()),
            header=user_header,
            users=tuple(user or ()),
            secure=tls,
            reports=reports,
            key=audit_key,
            idle_s=idle,
            demo=demo,
        )
    )
