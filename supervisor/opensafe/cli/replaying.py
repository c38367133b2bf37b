"""`opensafe policy replay`: what a candidate would have said of the decisions on record. Reads files alone."""

import enum
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from opensafe.errors import AuditError

from . import moments, options

if TYPE_CHECKING:
    from opensafe.model.records import DecisionRecord
    from opensafe.policy.compare import Change, Comparison

_COLUMNS: Final = ("CALL", "TOOL", "OLD", "NEW", "RULES")
#: A terminal's width that the table keeps to.
_WIDTH: Final = 80


class FailOn(enum.StrEnum):
    """Which changes end the command with 1."""

    NEVER = "never"
    LOOSENED = "loosened"
    TIGHTENED = "tightened"
    ANY = "any"


def replay(
    candidate: Annotated[
        pathlib.Path, typer.Option("--candidate", metavar="BUNDLE", help="The bundle to try; need not be signed.")
    ],
    state: Annotated[
        pathlib.Path, typer.Option("--state", metavar="DIR", help="The daemon's state directory, or a copy.")
    ] = options.STATE,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only decisions after it: 90m, 24h, 7d, or 2026-01-31T12:00."),
    ] = None,
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=0, max=1_000_000, help="List the first N changes; all count.")
    ] = 1000,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Which changes end the command with 1.")] = FailOn.NEVER,
    json: options.Json = False,
) -> int:
    """Judge every recorded call again, on a candidate bundle, and show where the verdict would be another.

    Calls are read anew from their sealed arguments with the candidate's own classes of paths and hosts; session,
    budget and approval are taken as recorded. Allowed, reviewed and blocked calls count alike.
    """
    from opensafe.policy.compare import compare
    from opensafe.policy.engine import Engine

    from . import exits, present
    from .candidate import open_candidate
    from .report import encode, report

    bundle = open_candidate(candidate)
    engine = Engine(bundle, deadline_ms=1000)
    try:
        with present.steps() as step:
            found = compare(
                engine,
                _decisions(state, moments.since(since)),
                keep=keep,
                seen=lambda number: step(f"{number} calls") if number % 500 == 0 else None,
            )
    finally:
        engine.close()
    ok = not _fails(found, fail_on)
    if json:
        summary = {
            "ok": ok,
            "candidate_revision": bundle.revision,
            "decisions": found.decisions,
            "changed": found.changed,
            "loosened": found.loosened,
            "tightened": found.tightened,
            "other_rules": found.other_rules,
            "calls_per_s": round(found.calls_per_s, 1),
            "seconds": round(found.seconds, 3),
        }
        present.raw(encode(report("policy-replay", summary, found)))
    else:
        for line in lines(found, bundle.revision):
            present.out(line)
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


def lines(found: "Comparison", revision: str) -> Iterator[str]:
    """The report for people: a table of changes that keeps to 80 columns, then the counts."""
    from . import present

    if found.changes:
        yield from present.table(_COLUMNS, [_row(change) for change in found.changes])
        if found.changed > len(found.changes):
            yield f"and {found.changed - len(found.changes)} more (--keep)"
        yield ""
    for rule, number in found.rules.items():
        yield f"{number:>6}  {rule}"
    counts = ", ".join(f"{number} {kind.replace('>', ' → ')}" for kind, number in found.transitions.items())
    yield f"candidate  {revision}"
    yield f"decisions  {found.decisions}, {found.same} the same ({found.other_rules} of them by other rules)"
    yield f"changed    {found.changed}{': ' + counts if counts else ''}"
    yield f"           {found.loosened} loosened, {found.tightened} tightened"
    if found.skipped:
        yield f"skipped    {found.skipped}: no calls or sandboxes, or secrets were masked in them"
    yield f"speed      {found.calls_per_s:.0f} calls/s"


def _row(change: "Change") -> tuple[str, ...]:
    call = change.call_id or change.decision_id
    used = 2 * (len(_COLUMNS) - 1) + 6 + 6
    call = call if len(call) <= 20 else f"{call[:19]}…"
    tool = (change.tool or "Sandbox")[:12]
    rules = ", ".join(dict.fromkeys(hit.id for hit in change.rules))
    room = _WIDTH - used - 20 - 12
    return call, tool, change.old, change.new, rules if len(rules) <= room else f"{rules[: room - 1]}…"


def _fails(found: "Comparison", fail_on: FailOn) -> bool:
    match fail_on:
        case FailOn.NEVER:
            return False
        case FailOn.LOOSENED:
            return found.loosened > 0
        case FailOn.TIGHTENED:
            return found.tightened > 0
        case FailOn.ANY:
            return found.changed > 0


def _decisions(state: pathlib.Path, since_us: int) -> Iterator[tuple[int, "DecisionRecord"]]:
    from opensafe.audit.verify import read_records
    from opensafe.model.chain import ChainBrokenError
    from opensafe.model.records import DecisionRecord

    try:
        for link, record in read_records(state):
            if isinstance(record, DecisionRecord) and record.time_us >= since_us:
                yield link.index, record
    except ChainBrokenError as error:
        raise AuditError(f"the log is not intact: {error}", remedy="`opensafe audit verify` says more.") from error
