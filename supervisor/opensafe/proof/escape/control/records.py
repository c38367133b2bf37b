"""Audit logs edited, cut and written anew, and handed to the verifier: CP-14, CP-15, CP-16."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from opensafe.model import chain
from opensafe.model.canonical import canonical_json, leaf_hash
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.mutants import Mutant

from .ground import Yard
from .history import History
from .mutants import VERIFIERS
from .row import row
from .verifying import Case, verified

Lines = Sequence[bytes]
Tampered = tuple[str, Lines | None, Lines]
"""What was done, the log's lines or None for no file, and the ledger's."""
_SHADOW: Final = "/etc/shadow"
_SECOND_US: Final = 1_000_000
_DROPPED: Final = (1, 2, 3)


def _edited(history: History, *, last: bool = True) -> Iterator[Tampered]:
    """Records changed, dropped, swapped, inserted and doubled. last: the last one, too, which no link shows."""
    log, ledger = history.log, history.ledger
    at = next(index for index, line in enumerate(log) if b'"kind":"outcome"' in line)
    yield "a time", _with(log, at, _later(log[at])), ledger
    yield "one bit", _with(log, at, log[at][:-20] + bytes((log[at][-20] ^ 1,)) + log[at][-19:]), ledger
    yield "dropped", [*log[:at], *log[at + 1 :]], ledger
    yield "swapped", [*log[:at], log[at + 1], log[at], *log[at + 2 :]], ledger
    yield "doubled", [*log[:at], log[at], *log[at:]], ledger
    forged = chain.seal(chain.Head(at, leaf_hash(log[at - 1])), _plain(log[at])).line
    yield "inserted", [*log[:at], forged, *log[at:]], ledger
    if last:
        yield "the last", _with(log, -1, _later(log[-1])), ledger
    middle = len(ledger) // 2
    yield "a time of the ledger", log, _with(ledger, middle, _later(ledger[middle], "unix_us"))
    yield "dropped from the ledger", log, [*ledger[:middle], *ledger[middle + 1 :]]
    yield "doubled in the ledger", log, [*ledger[: middle + 1], *ledger[middle:]]


def _cut(history: History) -> Iterator[Tampered]:
    """The end of the log gone, or all of it. The last records are such as the ledger knows nothing of."""
    log, ledger = history.log, history.ledger
    for count in (*_DROPPED, len(log) // 2):
        yield f"the last {count} records", log[:-count], ledger
    yield "every record", [], ledger
    yield "every record and entry", [], []
    yield "the file", None, ledger
    yield "the ledger's last entry", log, ledger[:-1]
    yield "the ledger", log, []


def _rewritten(history: History) -> Iterator[Tampered]:
    """Everything from some record on bound anew, and the ledger with it, so that both chains and their joints hold."""
    log, ledger = history.log, history.ledger
    blocked = next(at for at, line in enumerate(log) if b'"action":"block"' in line and _SHADOW.encode() in line)
    for what, start, change in (
        ("a block that was never asked for", blocked, _asked),
        ("times of the last record", len(log) - 1, _postponed),
        ("times from the first record on", 0, _postponed),
    ):
        new = [*log[:start], *_sealed(log[:start], [change(_plain(log[start])), *map(_plain, log[start + 1 :])])]
        leaves = {leaf_hash(old): leaf_hash(line) for old, line in zip(log, new, strict=True)}
        entries = [_plain(line) for line in ledger]
        joined = [{**entry, "leaf": leaves.get(entry["leaf"], entry["leaf"])} for entry in entries]
        yield what, new, list(_sealed([], joined))
    yield "cut and gone on with", [*log[:-3], *_sealed(log[:-3], [_postponed(_plain(log[-1]))])], ledger


def _sealed(before: Lines, records: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    head = chain.Head(len(before), leaf_hash(before[-1])) if before else chain.Head()
    for record in records:
        sealed = chain.seal(head, record)
        head = sealed.head
        yield sealed.line


def _plain(line: bytes) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(line)
    return {name: value for name, value in record.items() if name not in ("index", "prev")}


def _later(line: bytes, field: str = "time_us") -> bytes:
    record = json.loads(line)
    return canonical_json({**record, field: record[field] + _SECOND_US})


def _postponed(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "time_us": record["time_us"] + _SECOND_US}


def _asked(record: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(record).replace(_SHADOW, "/etc/hosts")
    changed: dict[str, Any] = json.loads(text)
    return changed


def _with(lines: Lines, at: int, line: bytes) -> list[bytes]:
    return [line if index == at % len(lines) else old for index, old in enumerate(lines)]


async def _attack(
    yard: Yard,
    tamper: Callable[[History], Iterator[Tampered]],
    mutants: Sequence[Mutant] = (),
    *,
    beside: bool = True,
    kept: bool = True,
) -> Run:
    """Each copy to the verifier. beside: with the checkpoints where the daemon left them; kept: with the one kept
    elsewhere, and the key.
    """
    history = await yard.history()
    source = await yard.source(mutants) if mutants else None
    given: dict[str, Any] = {"key": history.key, "notes": (history.note,)} if kept else {}
    cases = [Case(name="", state=history.copy(history.log, history.ledger, signed=beside), **given)]
    same = []
    for name, log, ledger in tamper(history):
        cases.append(Case(name=name, state=history.copy(log, ledger, signed=beside), **given))
        same += [name] if (log, ledger) == (history.log, history.ledger) else []
    honest, *found = await verified(cases, source)
    opened = (*(() if beside else ("the checkpoints beside the log",)), *(() if kept else ("those kept elsewhere",)))
    passed = [one.name for one in found if one.ok]
    return Run(
        opened=() if mutants else opened,
        began=True,
        finished=len(found) == len(cases) - 1 and not same,
        found=f"the verifier says that all is well: {'; '.join(passed)}" if passed else "",
        layer=f"the verifier: {', '.join(sorted({kind for one in found for kind in one.findings}))}",
        hints=tuple(f"{one.name}: {', '.join(one.findings)}" for one in found),
        fault="" if honest.ok else f"the untouched log is not valid: {', '.join(honest.findings)}",
    )


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-14",
        title="records of log and ledger edited, dropped, swapped, inserted, doubled",
        severity=Severity.INTEGRITY,
        attacks=("T1565.001", "T1070"),
        breach="the verifier says that the log is valid",
        control="mutant of the verifier: links are not compared; with no checkpoint at all",
        attempts=(
            partial(_attack, tamper=_edited),
            partial(_attack, tamper=partial(_edited, last=False), beside=False, kept=False),
        ),
        weak=partial(
            _attack, tamper=partial(_edited, last=False), mutants=VERIFIERS["links"], beside=False, kept=False
        ),
    ),
    row(
        id="CP-15",
        title="the last records of the log, all of it, or the ledger gone; of what was signed, as all is in a moment",
        severity=Severity.INTEGRITY,
        attacks=("T1070", "T1485"),
        breach="the verifier says that the log is valid",
        control="mutant of the verifier: how many were signed is not compared",
        attempts=(partial(_attack, tamper=_cut), partial(_attack, tamper=_cut, beside=False)),
        weak=partial(_attack, tamper=_cut, mutants=VERIFIERS["sizes"]),
    ),
    row(
        id="CP-16",
        title="a suffix of the log written anew with hashes that hold, and the ledger to match",
        severity=Severity.INTEGRITY,
        attacks=("T1565.001", "T1070"),
        breach="the verifier says that the log is valid",
        control="mutant of the verifier: a chain alone, without what was signed of it",
        attempts=(partial(_attack, tamper=_rewritten), partial(_attack, tamper=_rewritten, beside=False)),
        weak=partial(_attack, tamper=_rewritten, mutants=VERIFIERS["roots"]),
    ),
)
