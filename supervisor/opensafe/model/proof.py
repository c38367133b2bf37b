"""Proofs that can be checked without the log: a record stands in it, or it only grew (RFC 6962, 2.1; RFC 9162, 2.1).

A proof is one JSON object. What it says is bound to signed checkpoints that it carries, so whoever checks it has to
trust the key and nothing else, the proof's maker least of all.
"""

import base64
import binascii
from collections.abc import Sequence

import msgspec

from . import merkle
from .checkpoint import Checkpoint, VerifierKey, claimed, opened


class Inclusion(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="inclusion"):
    """The record `record` (its line) stands at `index`. path: RFC 6962 audit path, base64; checkpoint: signed note."""

    index: int
    record: str
    checkpoint: str
    path: tuple[str, ...]


class Consistency(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="consistency"):
    """The log of `newer` begins with all of the log of `older` (signed notes). path: RFC 6962 consistency proof."""

    older: str
    newer: str
    path: tuple[str, ...]


Proof = Inclusion | Consistency


def included(proof: Inclusion, key: VerifierKey | None) -> Checkpoint:
    """The checkpoint whose log has the record where the proof says. Without a key, that this was signed is its word.

    Raises ValueError where the path leads elsewhere, NoteError.
    """
    note = proof.checkpoint.encode()
    made = claimed(note) if key is None else opened(note, key)
    leaf = merkle.leaf(proof.record.encode())
    if merkle.root_by_inclusion(leaf, proof.index, made.size, decoded(proof.path)) != made.root:
        raise ValueError("the path does not lead from the record to the signed root")
    return made


def grown(proof: Consistency, key: VerifierKey) -> tuple[Checkpoint, Checkpoint]:
    """The older checkpoint and the newer one, whose log begins with that of the older. Raises ValueError, NoteError."""
    before, made = opened(proof.older.encode(), key), opened(proof.newer.encode(), key)
    roots = merkle.roots_by_consistency(before.size, made.size, before.root, decoded(proof.path))
    if before.origin != made.origin or roots != (before.root, made.root):
        raise ValueError("the path does not lead from the older signed root to the newer one")
    return before, made


def encoded(path: Sequence[bytes]) -> tuple[str, ...]:
    """A path as proofs carry it: hashes in base64."""
    return tuple(base64.b64encode(one).decode() for one in path)


def decoded(path: Sequence[str]) -> list[bytes]:
    """The hashes of a carried path. Raises ValueError."""
    try:
        hashes = [base64.b64decode(one, validate=True) for one in path]
    except binascii.Error as error:
        raise ValueError("a hash of the path is not base64") from error
    if any(len(one) != 32 for one in hashes):
        raise ValueError("a hash of the path is not 32 bytes long")
    return hashes
