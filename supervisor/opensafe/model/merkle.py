"""The Merkle tree over a log's lines: roots, inclusion and consistency proofs as RFC 6962, section 2.1, has them.

Hashes are 32 bytes. A leaf is SHA-256(0x00 || line), a node SHA-256(0x01 || left || right), the empty tree's root
SHA-256 of nothing. Who writes needs only a `Frontier` of at most 63 hashes; who proves needs all leaves.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

EMPTY: Final = hashlib.sha256(b"").digest()


def leaf(line: bytes) -> bytes:
    """Hash of one line without its newline."""
    return hashlib.sha256(b"\x00" + line).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """The roots of the full subtrees that a growing tree consists of, the largest first."""

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        """Continue a tree of that size. Raises ValueError where the hashes are not as many as it has subtrees."""
        self.size = size
        self.hashes = list(hashes)
        if size < 0 or len(self.hashes) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves has {size.bit_count()} full subtrees, not {len(self.hashes)}")

    def append(self, leaf_hash: bytes) -> None:
        """Add a leaf at the right."""
        merged, size = leaf_hash, self.size
        while size & 1:
            merged = _node(self.hashes.pop(), merged)
            size >>= 1
        self.hashes.append(merged)
        self.size += 1

    def root(self) -> bytes:
        """Root of the tree."""
        if not self.hashes:
            return EMPTY
        *rest, merged = self.hashes
        for left in reversed(rest):
            merged = _node(left, merged)
        return merged


class Paths:
    """A growing tree that learns the audit paths of some of its leaves: as many hashes as it has leaves, not a tree
    for each.
    """

    def __init__(self) -> None:
        #: Full subtrees, the largest first: size, root, and the paths so far of the leaves asked for in them.
        self._trees: list[tuple[int, bytes, list[list[bytes]]]] = []

    def append(self, leaf_hash: bytes) -> None:
        """Add a leaf at the right."""
        self._add(leaf_hash, [])

    def append_wanted(self, leaf_hash: bytes) -> list[bytes]:
        """Add a leaf at the right. Its path, which is complete when `root` returns."""
        path: list[bytes] = []
        self._add(leaf_hash, [path])
        return path

    def root(self) -> bytes:
        """Root of the tree, which then takes no more leaves."""
        while len(self._trees) > 1:
            self._trees.append(self._merged(self._trees.pop()))
        return self._trees[0][1] if self._trees else EMPTY

    def _add(self, leaf_hash: bytes, paths: list[list[bytes]]) -> None:
        tree = (1, leaf_hash, paths)
        while self._trees and self._trees[-1][0] == tree[0]:
            tree = self._merged(tree)
        self._trees.append(tree)

    def _merged(self, right: tuple[int, bytes, list[list[bytes]]]) -> tuple[int, bytes, list[list[bytes]]]:
        left = self._trees.pop()
        for path in left[2]:
            path.append(right[1])
        for path in right[2]:
            path.append(left[1])
        return left[0] + right[0], _node(left[1], right[1]), left[2] + right[2]


def root(leaves: Iterable[bytes]) -> bytes:
    """Root of the tree over these leaf hashes."""
    frontier = Frontier()
    for one in leaves:
        frontier.append(one)
    return frontier.root()


def inclusion(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """PATH(index, leaves): what proves that the leaf stands there in the tree of all. Raises IndexError."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of {len(leaves)}")
    tree, path = Paths(), list[bytes]()
    for number, one in enumerate(leaves):
        if number == index:
            path = tree.append_wanted(one)
        else:
            tree.append(one)
    tree.root()
    return path


def consistency(leaves: Sequence[bytes], first: int) -> list[bytes]:
    """PROOF(first, leaves): that the tree of the first so many leaves is the beginning of all. Raises IndexError."""
    if not 0 < first <= len(leaves):
        raise IndexError(f"a tree of {first} in one of {len(leaves)}")
    path: list[bytes] = []
    whole = True  # the smaller tree is, so far, a subtree whose root its holder knows
    while first != len(leaves):
        split = _split(len(leaves))
        if first <= split:
            path.append(root(leaves[split:]))
            leaves = leaves[:split]
        else:
            path.append(root(leaves[:split]))
            leaves, first, whole = leaves[split:], first - split, False
    if not whole:
        path.append(root(leaves))
    return path[::-1]


def root_by_inclusion(leaf_hash: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that this path leads to (RFC 9162, 2.1.3.2). Raises ValueError where no such path can be."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} of {size}")
    found = leaf_hash
    for one, at_left in _steps(index, size - 1, path):
        found = _node(one, found) if at_left else _node(found, one)
    return found


def roots_by_consistency(first: int, second: int, first_root: bytes, path: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The two roots that this path leads to (RFC 9162, 2.1.4.2). Raises ValueError where no such path can be.

    Both must be compared: the first with `first_root`, the second with the larger tree's.
    """
    if not 0 < first <= second:
        raise ValueError(f"a tree of {first} in one of {second}")
    if first == second:
        if path:
            raise ValueError("the path is too long")
        return first_root, first_root
    steps = list(path) if first & (first - 1) else [first_root, *path]
    if not steps:
        raise ValueError("the path is too short")
    node, last = first - 1, second - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    older = newer = steps[0]
    for one, at_left in _steps(node, last, steps[1:]):
        if at_left:
            older, newer = _node(one, older), _node(one, newer)
        else:
            newer = _node(newer, one)
    return older, newer


def _steps(node: int, last: int, path: Sequence[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each hash of a path from `node` in a level that ends with `last`, and whether it stands at the left of what is
    hashed with it: the loop of both algorithms. Raises ValueError where the path has not the length for that.
    """
    for one in path:
        if last == 0:
            raise ValueError("the path is too long")
        at_left = bool(node & 1) or node == last
        yield one, at_left
        while at_left and node and not node & 1:
            node, last = node >> 1, last >> 1
        node, last = node >> 1, last >> 1
    if last:
        raise ValueError("the path is too short")


def _split(size: int) -> int:
    """Largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)
