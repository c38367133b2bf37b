"""`opensafe exec`: calls that were started already, looked at, attached to and signalled."""

import signal as signals
from typing import TYPE_CHECKING, Annotated

import typer

from opensafe.errors import InvalidArgument, NotFound

from . import options

if TYPE_CHECKING:  # the client would bring gRPC into every command
    from opensafe.client import CallInfo, Client

group = typer.Typer(help="Calls under way and ended: list, attach, signal.", no_args_is_help=True)

CallId = Annotated[str, typer.Argument(metavar="CALL", help="The call's id.")]
Session = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="The call's session. Default: those of all your sandboxes."),
]
_COLUMNS = ("CALL", "TAG", "TOOL", "STATE", "ENDED", "OUTPUT", "SESSION", "SANDBOX")


@group.command("list")
def list_(
    session: Session = None,
    state: Annotated[str, typer.Option("--state", metavar="STATE", help="parked, running or ended.")] = "",
    tag: Annotated[str, typer.Option("--tag", metavar="TAG", help="Those with this tag.")] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most N of each session.")] = 100,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """List calls, the latest first."""
    from . import present
    from .connect import ask
    from .report import encode, report

    async def work(client: "Client") -> list["CallInfo"]:
        found: list[CallInfo] = []
        for session_id in await _sessions(client, session):
            found += await _listed(client, session_id, state, tag, limit)
        return found

    found = ask(principal, work)
    if json:
        running = sum(call.state == "running" for call in found)
        present.raw(encode(report("exec-list", {"calls": len(found), "running": running}, {"calls": found})))
        return 0
    for line in present.table(_COLUMNS, [_row(call) for call in found]):
        present.out(line)
    return 0


@group.command("attach")
def attach(
    call: Annotated[str | None, typer.Argument(metavar="[CALL]", help="The call's id.")] = None,
    tag: Annotated[str, typer.Option("--tag", metavar="TAG", help="Instead: the open or latest call with it.")] = "",
    session: Session = None,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Go on after so many bytes of output.")] = 0,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Show a call's output from its beginning, or from --offset, and end as the call ends.

    Where the call has a terminal and this is one, keys are passed on. Ctrl-C ends the attachment, not the call, unless
    nobody else is attached and the call was not started with --detach.
    """
    from . import calls
    from .connect import ask

    if (call is None) == (tag == ""):
        raise InvalidArgument("name a call, or a tag", remedy="`opensafe exec list` has them.")

    async def work(client: "Client") -> int:
        found = await _find(client, session, call or "", tag)
        return await calls.follow(client, found, offset=offset, json=json)

    return ask(principal, work)


@group.command("signal")
def signal(
    call: CallId,
    name: Annotated[str, typer.Argument(metavar="SIGNAL", help="TERM, SIGTERM or 15.")] = "TERM",
    tree: Annotated[bool, typer.Option("--tree", help="To every process of the call.")] = False,
    session: Session = None,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Send a signal to a call's program."""
    from . import present
    from .connect import ask
    from .report import encode, report

    number = signal_number(name)

    async def work(client: "Client") -> "CallInfo":
        found = await _find(client, session, call, "")
        await client.signal_call(found.session_id, found.call_id, number, whole_tree=tree)
        return found

    found = ask(principal, work)
    if json:
        summary = {"call_id": found.call_id, "signal": number, "whole_tree": tree}
        present.raw(encode(report("exec-signal", summary, found)))
    return 0


def signal_number(name: str) -> int:
    """The number of a signal named as for kill(1). Raises InvalidArgument."""
    if name.isascii() and name.isdigit():
        return int(name)
    word = name.upper()
    try:
        return signals.Signals[word if word.startswith("SIG") else f"SIG{word}"].value
    except KeyError:
        raise InvalidArgument("there is no such signal", value=name, remedy="`kill -l` lists them.") from None


async def _sessions(client: "Client", session: str | None) -> list[str]:
    if session is not None:
        return [session]
    return list(dict.fromkeys(sandbox.session_id for sandbox in await client.list_sandboxes()))


async def _listed(client: "Client", session_id: str, state: str, tag: str, limit: int) -> list["CallInfo"]:
    found: list[CallInfo] = []
    cursor = ""
    while len(found) < limit:
        size = min(limit - len(found), 1000)
        page = await client.list_calls(session_id, state=state, tag=tag, page_size=size, cursor=cursor)
        found += page.calls
        cursor = page.next_cursor
        if not cursor:
            break
    return found


async def _find(client: "Client", session: str | None, call_id: str, tag: str) -> "CallInfo":
    """The call, in whichever session it is. Raises NotFound, and InvalidArgument where several have one."""
    found: list[CallInfo] = []
    for session_id in await _sessions(client, session):
        if tag:
            running = (await client.list_calls(session_id, tag=tag, state="running", page_size=1)).calls
            found += running or (await client.list_calls(session_id, tag=tag, page_size=1)).calls
            continue
        try:
            found.append(await client.get_call(session_id, call_id))
        except NotFound:
            continue
    if not found:
        raise NotFound("no session of yours has such a call", value=call_id or tag, remedy="See `opensafe exec list`.")
    if len(found) > 1:
        sessions = ", ".join(call.session_id for call in found)
        raise InvalidArgument("several sessions have such a call", value=sessions, remedy="Name one with --session.")
    return found[0]


def _row(call: "CallInfo") -> tuple[str, ...]:
    from .present import outcome_text

    ended = outcome_text(call.outcome) if call.outcome is not None else ""
    return (
        *(call.call_id, call.tag, call.tool, call.state, ended),
        *(str(call.retained_to), call.session_id, call.sandbox_id),
    )
