"""What `audit verify` does: the logs against each other, and on request every allow against its archived bundle.

Runs offline and trusts no process: it needs the state directory, and for the ledger the right to read it.
"""

import pathlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from opensafe.audit.checkpoints import read_key, read_note
from opensafe.audit.signed import Finding
from opensafe.audit.verify import AllowedDecision, Report, allowed_decisions, verify_state
from opensafe.model.chain import ChainBrokenError
from opensafe.model.records import DecisionRecord

from .report import report


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The report with the findings of the replay in it.

    replayed: allows judged again, None if not asked for; masked: those that can't be, for what was masked in them.
    """

    report: Report
    replayed: int | None = None
    masked: int = 0


def run(
    state: pathlib.Path,
    *,
    replay: bool,
    trust: Sequence[pathlib.Path] = (),
    key: pathlib.Path | None = None,
    checkpoints: Sequence[pathlib.Path] = (),
) -> Verification:
    """Verify `state`. The options: see audit.py. Raises AuditError where there is nothing to read, BundleRefused."""
    notes = [read_note(path) for path in checkpoints]
    found = verify_state(state, key=read_key(key) if key is not None else None, notes=notes)
    if not replay:
        return Verification(report=found)
    done, diverged = replay_allows(state, allowed_decisions(state), trust)
    findings = (*found.findings, *diverged)
    report = msgspec.structs.replace(found, ok=not findings, findings=findings)
    return Verification(report=report, replayed=done["judged"], masked=done["masked"])


def replay_allows(
    state: pathlib.Path, allowed: Iterable[AllowedDecision], trust: Sequence[pathlib.Path]
) -> tuple[Counter[str], list[Finding]]:
    """Judge them again on the bundles in `state`: how many could be and how many not, and what came out otherwise."""
    from opensafe.policy import keys
    from opensafe.policy.location import archived_keys
    from opensafe.policy.replay import Replayer

    done = Counter[str]()
    files = trust or archived_keys(state)
    replayer = Replayer(state, keys.trust_files(files) if files else {})
    try:
        diverged = replayer.replay(_allows(allowed, done), lambda: done.update(("judged",)))
    finally:
        replayer.close()
    return done, [
        Finding(
            kind="allow_not_reproduced", where="audit", index=one.index, message=f"{one.decision_id}: {one.message}"
        )
        for one in diverged
    ]


def _allows(found: Iterable[AllowedDecision], done: Counter[str]) -> Iterator[tuple[int, DecisionRecord]]:
    """Those that can be judged again; the others are counted."""
    try:
        for allowed in found:
            if allowed.record.masked:
                done.update(("masked",))
            else:
                yield allowed.index, allowed.record
    except ChainBrokenError:
        return  # a finding of verify_state; what stands behind the break proves nothing


def as_report(verified: Verification) -> dict[str, Any]:
    """The `--json` report."""
    found = verified.report
    summary = {
        "ok": found.ok,
        "records": found.records,
        "decisions": found.decisions,
        "executions": found.executions,
        "ledger_entries": found.ledger_entries,
        "checkpoints": found.checkpoints,
        "signed_records": found.signed,
        "replayed": verified.replayed,
        "masked": verified.masked,
        "findings": len(found.findings),
        "log_bytes": found.bytes,
        "head": found.head,
        "key": found.key,
    }
    return report("audit-verify", summary, {"findings": found.findings})


def lines(verified: Verification) -> Iterator[str]:
    """The same for people."""
    found = verified.report
    for finding in found.findings:
        yield f"{finding.where} {finding.index}: {finding.kind}: {finding.message}"
    yield f"audit log: {found.records} records, {found.decisions} decisions, head {found.head}"
    yield f"ledger: {found.ledger_entries} entries, {found.executions} executions"
    if found.key:
        yield f"checkpoints: {found.checkpoints} hold; {found.signed} of {found.records} records are signed"
        yield f"key: {found.key}"
    else:
        yield "checkpoints: none was looked at, for want of a public key"
    if verified.replayed is not None:
        yield f"replay: {verified.replayed} allows judged again; {verified.masked} can't be, for masked secrets"
    yield "verified" if found.ok else f"NOT VERIFIED: {len(found.findings)} findings"
