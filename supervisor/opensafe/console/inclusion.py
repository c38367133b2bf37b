"""Proofs that a record stands in the log, checked here and not only believed.

Without the log's public key a proof shows that the record belongs to a root; with it, that the daemon signed that root.
"""

import msgspec

from opensafe.errors import AuditError
from opensafe.model import merkle
from opensafe.model.checkpoint import Checkpoint, NoteError, VerifierKey
from opensafe.model.proof import Inclusion, included


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
        said = msgspec.json.decode(proof, type=Inclusion)
        if (said.index, said.record.encode()) != (index, line):
            raise ValueError("it is the proof of another record")
        made = included(said, key)
    except (msgspec.DecodeError, NoteError, ValueError, RecursionError) as error:
        raise AuditError(f"the proof does not hold: {error}", value=index) from error
    return Proven(
        index=index,
        leaf=merkle.leaf(line).hex(),
        hashes=len(said.path),
        checkpoint=made,
        key=key.name if key is not None else "",
    )
