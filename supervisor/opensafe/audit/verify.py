"""Offline verification of a state directory: the audit log's chain, the warden's ledger, and each against the other.

The log says what was decided, the ledger (which only root can write) what was started. An execution without a
decision, one that differs from what was decided, and an outcome of something never started are findings. A cut tail
of either shows where the other still knows of it, and against every checkpoint (signed.py), of which those are worth
most that were kept elsewhere.
"""

import pathlib
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from opensafe.errors import AuditError
from opensafe.model import chain
from opensafe.model.checkpoint import VerifierKey
from opensafe.model.connection import covers
from opensafe.model.decision import Action
from opensafe.model.outcome import NEVER_EXECUTED
from opensafe.model.records import ConnectionRecord, DecisionRecord, OutcomeRecord, Record

from .checkpoints import read_key, read_notes
from .segment import read_lines, read_log, segment_paths
from .signed import Finding, Signed

_T = TypeVar("_T")

LEDGER: Final = "ledger.jsonl"
_AS_ROOT: Final = "Verify as root, or as the user of the service."


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was verified. `head`: leaf hash of the log's last record; `bytes`: of log and ledger together.

    key: the public key that checkpoints had to be signed by, "" where there was none; checkpoints: how many the log was
    found to be as; signed: how many records the largest of them covers.
    """

    ok: bool
    records: int
    ledger_entries: int
    head: str
    bytes: int
    decisions: int
    executions: int
    key: str
    checkpoints: int
    signed: int
    findings: tuple[Finding, ...]


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the warden's ledger. kind: sandbox, start, end, pool (one was made before it was asked for), claim
    (it, the `cell`, was handed out as sandbox_id) or void (nothing was started: a power cut had taken the decision).
    leaf: of the decision that was used up.
    """

    kind: str
    leaf: str
    subject: str
    sandbox_id: str
    exec_id: str = ""
    cell: str = ""
    index: int


class AllowedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that allowed something, with its place in the log."""

    index: int
    leaf: str
    record: DecisionRecord


class _Allowed(msgspec.Struct, frozen=True):
    index: int
    subject: str


def verify_state(
    state: pathlib.Path,
    *,
    key: VerifierKey | None = None,
    notes: Iterable[bytes] = (),
    ledger_bound: int | None = None,
) -> Report:
    """Verify everything below `state`. Raises AuditError only where there is nothing to read.

    key: which checkpoints are signed with; the one beside the log by default. notes: checkpoints kept elsewhere.
    ledger_bound: of a copy that nobody writes to, how many of the ledger's entries must stand on decisions of its log.
    None: a daemon may write to `state`, so it is those that are there before the log is read, and a last line that is
    not ended yet is left out.
    """
    segment_paths(state)
    try:
        beside = state / "audit" / "key.pub"
        if key is None and beside.exists():
            key = read_key(beside)
        # In this order: what is signed or started lies in the log that is read after it.
        notes = (*read_notes(state), *notes)
        live = ledger_bound is None
        bound = _entries(state) if ledger_bound is None else ledger_bound
        return _Verification(state, key, notes, ledger_bound=bound, live=live).run()
    except OSError as error:
        raise AuditError(
            f"the state directory can't be read: {error.strerror}", value=error.filename, remedy=_AS_ROOT
        ) from error


def verify_part(
    state: pathlib.Path, records: Iterable[tuple[chain.Link, Record]], *, key: VerifierKey, note: bytes
) -> Report:
    """Verify some of a log's records, each proven to stand in it, against the ledger in `state` and its checkpoint."""
    return _Verification(state, key, (note,), records).run()


def read_records(state: pathlib.Path, *, live: bool = True) -> Iterator[tuple[chain.Link, Record]]:
    """All records of the log, verified as they are read. Raises ChainBrokenError, AuditError.

    live: the log may be written to, so a last line without its end is no fault.
    """
    for link in chain.verify(read_log(state, live=live)):
        yield link, as_record(link)


def allowed_decisions(state: pathlib.Path) -> Iterator[AllowedDecision]:
    """The decisions that authorised an execution, or ended one, for a second judgement. Raises as `read_records`."""
    yield from allowed_of(read_records(state))


