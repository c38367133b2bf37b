"""What `audit export --format evidence` and `audit verify --evidence` do. Both are offline."""

import pathlib
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from opensafe import __version__
from opensafe.audit import checkpoints
from opensafe.audit.evidence import Manifest, Sources, write
from opensafe.audit.evidence_check import Verified, unpack
from opensafe.audit.scope import Scope
from opensafe.audit.verify import allowed_of
from opensafe.errors import InvalidArgument
from opensafe.policy.location import archived_keys, archived_path
from opensafe.telemetry.excerpt import excerpt

from . import exits, present, verification
from .report import encode, report


def make(state: pathlib.Path, scope: Scope, output: pathlib.Path | None) -> int:
    """Write a bundle. Raises AuditError, InvalidArgument."""
    if output is None:
        raise InvalidArgument("evidence is written to a file", remedy="Name one with --output.")
    sources = Sources(
        keys=archived_keys(state),
        bundle=partial(archived_path, state),
        traces=partial(excerpt, state / "front"),
    )
    made = write(state, scope, output, sources, __version__)
    present.say(f"{made.records} records of {made.origin}, signed at {made.size}; {len(made.files) + 1} files")
    if made.unsigned:
        present.say(f"{made.unsigned} more are not signed yet and are left out; the next checkpoint covers them")
    for digest in made.missing:
        present.say(f"the bundle {digest} is not in the archive")
    return exits.Exit.OK


def check(
    path: pathlib.Path, key: pathlib.Path | None, *, replay: bool, trust: Sequence[pathlib.Path], json: bool
) -> int:
    """Verify a bundle; 1 where it does not hold. Raises AuditError, BundleRefused, InvalidArgument."""
    if key is None:
        raise InvalidArgument("evidence is verified against a public key", remedy="Give one by --key FILE.")
    with unpack(path, checkpoints.read_key(key)) as evidence:
        found = evidence.verify()
        again = None
        if replay and found.report.ok:
            again = verification.replay_allows(
                evidence.directory,
                allowed_of(evidence.records()),
                trust or archived_keys(evidence.directory),
            )
            judged = msgspec.structs.replace(found.report, ok=not again.findings, findings=again.findings)
            found = msgspec.structs.replace(found, report=judged)
    ok = found.report.ok
    if json:
        summary: dict[str, bool | int | None] = {"ok": ok, "records": found.report.records}
        summary |= verification.replay_figures(again)
        summary["findings"] = len(found.report.findings)
        details = {"manifest": found.manifest, "findings": found.report.findings}
        details |= {"masked": again.masked if again else ()}
        present.raw(encode(report("audit-evidence", summary, details)))
    else:
        for line in _lines(found, again):
            present.out(line)
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


def _lines(found: Verified, replayed: verification.Replayed | None) -> Iterator[str]:
    for finding in found.report.findings:
        yield f"{finding.where} {finding.index}: {finding.kind}: {finding.message}"
    yield f"evidence: {_scope(found.manifest)}, {found.report.records} records, {found.report.decisions} decisions"
    if found.checkpoint is not None:
        yield f"checkpoint: {found.checkpoint.size} records of {found.checkpoint.origin}"
    yield f"ledger: {found.report.ledger_entries} entries"
    yield f"key: {found.report.key}"
    if replayed is not None:
        yield from verification.replay_lines(replayed)
    yield "verified" if found.report.ok else f"NOT VERIFIED: {len(found.report.findings)} findings"


def _scope(manifest: Manifest) -> str:
    scope = manifest.scope
    parts = (scope.session, scope.call, "from a time on" if scope.since_us else "")
    return " ".join(filter(None, parts)) or "the whole log"
