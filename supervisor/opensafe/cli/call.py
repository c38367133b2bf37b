"""`opensafe call`: one tool call as an agent would send it."""

from typing import Annotated, Any

import typer

from opensafe.errors import InvalidArgument, LimitExceeded

from . import options

#: Larger than the daemon's own cap, which is configurable and answers with the better message.
MAX_ARGUMENTS_BYTES = 64 << 20


def call(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Bash, Exec, Read, Write, List … (docs/tools.md).")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="The tool's arguments; - reads them from stdin.")],
    sandbox: options.SandboxId = None,
    keep: options.Keep = False,
    wait: options.Wait = False,
    detach: options.Detach = False,
    tag: options.Tag = "",
    call_id: options.CallId = None,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Send one tool call: judged, then run if policy allows. The exit status is the tool's own."""
    from . import calls
    from .connect import ask

    wish = calls.Wish(
        tool=tool,
        arguments=decode(arguments),
        call_id=call_id,
        sandbox_id=sandbox,
        keep=keep,
        wait=wait,
        json=json,
        detach=detach,
        tag=tag,
    )
    return ask(principal, lambda client: calls.perform(client, wish))


def decode(text: str) -> dict[str, Any]:
    """A tool's arguments from the command line; `-` reads them from standard input. Raises RequestError."""
    import sys

    import msgspec

    data = text.encode("utf-8", "surrogateescape")
    if text == "-":
        data = sys.stdin.buffer.read(MAX_ARGUMENTS_BYTES + 1)
        if len(data) > MAX_ARGUMENTS_BYTES:
            raise LimitExceeded("the arguments are too long", limit=f"{MAX_ARGUMENTS_BYTES} bytes")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"the arguments are no JSON object: {error}", value=text, remedy="""Such as '{"command": "make test"}'."""
        ) from error