def allowed_of(records: Iterable[tuple[chain.Link, Record]]) -> Iterator[AllowedDecision]:
    """Those of `records`."""
    for link, record in records:
        if not isinstance(record, DecisionRecord):
            continue
        if (record.result.action is Action.ALLOW and record.subject) or record.purpose == "runtime":
            yield AllowedDecision(index=link.index, leaf=link.leaf, record=record)


def _ledger_lines(state: pathlib.Path, *, live: bool) -> Iterator[bytes]:
    path = state / LEDGER
    try:
        yield from read_lines(path, live=live)
    except OSError as error:
        raise AuditError(f"the ledger can't be read: {error.strerror}", value=path, remedy=_AS_ROOT) from error


def _entries(state: pathlib.Path) -> int:
    """How many entries the ledger has now."""
    return sum(1 for _ in _ledger_lines(state, live=True))


class _Verification:
    def __init__(
        self,
        state: pathlib.Path,
        key: VerifierKey | None,
        notes: Iterable[bytes],
        part: Iterable[tuple[chain.Link, Record]] | None = None,
        *,
        ledger_bound: int = 0,
        live: bool = False,
    ) -> None:
        """part: these records alone, whose places were proven before."""
        self._state = state
        self._part = part
        self._live = live
        self._ledger_bound = ledger_bound
        self._key = key
        self._signed = Signed(notes, key) if key is not None else None
        self._findings: list[Finding] = []
        self._allowed: dict[str, _Allowed] = {}
        self._decision_leaf: dict[str, str] = {}
        #: Session, sandbox and names, by decision.
        self._granted: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        self._executed: dict[str, int] = {}
        self._ended: dict[tuple[str, str], int] = {}
        self._records = 0
        self._decisions = 0
        self._head = chain.GENESIS

    def run(self) -> Report:
        """Read log, then ledger, then compare."""
        self._read_log()
        entries, starts = self._read_ledger()
        for decision_id, index in self._executed.items():
            if self._decision_leaf.get(decision_id) not in starts:
                self._found("outcome_without_execution", "audit", index, f"the ledger knows no start for {decision_id}")
        if self._signed is not None:
            self._findings += self._signed.findings
        paths = segment_paths(self._state) if self._part is None else []
        size = sum(path.stat().st_size for path in paths)
        return Report(
            ok=not self._findings,
            records=self._records,
            ledger_entries=entries,
            head=self._head,
            bytes=size + (self._state / LEDGER).stat().st_size,
            decisions=self._decisions,
            executions=len(starts),
            key=self._key.encode() if self._key is not None else "",
            checkpoints=self._signed.met if self._signed is not None else 0,
            signed=self._signed.covered if self._signed is not None else 0,
            findings=tuple(self._findings),
        )

    def _read_log(self) -> None:
        try:
            for link, record in self._part if self._part is not None else read_records(self._state, live=self._live):
                self._records, self._head = self._records + 1, link.leaf
                if self._signed is not None and self._part is None:
                    self._signed.record(link.leaf)
                match record:
                    case DecisionRecord():
                        self._decisions += 1
                        self._check_not_ended(link, record)
                        self._decision_leaf[record.decision_id] = link.leaf
                        if record.result.action is Action.ALLOW and record.subject:
                            self._allowed[link.leaf] = _Allowed(link.index, record.subject)
                            self._remember_network(record)
                    case OutcomeRecord():
                        self._check_outcome(link, record)
                    case ConnectionRecord(state="allowed"):
                        self._check_connection(link, record)
                    case _:
                        pass
        except chain.ChainBrokenError as error:
            self._found("chain_broken", "audit", error.index, error.why)
        else:
            if self._signed is not None and self._part is None:
                self._signed.log_ended()

    def _check_not_ended(self, link: chain.Link, record: DecisionRecord) -> None:
        ended = self._ended.get((record.session_id, record.call_id))
        if ended is not None and record.purpose == "call" and record.result.action is Action.ALLOW:
            message = f"{record.call_id} was allowed after it had ended in record {ended}"
            self._found("decided_after_end", "audit", link.index, message)

    def _check_outcome(self, link: chain.Link, record: OutcomeRecord) -> None:
        key = (record.session_id, record.call_id)
        if key in self._ended:
            message = f"{record.call_id} had ended in record {self._ended[key]} already"
            self._found("ended_twice", "audit", link.index, message)
        self._ended[key] = link.index
        executed = record.outcome.run_ns > 0 and record.outcome.kind not in NEVER_EXECUTED
        if executed and self._decision_leaf.get(record.decision_id) in self._allowed:
            self._executed[record.decision_id] = link.index

    def _remember_network(self, record: DecisionRecord) -> None:
        if record.result.grant.network:
            self._granted[record.decision_id] = record.session_id, record.sandbox_id, record.result.grant.network

    def _check_connection(self, link: chain.Link, record: ConnectionRecord) -> None:
        """What was let out was granted there by a decision on record, its own or an earlier one of its session's.

        A part may lack the decision.
        """
        if self._part is not None and record.decision_id not in self._decision_leaf:
            return
        *place, granted = self._granted.get(record.decision_id, ("", "", ()))
        if place != [record.session_id, record.sandbox_id] or not covers(granted, record.name):
            message = f"{record.name} was let out, which no decision {record.decision_id or 'at all'} granted there"
            self._found("connection_without_grant", "audit", link.index, message)

    def _read_ledger(self) -> tuple[int, set[str]]:
        count, used, starts = 0, set[str](), set[str]()
        cells = set[str]()
        undecided: dict[str, Finding] = {}
        try:
            for link in chain.verify(_ledger_lines(self._state, live=self._live)):
                entry = _convert(link, LedgerEntry)
                count += 1
                if self._signed is not None:
                    self._signed.entry(count, link.leaf)
                self._check_cell(entry, cells)
                if entry.kind == "void":
                    self._check_void(entry, undecided)
                if entry.kind not in ("start", "sandbox"):
                    continue
                what = entry.exec_id or entry.sandbox_id
                allowed = self._allowed.get(entry.leaf)
                if allowed is None and count > self._ledger_bound:
                    continue
                if allowed is None:
                    message = f"{what} was started on a decision that the log does not hold or that does not allow"
                    undecided[entry.leaf] = Finding(
                        kind="execution_without_decision", where="ledger", index=entry.index, message=message
                    )
                elif allowed.subject != entry.subject:
                    message = f"{what} is not what record {allowed.index} allowed"
                    self._found("execution_not_as_decided", "ledger", entry.index, message)
                elif entry.leaf in used:
                    self._found(
                        "decision_used_twice", "ledger", entry.index, f"{what} used record {allowed.index} again"
                    )
                used.add(entry.leaf)
                if entry.kind == "start":
                    starts.add(entry.leaf)
        except chain.ChainBrokenError as error:
            self._found("chain_broken", "ledger", error.index, error.why)
        else:
            if self._signed is not None:
                self._signed.ledger_ended(count)
        self._findings += undecided.values()
        return count, starts

    def _check_void(self, entry: LedgerEntry, undecided: dict[str, Finding]) -> None:
        """What was never decided on record may be voided, and nothing else."""
        undecided.pop(entry.leaf, None)
        if entry.leaf in self._allowed:
            message = f"{entry.exec_id or entry.sandbox_id} is said not to have been started, though it was decided"
            self._found("void_of_a_decision", "ledger", entry.index, message)

    def _check_cell(self, entry: LedgerEntry, cells: set[str]) -> None:
        """What the pool made is handed out once. `cells`: those that were made so far and not handed out."""
        if entry.kind == "pool":
            cells.add(entry.sandbox_id)
        elif entry.kind == "claim":
            if entry.cell not in cells:
                message = f"{entry.sandbox_id} is {entry.cell}, which was handed out before or never made"
                self._found("cell_used_twice", "ledger", entry.index, message)
            cells.discard(entry.cell)

    def _found(self, kind: str, where: str, index: int, message: str) -> None:
        self._findings.append(Finding(kind=kind, where=where, index=index, message=message))


def as_record(link: chain.Link) -> Record:
    """The record of a link. Raises ChainBrokenError."""
    return _convert(link, Record)  # type: ignore[arg-type]  # a union stands for its members


def _convert(link: chain.Link, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(link.record, kind)
    except msgspec.ValidationError as error:
        raise chain.ChainBrokenError(link.index, f"is no record of ours: {error}") from error
