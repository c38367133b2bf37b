"""A hash-chained log of JSON lines: the common form of the audit log and the warden's ledger.

Each line is the canonical JSON of its record with two more fields: `index` (from 0, without gap) and `prev`, the
RFC 6962 leaf hash of the line before (64 zeros for the first). One hash thus serves as chain link and as the
leaf of a Merkle tree over the same lines. A chain shows edit, drop, swap, insert and duplicate; a cut tail shows
only against a head kept elsewhere.

A crash can leave a last line that was never completed. Nothing is ever cut off such a log: the next writer ends
the line and appends a record of kind `torn` with the SHA-256 of the fragment, and only that fragment is excused. That
record can tear as well: a fragment is all that stands behind the last record, its lines joined by newlines.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from .canonical import canonical_json, leaf_hash, read_canonical

GENESIS: Final = "0" * 64
#: Longest line that is a record. A decision holds a call's sealed arguments (4 MiB at most) and their facts.
MAX_LINE: Final = 64 << 20


class Head(msgspec.Struct, frozen=True):
    """Where a chain ends: the number of lines and the leaf hash of the last."""

    size: int = 0
    leaf: str = GENESIS


class Sealed(msgspec.Struct, frozen=True):
    """One line ready to be appended (without newline), its leaf hash, and the chain's head after it."""

    line: bytes
    leaf: str
    head: Head


class ChainBrokenError(ValueError):
    """The first line that does not belong where it stands: `index` (from 0) and why."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(f"record {index}: {why}")
        self.index = index
        self.why = why


class UnaccountedError(ChainBrokenError):
    """The lines end in a `fragment` that no record accounts for; all records before it hold."""

    def __init__(self, index: int, fragment: bytes) -> None:
        super().__init__(index, "is a fragment that no record accounts for")
        self.fragment = fragment


def seal(head: Head, record: msgspec.Struct | dict[str, Any]) -> Sealed:
    """Bind `record` to the chain that ends in `head`. Raises NotCanonicalError."""
    line = canonical_json(record, index=head.size, prev=head.leaf)
    leaf = leaf_hash(line)
    return Sealed(line, leaf, Head(head.size + 1, leaf))


class Link(msgspec.Struct, frozen=True):
    """A line whose place in the chain was verified."""

    index: int
    leaf: str
    record: dict[str, Any]


def seal_torn(head: Head, fragment: bytes) -> Sealed:
    """The record that excuses `fragment`, what follows `head` and is no record."""
    return seal(head, {"kind": "torn", "fragment_sha256": hashlib.sha256(fragment).hexdigest()})


def verify(lines: Iterable[bytes], head: Head | None = None) -> Iterator[Link]:
    """Yield the records of `lines` (newline-free) that continue `head` (the empty chain by default).

    Raises ChainBrokenError at the first line that is not canonical, out of place or bound to another line, and
    UnaccountedError where the end is not canonical.
    """
    head = head or Head()
    fragment: bytearray | None = None
    lines = iter(lines)
    for line in lines:
        if fragment is not None:
            try:
                link = _link(line, head)
            except _NotARecordError:
                fragment += b"\n" + line
                continue
            if link.record.get("fragment_sha256") != hashlib.sha256(fragment).hexdigest():
                raise ChainBrokenError(head.size, "follows a fragment and does not account for it")
            fragment = None
        else:
            try:
                link = _link(line, head)
            except _NotARecordError:
                fragment = bytearray(line)
                continue
            except _NotBoundError as error:
                raise _blamed(error, line, next(lines, None)) from error
        head = Head(link.index + 1, link.leaf)
        yield link
    if fragment is not None:
        raise UnaccountedError(head.size, bytes(fragment))


class _NotARecordError(ChainBrokenError):
    """The line is not canonical JSON: a fragment or a forgery."""


class _NotBoundError(ChainBrokenError):
    """A record with the right index and the hash of another one before it."""


def _blamed(found: _NotBoundError, line: bytes, following: bytes | None) -> ChainBrokenError:
    """Which of two records that don't fit is the bad one: the second, unless the chain goes on from it."""
    if found.index == 0:
        return found
    if following is not None:
        try:
            goes_on = msgspec.json.decode(following).get("prev") == leaf_hash(line)
        except (msgspec.DecodeError, ValueError, RecursionError, AttributeError):
            goes_on = False
        if not goes_on:
            return found
    return ChainBrokenError(found.index - 1, "is not the record that the one after it is bound to")


def _link(line: bytes, head: Head) -> Link:
    index = head.size
    try:
        record = read_canonical(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _NotARecordError(index, f"not a JSON record ({error})") from error
    if not isinstance(record, dict):
        raise _NotARecordError(index, "not a JSON object")
    if record.get("index") != index:
        raise ChainBrokenError(index, f"carries index {record.get('index')!r}")
    if record.get("prev") != head.leaf:
        raise _NotBoundError(index, "is not bound to the record before it")
    return Link(index, leaf_hash(line), record)
