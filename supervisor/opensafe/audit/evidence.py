"""An evidence bundle: what shows to somebody elsewhere that calls were judged and run as the record says.

    manifest.json            what it holds, with the SHA-256 of each file
    audit/checkpoint         the signed note that everything is held against
    audit/key.pub            the key that it claims; who verifies has it from elsewhere
    audit/segment-….jsonl    the log as far as it is signed, or, of one session or call:
    records.jsonl            its records, byte for byte
    proofs.jsonl             where each of them stands, and its audit path in the checkpoint's tree
    ledger.jsonl             the warden's ledger
    bundles/…, keys/…        the policy bundles that were judged by, and the keys that were trusted
    traces.jsonl             spans of the records' traces

The names are those of the state directory, so that what verifies the one verifies the other. Records are not masked
once more, or they would prove nothing: the bundle tells what the log tells.
"""

import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Final

import msgspec

from opensafe.errors import AuditError
from opensafe.model import chain
from opensafe.model.canonical import written
from opensafe.model.checkpoint import Checkpoint, NoteError, claimed
from opensafe.model.merkle import Paths
from opensafe.model.proof import encoded
from opensafe.model.records import DecisionRecord, OutcomeRecord, Record, ShadowRecord

from .archive import File, Member, Writer
from .checkpoints import read_note
from .scope import Scope
from .segment import read_lines, read_log, segment_paths
from .verify import LEDGER, as_record

SCHEMA: Final = "opensafe.evidence/1"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle says it holds. scope: empty for a whole log. size: records that its checkpoint covers.

    unsigned: records of the scope that came after the checkpoint and are left out. missing: bundles that were judged
    by and are not in the archive any more.
    """

    schema: str
    version: str
    scope: Scope
    origin: str
    size: int
    records: int
    unsigned: int
    missing: tuple[str, ...]
    files: dict[str, File]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """A line of proofs.jsonl. path: base64, as in proofs.py."""

    index: int
    path: tuple[str, ...]


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where the rest is. bundle: file of the bundle with a digest; traces: lines of spans of these traces."""

    keys: Sequence[pathlib.Path]
    bundle: Callable[[str], pathlib.Path]
    traces: Callable[[frozenset[str]], Iterable[bytes]]


class _Seen:
    """What is learnt of the records that go in."""

    def __init__(self) -> None:
        self.records = 0
        self.decisions: set[str] = set()
        self.bundles: set[str] = set()
        self.traces: set[str] = set()

    def take(self, record: Record) -> None:
        self.records += 1
        if isinstance(record, DecisionRecord):
            self.decisions.add(record.decision_id)
            self.bundles.update(bundle.digest for bundle in record.bundles.values())
        if isinstance(record, DecisionRecord | OutcomeRecord) and record.trace_id:
            self.traces.add(record.trace_id)


def write(
    state: pathlib.Path,
    scope: Scope,
    output: pathlib.Path,
    sources: Sources,
    version: str,
    *,
    most_bytes: int | None = None,
) -> Manifest:
    """Write the bundle of `state`; most_bytes: unpacked. Raises AuditError: not signed, not intact, too large, not
    readable.
    """
    checkpoint = state / "audit" / "checkpoint"
    note = read_note(checkpoint)  # before log and ledger are read: they only grow
    try:
        made = claimed(note)
    except NoteError as error:
        raise AuditError(f"no checkpoint: {error}", value=checkpoint) from error
    with tempfile.TemporaryDirectory(prefix="opensafe-evidence-") as name:
        staging = pathlib.Path(name)
        seen = _Seen()
        try:
            if scope.whole:
                members, unsigned = _segments(state, made, seen)
            else:
                members, unsigned = _part(state, made, scope, seen, staging)
            (staging / "checkpoint").write_bytes(note)
            members += [_whole("audit/checkpoint", staging / "checkpoint"), *_beside(state)]
            members += _further(staging, sources, seen)
            missing = tuple(sorted(one for one in seen.bundles if not sources.bundle(one).exists()))
            with Writer(output, most_bytes) as writer:
                for member in sorted(members, key=lambda one: one.name):
                    writer.add(member)
                manifest = Manifest(
                    schema=SCHEMA,
                    version=version,
                    scope=scope,
                    origin=made.origin,
                    size=made.size,
                    records=seen.records,
                    unsigned=unsigned,
                    missing=missing,
                    files=writer.files,
                )
                text = msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1)
                (staging / "manifest").write_bytes(text)
                writer.add(_whole("manifest.json", staging / "manifest"))
        except chain.ChainBrokenError as error:
            raise AuditError(f"the log is not intact: {error}", remedy="Run `opensafe audit verify`.") from error
        except OSError as error:
            raise AuditError(
                f"the evidence can't be written: {error}", remedy="Write it as root, where there is room."
            ) from error
    return manifest


