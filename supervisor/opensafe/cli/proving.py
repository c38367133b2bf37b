"""What `audit prove` and `audit verify --proof` do. Offline: one needs the log, the other the public key alone."""

import pathlib

import msgspec

from opensafe.audit import checkpoints, proofs
from opensafe.errors import InvalidArgument
from opensafe.model.proof import Proof

from . import exits, present
from .report import encode, report


def make(
    state: pathlib.Path,
    index: int | None,
    since: pathlib.Path | None,
    checkpoint: pathlib.Path | None,
    output: pathlib.Path | None,
) -> int:
    """Make a proof, and print or write it. Raises AuditError, InvalidArgument."""
    if (index is None) == (since is None):
        raise InvalidArgument("one of INDEX and --from is needed", remedy="`opensafe audit prove 17`.")
    note = checkpoints.read_note(checkpoint) if checkpoint is not None else None
    proof: Proof
    if since is not None:
        proof = proofs.prove_growth(state, checkpoints.read_note(since), note)
    else:
        proof = proofs.prove_record(state, index or 0, note)
    text = msgspec.json.encode(proof).decode()
    if output is not None:
        try:
            output.write_text(f"{text}\n")
        except OSError as error:
            raise InvalidArgument(f"the proof can't be written: {error.strerror}", value=output) from error
    else:
        present.raw(text)
    return exits.Exit.OK


def check(path: pathlib.Path, key: pathlib.Path | None, *, json: bool) -> int:
    """Check a proof. Raises AuditError where it does not hold, InvalidArgument."""
    if key is None:
        raise InvalidArgument("a proof is checked against a public key", remedy="Give one by --key FILE.")
    found = proofs.check(proofs.read_proof(path), checkpoints.read_key(key))
    made, older = found.checkpoint, found.older
    if json:
        summary = {"ok": True, "kind": found.kind, "origin": made.origin, "size": made.size, "index": found.index}
        details = {"record": found.record, "older_size": older.size if older is not None else None}
        present.raw(encode(report("audit-proof", summary, details)))
    elif older is not None:
        present.out(
            f"the log {made.origin} of {made.size} records begins with the {older.size} that were signed before"
        )
    else:
        present.out(f"record {found.index} stands in the log {made.origin} of {made.size} records:")
        for line in msgspec.json.format(msgspec.json.encode(found.record)).decode().splitlines():
            present.out(line)
    return exits.Exit.OK
