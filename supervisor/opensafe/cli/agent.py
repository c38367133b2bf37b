"""`opensafe agent`: bans, and the planner. A ban ends what the subject runs, voids what it parked, and blocks what it
sends later.
"""

import pathlib
import time
from typing import Annotated

import typer

from opensafe.errors import InvalidArgument

from . import options

group = typer.Typer(help="Run an agent; agents and principals that may do nothing.", no_args_is_help=True)
Name = Annotated[
    str, typer.Argument(metavar="[NAME]", help="The agent's name. Without it: the whole principal of --of.")
]
Of = Annotated[str, typer.Option("--of", metavar="PRINCIPAL", help="Whose agent it is. Default: default.")]
#: Banning needs a role; in the default configuration this principal has it.
_OPERATOR = "operator"


@group.command("run")
def run(
    task: Annotated[str, typer.Argument(metavar="[TASK]", help="What to do, in words.")] = "",
    model: Annotated[str, typer.Option("--model", metavar="PROVIDER:NAME", help="Or MODULE:FACTORY.")] = "",
    script: Annotated[str, typer.Option("--script", metavar="FILE", help="A model's answers; `demo` is one.")] = "",
    resume: Annotated[str, typer.Option("--resume", metavar="ID", help="Go on with a run.")] = "",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="End with 194 where a reviewer has to decide.")] = False,
    runs: Annotated[
        pathlib.Path | None,
        typer.Option("--runs", metavar="DIR", help="Where runs are kept. Default: ~/.local/state/opensafe/runs."),
    ] = None,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Let a model work on a task, every call judged; each transition is printed. The run can be resumed by its id."""
    from . import agent_running

    wish = agent_running.Wish(
        task=task,
        model=model,
        script=script,
        resume=resume,
        wait=not no_wait,
        runs=runs,
        principal=principal,
        json=json,
    )
    return agent_running.perform(wish)


@group.command("ban")
def ban(
    name: Name = "",
    of: Of = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reaches the agent.")] = "",
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Ban an agent of a principal, or (without NAME) the whole principal."""
    from . import present
    from .connect import ask
    from .report import encode, report

    whose, text = _subject(name, of)
    effect = ask(principal, lambda client: client.ban(whose, name, reason), prefer=_OPERATOR)
    if json:
        summary = {"ended_calls": effect.ended_calls, "voided_reviews": effect.voided_reviews}
        present.raw(encode(report("agent-ban", summary, {"principal": whose, "agent": name, "reason": reason})))
    else:
        present.out(f"banned {text}: {effect.ended_calls} calls ended, {effect.voided_reviews} reviews void")
    return 0


@group.command("unban")
def unban(name: Name = "", of: Of = "", principal: options.Principal = None) -> int:
    """Lift a ban."""
    from . import present
    from .connect import ask

    whose, text = _subject(name, of)
    ask(principal, lambda client: client.unban(whose, name), prefer=_OPERATOR)
    present.out(f"{text} is no longer banned")
    return 0


@group.command("list")
def list_(principal: options.Principal = None, json: options.Json = False) -> int:
    """List the bans in force."""
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.list_bans(), prefer=_OPERATOR)
    if json:
        present.raw(encode(report("agent-list", {"bans": len(found)}, {"bans": found})))
        return 0
    for row in found:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row.banned_unix_ns / 1e9))
        present.out(f"{row.principal}  {row.agent or '(the whole principal)'}  {since}  by {row.decided_by}")
        if row.reason:
            present.out(f"  {row.reason}")
    if not found:
        present.say("nobody is banned")
    return 0


def _subject(name: str, of: str) -> tuple[str, str]:
    """The principal, and the subject in words."""
    if not name and not of:
        raise InvalidArgument("nobody is named", remedy="Name an agent, or with --of a whole principal.")
    whose = of or "default"
    return whose, f"agent {name} of {whose}" if name else f"principal {whose}"
