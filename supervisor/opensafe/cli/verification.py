"""What `audit verify` does: the logs against each other, and on request every allow against its archived bundle.

Runs offline and trusts no process: it needs the state directory, and for the ledger the right to read it.
"""

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from opensafe.audit.checkpoints import read_key, read_note
from opensafe.audit.masked import unmarked
from opensafe.audit.signed import Finding
from opensafe.audit.verify import AllowedDecision, Report, allowed_decisions, verify_state
from opensafe.model.chain import ChainBrokenError
from opensafe.model.records import DecisionRecord

from .report import report

#: Masked allows that people are shown.
_SHOWN: Final = 20


class MaskedAllow(msgspec.Struct, frozen=True, kw_only=True):
    """An allow whose program can't be shown to be what was allowed: a secret of it was masked.

    fields: JSON pointers to what was. verdict: what policy says otherwise of the call as it stands, "" where the same.
    """

    index: int
    decision_id: str
    fields: tuple[str, ...]
    verdict: str


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay found. judged: allows without masks; masked: those with."""

    judged: int
    masked: tuple[MaskedAllow, ...]
    findings: tuple[Finding, ...]


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The report with the findings of the replay in it, and the replay, if one was asked for."""

    report: Report
    replayed: Replayed | None = None


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
    again = replay_allows(state, allowed_decisions(state), trust)
    findings = (*found.findings, *again.findings)
    report = msgspec.structs.replace(found, ok=not findings, findings=findings)
    return Verification(report=report, replayed=again)


def replay_allows(state: pathlib.Path, allowed: Iterable[AllowedDecision], trust: Sequence[pathlib.Path]) -> Replayed:
    """Judge them again on the bundles in `state`. Raises BundleRefused."""
    from opensafe.policy import keys
    from opensafe.policy.location import archived_keys
    from opensafe.policy.replay import Replayer

    found = _Allows(allowed)
    files = trust or archived_keys(state)
    replayer = Replayer(state, keys.trust_files(files) if files else {})
    try:
        diverged = replayer.replay(found.records(), lambda: None)
    finally:
        replayer.close()
    for one in diverged:
        if one.index in found.masked:
            found.masked[one.index] = msgspec.structs.replace(found.masked[one.index], verdict=one.message)
        else:
            found.found("allow_not_reproduced", one.index, f"{one.decision_id}: {one.message}")
    return Replayed(judged=found.judged, masked=tuple(found.masked.values()), findings=tuple(found.findings))


class _Allows:
    """Those that are judged again, and what shows before that."""

    def __init__(self, allowed: Iterable[AllowedDecision]) -> None:
        self._allowed = allowed
        self.judged = 0
        self.masked: dict[int, MaskedAllow] = {}
        self.findings: list[Finding] = []

    def records(self) -> Iterator[tuple[int, DecisionRecord]]:
        """Each with its index. A break of the chain ends them."""
        try:
            for one in self._allowed:
                self._note(one.index, one.record)
                yield one.index, one.record
        except ChainBrokenError:
            return  # a finding of verify_state; what stands behind the break proves nothing

    def found(self, kind: str, index: int, message: str) -> None:
        """Add a finding of the log."""
        self.findings.append(Finding(kind=kind, where="audit", index=index, message=message))

    def _note(self, index: int, record: DecisionRecord) -> None:
        if not record.masked:
            self.judged += 1
            return
        self.masked[index] = MaskedAllow(
            index=index, decision_id=record.decision_id, fields=record.masked or (), verdict=""
        )
        if without := unmarked(record):
            self.found("masked_without_mask", index, f"{record.decision_id}: nothing is masked at {', '.join(without)}")


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
        **replay_figures(verified.replayed),
        "findings": len(found.findings),
        "log_bytes": found.bytes,
        "head": found.head,
        "key": found.key,
    }
    masked = verified.replayed.masked if verified.replayed is not None else ()
    return report("audit-verify", summary, {"findings": found.findings, "masked": masked})


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
        yield from replay_lines(verified.replayed)
    yield "verified" if found.ok else f"NOT VERIFIED: {len(found.findings)} findings"


def replay_figures(replayed: Replayed | None) -> dict[str, int | None]:
    """A replay in a report's summary."""
    return {
        "replayed": replayed.judged if replayed is not None else None,
        "masked": len(replayed.masked) if replayed is not None else None,
    }


def replay_lines(replayed: Replayed) -> Iterator[str]:
    """The same for people. A front under attack could call a record masked, so each that is gets its line."""
    masked = replayed.masked
    for one in masked[:_SHOWN]:
        said = one.verdict or "policy allows it with the masks in place"
        yield f"audit {one.index}: masked at {', '.join(one.fields)}: {said}"
    if len(masked) > _SHOWN:
        yield f"{len(masked) - _SHOWN} more are masked: --json has them all"
    yield f"replay: {replayed.judged} allows judged again; {len(masked)} in part, for masked secrets"
