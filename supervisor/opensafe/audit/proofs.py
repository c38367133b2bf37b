"""Proofs (model/proof.py) made from the log in a state directory, and read from files."""

import pathlib
from typing import Any, Final

import msgspec

from opensafe.errors import AuditError
from opensafe.model import chain, merkle
from opensafe.model.canonical import written
from opensafe.model.checkpoint import Checkpoint, NoteError, VerifierKey, claimed
from opensafe.model.proof import Consistency, Inclusion, Proof, encoded, grown, included

from .checkpoints import read_note
from .segment import read_log

_REMEDY: Final = "`opensafe audit prove` makes one."
#: A record, escaped as JSON text, and 64 hashes.
_MAX_PROOF: Final = 3 * chain.MAX_LINE


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a proof shows. checkpoint: the (newer) one; record: of an inclusion; older: of a consistency."""

    kind: str
    checkpoint: Checkpoint
    index: int | None = None
    record: dict[str, Any] | None = None
    older: Checkpoint | None = None


def prove_record(state: pathlib.Path, index: int, note: bytes | None = None) -> Inclusion:
    """Prove that a record stands in the log of a checkpoint, by default the last one. Raises AuditError."""
    note, made = checkpoint_of(state, note)
    if not 0 <= index < made.size:
        raise AuditError("the record is not covered by the checkpoint", value=index, limit=f"{made.size} records")
    lines: list[bytes] = []
    leaves = _leaves(state, made, index, lines)
    path = merkle.inclusion(leaves, index)
    return Inclusion(index=index, record=lines[0].decode(), checkpoint=note.decode(), path=encoded(path))


def prove_growth(state: pathlib.Path, older: bytes, newer: bytes | None = None) -> Consistency:
    """Prove that the log of a checkpoint, by default the last one, begins with that of an older. Raises AuditError."""
    newer, made = checkpoint_of(state, newer)
    _, before = checkpoint_of(state, older)
    if not 0 < before.size <= made.size:
        raise AuditError("the older checkpoint is not of fewer records", value=before.size, limit=made.size)
    leaves = _leaves(state, made)
    if merkle.root(leaves[: before.size]) != before.root:
        raise AuditError(
            "the log does not begin with what the older checkpoint signed",
            value=before.root.hex(),
            remedy="`opensafe audit verify --checkpoint FILE` says where they part.",
        )
    path = merkle.consistency(leaves, before.size)
    return Consistency(older=older.decode(), newer=newer.decode(), path=encoded(path))


def read_proof(path: pathlib.Path) -> Proof:
    """A proof in a file. Raises AuditError."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_PROOF + 1)
        if len(data) > _MAX_PROOF:
            raise AuditError("the file is longer than any proof", value=path, limit=f"{_MAX_PROOF} bytes")
        return msgspec.json.decode(data, type=Proof)
    except OSError as error:
        raise AuditError(f"no proof can be read: {error.strerror}", value=path) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise AuditError(f"the file is no proof: {error}", value=path, remedy=_REMEDY) from error


def check(proof: Proof, key: VerifierKey) -> Checked:
    """What the proof shows, if it shows anything. Raises AuditError."""
    try:
        if isinstance(proof, Inclusion):
            made = included(proof, key)
            record = msgspec.json.decode(proof.record, type=dict[str, Any])
            return Checked(kind="inclusion", checkpoint=made, index=proof.index, record=record)
        before, made = grown(proof, key)
        return Checked(kind="consistency", checkpoint=made, older=before)
    except (NoteError, ValueError, RecursionError) as error:
        raise AuditError(f"the proof does not hold: {error}") from error


def checkpoint_of(state: pathlib.Path, note: bytes | None = None) -> tuple[bytes, Checkpoint]:
    """A note, by default the one beside the log, and what it claims. Raises AuditError."""
    if note is None:
        note = read_note(state / "audit" / "checkpoint")
    try:
        return note, claimed(note)
    except NoteError as error:
        raise AuditError(f"no checkpoint: {error}") from error


def _leaves(state: pathlib.Path, made: Checkpoint, wanted: int = -1, lines: list[bytes] | None = None) -> list[bytes]:
    """The leaf hashes of all that was signed; the line of the record `wanted` goes to `lines`."""
    leaves: list[bytes] = []
    try:
        for link in chain.verify(read_log(state, live=True)):
            leaves.append(bytes.fromhex(link.leaf))
            if link.index == wanted and lines is not None:
                lines.append(written(link.record))
            if len(leaves) == made.size:
                break
    except chain.ChainBrokenError as error:
        raise AuditError(f"the audit log is not intact: {error}", remedy="Run `opensafe audit verify`.") from error
    if merkle.root(leaves) != made.root:
        raise AuditError(
            "the log is not the one that the checkpoint signed", value=made.size, remedy="Run `opensafe audit verify`."
        )
    return leaves
