"""`opensafe policy replay`: what a candidate would have said of the decisions on record. Reads files alone.

Records come from a state directory, whose chain is verified on the way, or from a file of lines that somebody took out
of the log, which is held against nothing.
"""

import enum
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from opensafe.errors import AuditError, InvalidArgument

from . import moments, options

if TYPE_CHECKING:
    from opensafe.model.records import DecisionRecord, Record
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
    records: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--records", metavar="FILE", help="Instead of --state: records as `audit tail` prints them, unverified."
        ),
    ] = None,
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
                _decided(state, records, moments.since(since)),
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
            "candidate_number": bundle.number,
            "candidate_digest": bundle.digest,
            "candidate_key": bundle.key,
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


def _decided(
    state: pathlib.Path, records: pathlib.Path | None, since_us: int
) -> Iterator[tuple[int, "DecisionRecord"]]:
    """Decisions with their indexes."""
    from opensafe.model.records import DecisionRecord

    for index, record in _in_state(state) if records is None else _in_file(records):
        if isinstance(record, DecisionRecord) and record.time_us >= since_us:
            yield index, record


def _in_state(state: pathlib.Path) -> Iterator[tuple[int, "Record"]]:
    from opensafe.audit.verify import read_records
    from opensafe.model.chain import ChainBrokenError

    try:
        for link, record in read_records(state):
            yield link.index, record
    except ChainBrokenError as error:
        raise AuditError(f"the log is not intact: {error}", remedy="`opensafe audit verify` says more.") from error


def _in_file(path: pathlib.Path) -> Iterator[tuple[int, "Record"]]:
    import msgspec

    from opensafe.model.records import decode

    class Place(msgspec.Struct):
        index: int

    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield msgspec.json.decode(line, type=Place).index, decode(line)
                except (msgspec.DecodeError, RecursionError) as error:
                    raise InvalidArgument(f"line {number} is no record: {error}", value=path) from error
    except OSError as error:
        raise InvalidArgument(f"the file can't be read: {error.strerror}", value=path) from error
