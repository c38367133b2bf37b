"""An evidence bundle verified, offline, with the public key alone.

Held against the signed checkpoint: each record, by its audit path or as part of the whole log, and the ledger as far as
it was signed. Held against those: the policy bundles, by the digests that decisions name. The manifest and the traces
are the maker's word, and so is that a part of a log is all there is of a session.
"""

import contextlib
import pathlib
from collections.abc import Iterator

import msgspec

from opensafe.errors import AuditError
from opensafe.model import chain, merkle
from opensafe.model.canonical import leaf_hash
from opensafe.model.checkpoint import Checkpoint, NoteError, VerifierKey, opened
from opensafe.model.proof import decoded
from opensafe.model.records import DecisionRecord, Record

from .archive import File, unpacked
from .checkpoints import read_note
from .evidence import SCHEMA, Manifest, Proof
from .segment import read_lines
from .signed import Finding
from .verify import Report, as_record, read_records, verify_part, verify_state

_MAX_MANIFEST = 4 << 20


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `report`: as of a state directory, with all findings. checkpoint: None where it does not hold."""

    manifest: Manifest
    report: Report
    checkpoint: Checkpoint | None


class Evidence:
    """An unpacked bundle. `unpack` makes one."""

    def __init__(self, directory: pathlib.Path, files: dict[str, File], key: VerifierKey) -> None:
        """Raises AuditError for what no honest maker made."""
        self.directory = directory
        self._files = files
        self._key = key
        self.manifest = self._read_manifest()

    def verify(self) -> Verified:
        """Verify everything. Raises AuditError where there is nothing to verify."""
        findings = list(self._unlisted())
        note = read_note(self._member("audit/checkpoint"))
        try:
            made = opened(note, self._key)
        except NoteError:
            made = None  # a finding of the report
        if self.manifest.scope.whole:
            report = verify_state(self.directory, key=self._key, ledger_bound=made.ledger.size if made else 0)
            if made is not None and report.records > made.size:
                message = f"{report.records - made.size} records were not signed"
                findings.append(_finding("not_signed", "audit", made.size, message))
        else:
            records = self._proven(made, findings) if made is not None else ()
            report = verify_part(self.directory, records, key=self._key, note=note)
        findings += (*report.findings, *self._of_bundles())
        report = msgspec.structs.replace(report, ok=not findings, findings=tuple(findings))
        return Verified(manifest=self.manifest, report=report, checkpoint=made)

    def records(self) -> Iterator[tuple[chain.Link, Record]]:
        """All that it holds. What they are worth, `verify` says. Raises ChainBrokenError, ValueError, AuditError."""
        if self.manifest.scope.whole:
            yield from read_records(self.directory, live=False)
            return
        for line in read_lines(self._member("records.jsonl")):
            link = _link(line)
            yield link, as_record(link)

    def _read_manifest(self) -> Manifest:
        path = self._member("manifest.json")
        try:
            if path.stat().st_size > _MAX_MANIFEST:
                raise AuditError("the manifest is longer than any", limit=f"{_MAX_MANIFEST} bytes")
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except (msgspec.DecodeError, RecursionError) as error:
            raise AuditError(f"the evidence has no manifest: {error}") from error
        if manifest.schema != SCHEMA:
            raise AuditError("the evidence is of another form", value=manifest.schema, limit=SCHEMA)
        return manifest

    def _member(self, name: str) -> pathlib.Path:
        if name not in self._files:
            raise AuditError("the evidence is not complete: a member is missing", value=name)
        return self.directory / name

    def _unlisted(self) -> Iterator[Finding]:
        """Members that are not as the manifest lists them."""
        there: dict[str, File | None] = {**self._files}
        del there["manifest.json"]
        for name in sorted({*there, *self.manifest.files}):
            if there.get(name) != self.manifest.files.get(name):
                yield _finding("not_as_listed", "evidence", 0, f"{name} is not what the manifest lists")

    def _proven(self, made: Checkpoint, findings: list[Finding]) -> Iterator[tuple[chain.Link, Record]]:
        """The records whose place in the signed tree is proven; the others are findings."""
        lines, proofs = read_lines(self._member("records.jsonl")), read_lines(self._member("proofs.jsonl"))
        last = -1
        for number, line in enumerate(lines):
            try:
                link, proof = _link(line), _proof(next(proofs, b""))
                if proof.index != link.index or link.index <= last:
                    raise ValueError("it is not in its place")
                if (
                    merkle.root_by_inclusion(bytes.fromhex(link.leaf), link.index, made.size, decoded(proof.path))
                    != made.root
                ):
                    raise ValueError("its path does not lead to the signed root")
                record = as_record(link)
            except ValueError as error:
                message = f"line {number} of records.jsonl is no record of that log: {error}"
                findings.append(_finding("not_in_log", "audit", number, message))
                continue
            last = link.index
            yield link, record
        if next(proofs, None) is not None:
            findings.append(_finding("not_in_log", "audit", last + 1, "a proof stands there without its record"))

    def _of_bundles(self) -> Iterator[Finding]:
        """Policy bundles that are not those of the decisions."""
        named: dict[str, int] = {}
        try:
            for link, record in self.records():
                if isinstance(record, DecisionRecord):
                    for bundle in record.bundles.values():
                        named.setdefault(bundle.digest, link.index)
        except (chain.ChainBrokenError, ValueError):
            pass  # a finding already
        for digest, index in named.items():
            name = f"bundles/{digest}.tar.gz"
            if name not in self._files:
                message = f"the bundle {digest} that it was judged by is not in the evidence"
                yield _finding("bundle_missing", "evidence", index, message)
        for name in sorted(self._files):
            digest = name.removeprefix("bundles/").removesuffix(".tar.gz")
            if name.startswith("bundles/") and self._files[name].sha256 != digest:
                yield _finding("not_as_recorded", "evidence", 0, f"{name} is not the bundle with that digest")


@contextlib.contextmanager
def unpack(path: pathlib.Path, key: VerifierKey) -> Iterator[Evidence]:
    """The bundle in a file, for as long as the context lasts. Raises AuditError."""
    with unpacked(path) as (directory, files):
        yield Evidence(directory, files, key)


def _link(line: bytes) -> chain.Link:
    """A line as a link whose place is yet to be proven. Raises ValueError."""
    if len(line) > chain.MAX_LINE:
        raise ValueError("it is longer than any record")
    try:
        record = msgspec.json.decode(line)
        return chain.Link(int(record["index"]), leaf_hash(line), record)
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it is no record: {error}") from error


def _proof(line: bytes) -> Proof:
    try:
        return msgspec.json.decode(line, type=Proof)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it has no proof: {error}") from error


def _finding(kind: str, where: str, index: int, message: str) -> Finding:
    return Finding(kind=kind, where=where, index=index, message=message)
