"""Proofs of single records out of a log that grows, without its hashing anew for each.

What is kept of the tree are the roots of its full subtrees of 256 leaves: 32 bytes for 256 records. Their order is the
tree's own (RFC 6962, 2.1: it splits at powers of two), so an audit path is one inside of a subtree and one over their
roots. The first proof reads the whole log, each further one what was written since and one subtree.
"""

import pathlib
from typing import Final

from opensafe.errors import AuditError
from opensafe.model import merkle
from opensafe.model.checkpoint import Checkpoint
from opensafe.model.proof import Inclusion, encoded

from .past import Entry, ahead

_TILE: Final = 256
_PIECE_BYTES: Final = 1 << 20


class Tiles:
    """The tree over a log's first `size` records. One call at a time, in any thread."""

    def __init__(self, state: pathlib.Path) -> None:
        self._state = state
        self._roots: list[bytes] = []
        #: Of the subtree that is not full yet.
        self._leaves: list[bytes] = []

    @property
    def size(self) -> int:
        """How many records it covers."""
        return len(self._roots) * _TILE + len(self._leaves)

    def extend(self, end: int) -> None:
        """Cover further records, up to the index `end`: some MiB of them at most, or one. Raises AuditError."""
        for one in ahead(self._state, self.size, end, _PIECE_BYTES):
            self._leaves.append(merkle.leaf(one.line))
            if len(self._leaves) == _TILE:
                self._roots.append(merkle.root(self._leaves))
                self._leaves = []

    def prove(self, wanted: Entry, note: bytes, made: Checkpoint) -> Inclusion:
        """That the record stands in the log of a checkpoint, which has to cover it and is of the size that this has.

        Raises AuditError where the log is not the one that was signed.
        """
        tile, place = divmod(wanted.index, _TILE)
        roots, leaves = self._roots, self._leaves
        if tile < len(roots):
            leaves = self._full(tile)
        if self._leaves:
            roots = [*roots, merkle.root(self._leaves)]
        path = merkle.inclusion(leaves, place) + merkle.inclusion(roots, tile)
        if merkle.root_by_inclusion(merkle.leaf(wanted.line), wanted.index, made.size, path) != made.root:
            raise AuditError(
                "the log is not the one that the checkpoint signed",
                value=made.size,
                remedy="Run `opensafe audit verify`.",
            )
        return Inclusion(index=wanted.index, record=wanted.line.decode(), checkpoint=note.decode(), path=encoded(path))

    def _full(self, tile: int) -> list[bytes]:
        """The leaves of a full subtree, read again."""
        leaves: list[bytes] = []
        begin = tile * _TILE
        while len(leaves) < _TILE:
            found = ahead(self._state, begin + len(leaves), begin + _TILE, _PIECE_BYTES)
            leaves += [merkle.leaf(one.line) for one in found]
        return leaves
