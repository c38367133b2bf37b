"""Proofs that a record stands in the log, checked here and not only believed (RFC 6962, 2.1.1; RFC 9162, 2.1.3.2).

Without the log's public key a proof shows that the record belongs to a root; with it, that the daemon signed that root.
"""

import base64
import binascii

import msgspec

from opensafe.errors import AuditError
from opensafe.model import merkle
from opensafe.model.checkpoint import Checkpoint, NoteError, VerifierKey, claimed, opened


class _Inclusion(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="inclusion"):
    """The form of `opensafe audit prove`."""

    index: int
    record: str
    checkpoint: str
    path: tuple[str, ...]


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """A proof that holds. hashes: length of its path. key: the name of the key that signed; "" where none was given."""

    index: int
    leaf: str
    hashes: int
    checkpoint: Checkpoint
    key: str


def check(proof: bytes, index: int, line: bytes, key: VerifierKey | None) -> Proven:
    """Check that `proof` shows this line at this index. Raises AuditError where it does not."""
    try:
        said = msgspec.json.decode(proof, type=_Inclusion)
        if (said.index, said.record.encode()) != (index, line):
            raise ValueError("it is the proof of another record")
        note = said.checkpoint.encode()
        made = opened(note, key) if key is not None else claimed(note)
        path = [base64.b64decode(one, validate=True) for one in said.path]
        leaf = merkle.leaf(line)
        if merkle.root_by_inclusion(leaf, index, made.size, path) != made.root:
            raise ValueError("the path does not lead from the record to the checkpoint's root")
    except (msgspec.DecodeError, NoteError, binascii.Error, ValueError) as error:
        raise AuditError(f"the proof does not hold: {error}", value=index) from error
    return Proven(
        index=index, leaf=leaf.hex(), hashes=len(path), checkpoint=made, key=key.name if key is not None else ""
    )