def _segments(state: pathlib.Path, made: Checkpoint, seen: _Seen) -> tuple[list[Member], int]:
    """The segments as far as the checkpoint covers them, and how many records are behind it."""
    ends: dict[pathlib.Path, int] = {}
    unsigned = 0
    for link in chain.verify(_measured(segment_paths(state), made.size, ends)):
        if link.index < made.size:
            seen.take(as_record(link))
        else:
            unsigned += 1
    if seen.records != made.size:
        raise AuditError("the log is shorter than what was signed", value=seen.records, limit=made.size)
    members = [Member(name=f"audit/{path.name}", path=path, size=size) for path, size in ends.items() if size]
    return members, unsigned


def _measured(paths: Sequence[pathlib.Path], size: int, ends: dict[pathlib.Path, int]) -> Iterator[bytes]:
    """The log's lines; `ends` gets each segment's length up to the last of `size` records that is in it."""
    for path in paths:
        offset = 0
        for line in read_lines(path, live=path == paths[-1]):
            offset += len(line) + 1
            index = _index(line)
            if index is not None and index < size:
                ends[path] = min(offset, path.stat().st_size)
            yield line


def _index(line: bytes) -> int | None:
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(line, type=_Indexed).index
    return None


class _Indexed(msgspec.Struct, frozen=True):
    index: int


def _part(
    state: pathlib.Path, made: Checkpoint, scope: Scope, seen: _Seen, staging: pathlib.Path
) -> tuple[list[Member], int]:
    """The scope's records with their audit paths, and how many of the scope are behind the checkpoint."""
    tree = Paths()
    unsigned = 0
    found: list[tuple[int, list[bytes]]] = []
    with (staging / "records").open("wb") as out:
        for link in chain.verify(read_log(state, live=True)):
            record = as_record(link)
            leaf = bytes.fromhex(link.leaf)
            wanted = scope.takes(record) or (isinstance(record, ShadowRecord) and record.decision_id in seen.decisions)
            if link.index >= made.size:
                unsigned += wanted
            elif wanted:
                out.write(written(link.record) + b"\n")
                found.append((link.index, tree.append_wanted(leaf)))
                seen.take(record)
            else:
                tree.append(leaf)
    if tree.root() != made.root:
        raise AuditError("the log is not what the checkpoint signed", remedy="Run `opensafe audit verify`.")
    if not found:
        raise AuditError("no signed record is of that session or call", value=scope.call or scope.session)
    with (staging / "proofs").open("wb") as out:
        _write_proofs(out, found)
    return [_whole("records.jsonl", staging / "records"), _whole("proofs.jsonl", staging / "proofs")], unsigned


def _write_proofs(out: IO[bytes], found: Iterable[tuple[int, list[bytes]]]) -> None:
    for index, path in found:
        out.write(msgspec.json.encode(Proof(index=index, path=encoded(path))) + b"\n")


def _beside(state: pathlib.Path) -> Iterator[Member]:
    """The claimed key, and the ledger's complete lines: beyond what was signed, it knows the starts of later calls."""
    yield _whole("audit/key.pub", state / "audit" / "key.pub")
    ledger = state / LEDGER
    size = sum(len(line) + 1 for line in read_lines(ledger, live=True))
    yield Member(name=LEDGER, path=ledger, size=size)


def _further(staging: pathlib.Path, sources: Sources, seen: _Seen) -> Iterator[Member]:
    for digest in seen.bundles:
        path = sources.bundle(digest)
        if path.exists():
            yield _whole(f"bundles/{digest}.tar.gz", path)
    for key in sources.keys:
        yield _whole(f"keys/{key.name}", key)
    with (staging / "traces").open("wb") as out:
        out.writelines(line + b"\n" for line in sources.traces(frozenset(seen.traces)))
    if (staging / "traces").stat().st_size:
        yield _whole("traces.jsonl", staging / "traces")


def _whole(name: str, path: pathlib.Path) -> Member:
    return Member(name=name, path=path, size=path.stat().st_size)
