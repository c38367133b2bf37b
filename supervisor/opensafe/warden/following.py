"""Reading the audit log as it grows: each line once, in its place, into the tree that checkpoints sign.

The lines are the front's, who might be an attacker: a line is taken for a record only where it carries the next index
and the hash of the record before. Its content is nobody's business here. What a crash left of a line is passed over
only where the next record accounts for it (model/chain.py).
"""

import hashlib
from typing import Final

import msgspec

from ..model.chain import GENESIS, MAX_LINE, ChainBrokenError, Head
from ..model.merkle import Frontier, leaf
from .protocol import Hex
from .segments import Segments

_CHUNK: Final = 1 << 20


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far was read: size and frontier of the tree, the last leaf, and the byte behind its line."""

    size: int = 0
    leaf: Hex = GENESIS
    frontier: tuple[Hex, ...] = ()
    segment: int = 0
    offset: int = 0


class _Place(msgspec.Struct, frozen=True):
    index: int = -1
    prev: str = ""
    fragment_sha256: str = ""


class Follower:
    """One reader of the segments. For one thread at a time."""

    def __init__(self, segments: Segments, kept: Kept | None = None) -> None:
        """Begin where `kept` ends. Raises ValueError where it is none."""
        kept = kept or Kept()
        self._segments = segments
        self._tree = Frontier(kept.size, map(bytes.fromhex, kept.frontier))
        self._leaf = kept.leaf
        self._segment, self._offset = kept.segment, kept.offset
        #: Hash of what stands behind the last record and is none (model/chain.py).
        self._fragment: hashlib._Hash | None = None
        #: The byte behind the last record, a fragment before it included.
        self._behind = (kept.segment, kept.offset)

    @property
    def head(self) -> Head:
        """The last record that was read."""
        return Head(self._tree.size, self._leaf)

    @property
    def root(self) -> bytes:
        """Root of the tree over all records that were read."""
        return self._tree.root()

    @property
    def kept(self) -> Kept:
        """From where another reader goes on."""
        segment, offset = self._behind
        frontier = tuple(one.hex() for one in self._tree.hashes)
        return Kept(size=self._tree.size, leaf=self._leaf, frontier=frontier, segment=segment, offset=offset)

    def advance(self, up_to: int | None = None) -> bool:
        """Read on, a mebibyte or to the record of that number; whether anything was read.

        Raises ChainBrokenError for a line out of place, AuditError and OSError for what can't be read.
        """
        # First: what the front writes here while this is read, it writes before it writes to the next.
        ended = self._segments.size(self._segment + 1) > 0
        data = self._segments.read(self._segment, self._offset, _CHUNK)
        whole, newline, rest = data.rpartition(b"\n")
        while not newline and len(rest) == len(data) >= _CHUNK:  # a line longer than a chunk
            if len(data) > MAX_LINE:
                raise ChainBrokenError(self._tree.size, f"is longer than {MAX_LINE} bytes")
            data = self._segments.read(self._segment, self._offset, 2 * len(data))
            whole, newline, rest = data.rpartition(b"\n")
        if newline:
            for line in whole.split(b"\n"):
                if self._tree.size == up_to:
                    break
                self._offset += len(line) + 1
                self._take(line)
            return True
        if not ended:
            return False
        if rest:  # what a crash left before the next segment was begun
            self._take(rest)
        self._segments.end(self._segment)
        self._segment, self._offset = self._segment + 1, 0
        return True

    def _take(self, line: bytes) -> None:
        index = self._tree.size
        try:
            place = msgspec.json.decode(line, type=_Place)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if self._fragment is None:
                self._fragment = hashlib.sha256(line)
            else:
                self._fragment.update(b"\n" + line)
            return
        if (place.index, place.prev) != (index, self._leaf):
            raise ChainBrokenError(index, f"carries index {place.index} and is not bound to the record before it")
        if self._fragment is not None and place.fragment_sha256 != self._fragment.hexdigest():
            raise ChainBrokenError(index, "follows a fragment and does not account for it")
        self._fragment = None
        hashed = leaf(line)
        self._tree.append(hashed)
        self._leaf = hashed.hex()
        self._behind = (self._segment, self._offset)
