"""Where a writer goes on: from which segment it has to read.

An index that covers whole segments spares their reading: the first record of the one after carries the hash that the
index must have. That those segments still hold what they held is for `opensafe audit verify` to say, and the warden
signs nothing else (ADR 0029).
"""

import itertools
import pathlib
from collections.abc import Iterator, Sequence

import msgspec

from opensafe.errors import StaleIndex
from opensafe.model import chain

from .segment import read_lines


class Found(msgspec.Struct, kw_only=True):
    """head: what the records continue that have to be read. links: these, verified as they are read, in order."""

    head: chain.Head
    links: Iterator[chain.Link]


class _First(msgspec.Struct, frozen=True):
    index: int
    prev: str


def read(paths: Sequence[pathlib.Path], known: tuple[int, str]) -> Found:
    """Read as far back as an index needs that holds `known`: so many records, and the leaf hash of the last.

    Raises StaleIndex where it is of another log. Reading the links raises ChainBrokenError, AuditError, and at the end
    UnaccountedError for what a crash left of a last line.
    """
    number, head = _begin(paths, known[0])
    if head.size and head.size == known[0] and head.leaf != known[1]:
        raise StaleIndex("the index is of another log", value=known[1], limit=head.leaf)
    lines = itertools.chain.from_iterable(map(read_lines, paths[number:]))
    return Found(head=head, links=chain.verify(lines, head))


def _begin(paths: Sequence[pathlib.Path], known: int) -> tuple[int, chain.Head]:
    """The last segment that begins no later than behind the index, and what its first record continues."""
    for number in range(len(paths) - 1, 0, -1):
        line = next(read_lines(paths[number]), b"")
        try:
            first = msgspec.json.decode(line, type=_First)
        except msgspec.DecodeError:
            continue
        if 0 < first.index <= known:
            return number, chain.Head(first.index, first.prev)
    return 0, chain.Head()
