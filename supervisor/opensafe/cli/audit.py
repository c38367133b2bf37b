"""`opensafe audit`: the record, as it is written and as it verifies."""

import enum
import pathlib
from typing import Annotated

import typer

from opensafe.model.decision import Action

from . import options

group = typer.Typer(help="The record of every decision and outcome.", no_args_is_help=True)


class Form(enum.StrEnum):
    """What `audit export` writes."""

    OCSF = "ocsf"
    CEF = "cef"
    JSONL = "jsonl"
    EVIDENCE = "evidence"


@group.command("tail")
def tail(
    last: Annotated[int, typer.Option("--last", "-n", min=0, max=10_000, help="Records to start with.")] = 10,
    start: Annotated[
        int | None,
        typer.Option(
            "--from", metavar="INDEX", min=0, help="Start with this record instead, at most the 10000th from the end."
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with records as they are written.")] = False,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Print records, one a line, as they stand in the log (byte for byte unless to a terminal)."""
    from . import looking

    return looking.tail(principal, last, start, follow=follow, json=json)


@group.command("search")
def search(
    text: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="What the line holds, upper and lower case alike.")
    ] = "",
    session: Annotated[str, typer.Option("--session", metavar="ID", help="Only records of this session.")] = "",
    call: Annotated[str, typer.Option("--call", metavar="ID", help="Only records of this call.")] = "",
    of: Annotated[str, typer.Option("--of", metavar="PRINCIPAL", help="Only records of this principal.")] = "",
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only of this kind, such as decision; repeat.")
    ] = None,
    action: Annotated[Action | None, typer.Option("--action", help="Only decisions with this action.")] = None,
    rule: Annotated[
        str, typer.Option("--rule", metavar="ID", help="Only with this rule, or one below it: egress, egress.domain.")
    ] = "",
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only after it: 90m, 24h, 7d, or 2026-01-31T12:00.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only before it.")] = None,
    before: Annotated[int, typer.Option("--before", metavar="INDEX", min=0, help="Only records before this one.")] = 0,
    last: Annotated[int, typer.Option("--last", "-n", min=1, max=10_000, help="As many at most.")] = 100,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Print the records that match all that is given, the newest first, as `tail` does. Asks the daemon."""
    from . import looking, moments

    wanted = {
        "text": text,
        "session_id": session,
        "call_id": call,
        "principal": of,
        "kinds": kind or (),
        "action": action,
        "rule": rule,
        "since_us": moments.since(since),
        "until_us": moments.since(until, "--until"),
    }
    return looking.search(principal, wanted, before, last, json=json)


@group.command("verify")
def verify(
    state: options.State = options.STATE,
    replay: Annotated[
        bool, typer.Option("--replay", help="Judge every allow again, with the archived bundle of its revision.")
    ] = False,
    trust: Annotated[
        list[pathlib.Path] | None,
        typer.Option("--trust", metavar="FILE", help="With --replay: a public key. Default: those the daemon trusted."),
    ] = None,
    key: Annotated[
        pathlib.Path | None,
        typer.Option("--key", metavar="FILE", help="Public key of the checkpoints. Default: the one beside the log."),
    ] = None,
    checkpoint: Annotated[
        list[pathlib.Path] | None,
        typer.Option("--checkpoint", metavar="FILE", help="A checkpoint that was kept elsewhere; more than once."),
    ] = None,
    proof: Annotated[
        pathlib.Path | None,
        typer.Option("--proof", metavar="FILE", help="Check this proof instead, with the --key alone."),
    ] = None,
    evidence: Annotated[
        pathlib.Path | None,
        typer.Option("--evidence", metavar="FILE", help="Verify this evidence bundle instead, with the --key alone."),
    ] = None,
    json: options.Json = False,
) -> int:
    """Verify audit log and ledger, hold them against each other and against what was signed. Needs no daemon."""
    from . import evidence as bundles
    from . import exits, present, proving, verification
    from .report import encode

    if proof is not None:
        return proving.check(proof, key, json=json)
    if evidence is not None:
        return bundles.check(evidence, key, replay=replay, trust=trust or (), json=json)
    found = verification.run(state, replay=replay, trust=trust or (), key=key, checkpoints=checkpoint or ())
    if json:
        present.raw(encode(verification.as_report(found)))
    else:
        for line in verification.lines(found):
            present.out(line)
    return exits.Exit.OK if found.report.ok else exits.Exit.GOAL_MISSED


@group.command("prove")
def prove(
    index: Annotated[int | None, typer.Argument(metavar="INDEX", min=0, help="The record to prove.")] = None,
    since: Annotated[
        pathlib.Path | None,
        typer.Option("--from", metavar="FILE", help="Prove instead that the log only grew since this checkpoint."),
    ] = None,
    checkpoint: Annotated[
        pathlib.Path | None,
        typer.Option("--checkpoint", metavar="FILE", help="The checkpoint to prove against. Default: the last."),
    ] = None,
    state: options.State = options.STATE,
    output: Annotated[
        pathlib.Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write the proof.")
    ] = None,
) -> int:
    """Print a proof that `audit verify --proof FILE --key FILE` checks anywhere, without the log."""
    from . import proving

    return proving.make(state, index, since, checkpoint, output)


@group.command("export")
def export(
    form: Annotated[Form, typer.Option("--format", help="Lines for another system, or a bundle that can be verified.")],
    session: Annotated[str, typer.Option("--session", metavar="ID", help="Only records of this session.")] = "",
    call: Annotated[str, typer.Option("--call", metavar="ID", help="Only records of this call.")] = "",
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only records after it: 90m, 24h, 7d, or 2026-01-31T12:00."),
    ] = None,
    output: Annotated[
        pathlib.Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write. Default: stdout.")
    ] = None,
    state: options.State = options.STATE,
) -> int:
    """Write records for another system (ocsf, cef, jsonl), or as evidence that verifies elsewhere. Needs no daemon.

    Lines are masked once more and say on standard error what has no event in their format; a log that is not intact
    ends them with a finding and status 1. Evidence holds records as they are.
    """
    from opensafe.audit.scope import Scope

    from . import evidence, exporting, moments

    scope = Scope(session=session, call=call, since_us=moments.since(since))
    if form is Form.EVIDENCE:
        return evidence.make(state, scope, output)
    return exporting.run(state, form.value, scope, output)
