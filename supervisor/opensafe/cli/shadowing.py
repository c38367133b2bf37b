"""`opensafe policy shadow`: a candidate bundle that judges along and decides nothing, and the rules in shadow."""

import pathlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import options

if TYPE_CHECKING:
    from opensafe.model.shadow import Candidate, ShadowReport

group = typer.Typer(help="What other rules would have said of the calls under way.", no_args_is_help=True)

#: Whose socket is tried first: shadow needs a role that agents don't have.
_PREFER: Final = "operator"


@group.command("start")
def start(
    bundle: Annotated[pathlib.Path, typer.Argument(metavar="BUNDLE", help="Signed with a key that the daemon trusts.")],
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Let a candidate judge every call along, after the verdict that counts. A restart of the daemon ends it."""
    from opensafe.policy import archive

    from . import present
    from .connect import ask
    from .report import encode, report

    content = archive.read_file(bundle)
    with present.progress("verifying the candidate"):
        started = ask(principal, lambda client: client.start_shadow(content), prefer=_PREFER)
    if json:
        present.raw(encode(report("policy-shadow-start", _summary(started), started)))
    else:
        present.out(f"candidate {started.revision} judges along, signed by {started.key}")
    return 0


@group.command("stop")
def stop(principal: options.Principal = None, json: options.Json = False) -> int:
    """End the candidate and print what came of it."""
    from . import present
    from .connect import ask
    from .report import encode, report

    stopped = ask(principal, lambda client: client.stop_shadow(), prefer=_PREFER)
    if json:
        present.raw(encode(report("policy-shadow-stop", _summary(stopped), stopped)))
    else:
        for line in _candidate_lines(stopped):
            present.out(line)
    return 0


@group.command("report")
def show(principal: options.Principal = None, json: options.Json = False) -> int:
    """Show what the candidate would have said so far, and what each rule in shadow would have."""
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.get_shadow(), prefer=_PREFER)
    if json:
        summary = {
            "running": found.candidate is not None,
            **(_summary(found.candidate) if found.candidate else {}),
            "decisions": found.decisions,
            "shadow_rules": len(found.rules),
        }
        present.raw(encode(report("policy-shadow", summary, found)))
    else:
        for line in lines(found):
            present.out(line)
    return 0


def lines(found: "ShadowReport") -> Iterator[str]:
    """The report for people."""
    from . import present

    if found.candidate is None:
        yield "candidate  none"
    else:
        yield from _candidate_lines(found.candidate)
    if found.samples:
        yield ""
        rows = [
            (sample.decision_id, sample.tool or "Sandbox", sample.enforced, sample.candidate)
            for sample in found.samples
        ]
        rules = [", ".join(dict.fromkeys(hit.id for hit in sample.rules)) for sample in found.samples]
        heading, *table = present.table(("DECISION", "TOOL", "ENFORCED", "CANDIDATE"), rows)
        yield heading
        for row, named in zip(table, rules, strict=True):
            yield row
            yield f"  {named}"
    if found.rules:
        yield ""
        yield f"rules in shadow, over {found.decisions} decisions since {_time(found.since_us)}"
        for rule in found.rules:
            yield f"{rule.hits:>6}  {rule.id}: {rule.would_change} would be another verdict"
            yield f"        last {rule.last_decision_id}: {rule.last_reason}"


def _candidate_lines(found: "Candidate") -> Iterator[str]:
    yield f"candidate  {found.revision}, since {_time(found.started_us)} by {found.started_by}"
    yield f"evaluated  {found.evaluated}, {found.same} the same ({found.other_rules} of them by other rules)"
    counts = ", ".join(f"{number} {kind.replace('>', ' → ')}" for kind, number in found.transitions.items())
    yield f"differs    {found.differed}{': ' + counts if counts else ''}"
    for rule, number in found.rules.items():
        yield f"{number:>9}  {rule}"
    if found.no_verdict:
        yield f"no verdict {found.no_verdict}, which count as blocks"
    if found.dropped:
        yield f"dropped    {found.dropped}: too many at once, or a fault that the daemon's log tells"


def _summary(found: "Candidate") -> dict[str, str | int]:
    return {
        "candidate_revision": found.revision,
        "evaluated": found.evaluated,
        "same": found.same,
        "differed": found.differed,
        "other_rules": found.other_rules,
        "dropped": found.dropped,
        "no_verdict": found.no_verdict,
    }


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="seconds")
