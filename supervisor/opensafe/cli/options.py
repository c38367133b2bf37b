"""Options that several commands share, spelled once."""

import pathlib
from typing import Annotated

import typer

from opensafe.config import Paths

Principal = Annotated[
    str | None,
    typer.Option(
        "--principal",
        "-p",
        metavar="NAME",
        help="Speak as NAME: its socket below /run/opensafe. Default: OPENSAFE_SOCKET, else the first usable one.",
    ),
]
State = Annotated[pathlib.Path, typer.Option("--state", metavar="DIR", help="The daemon's state directory.")]
STATE = pathlib.Path(Paths().state)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
SandboxId = Annotated[
    str | None,
    typer.Option("--sandbox", metavar="ID", help="Run there. Default: a sandbox for this call alone."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the sandbox that was made, and print its id on stderr.")]
Wait = Annotated[bool, typer.Option("--wait", help="If the call is parked, wait for the reviewer's verdict.")]
CallId = Annotated[
    str | None,
    typer.Option(
        "--call-id",
        metavar="ID",
        help="Your id for the call, unique in its session. The same call sent again under it runs once.",
    ),
]
Tag = Annotated[
    str,
    typer.Option("--tag", metavar="TAG", help="A name to find the call by, unique among those that have not ended."),
]
Detach = Annotated[
    bool,
    typer.Option(
        "--detach",
        "-d",
        help="Leave it running and print its id: `opensafe exec` has the rest. Its sandbox stays.",
    ),
]
