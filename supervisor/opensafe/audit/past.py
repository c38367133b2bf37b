"""Reading back what stands in the segments: from a record on, or back from one, in pieces of a bounded size.

The log grows meanwhile, and can be larger than memory. So nothing is read whole: where a record lies is found by
halving, over segments by their first record and then over bytes, and who reads on stops where records are durable.
What a crash left of a line is no record and is passed over, as the record after it accounts for it.

Whoever reads does so in a thread beside an event loop that calls wait for, and pauses on the way: releasing the
interpreter is not enough, since the thread that released it is the first to have it again.
"""

import bisect
import os
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import msgspec

from opensafe.errors import AuditError
from opensafe.model.canonical import leaf_hash
from opensafe.model.chain import MAX_LINE

from .segment import segment_paths

#: Where halving ends and reading begins.
_NEAR: Final = 64 << 10
_BLOCK: Final = 256 << 10
#: After so many bytes, some 150 µs of work, a reader pauses for so many seconds.
_STRIDE: Final = 64 << 10
_PAUSE_S: Final = 0.0001


class _Rule(msgspec.Struct, frozen=True):
    id: str


class _Result(msgspec.Struct, frozen=True):
    action: str
    rules: tuple[_Rule, ...] = ()


class Facets(msgspec.Struct, frozen=True):
    """What records are chosen by, whatever their kind; "" and 0 where a kind has no such field.

    result: of a decision. rules: of connections (ids) and of what a candidate in shadow said.
    """

    index: int
    kind: str
    time_us: int = 0
    session_id: str = ""
    call_id: str = ""
    principal: str = ""
    result: _Result | None = None
    rules: tuple[_Rule | str, ...] = ()

    @property
    def rule_ids(self) -> Iterator[str]:
        """Ids of the rules that it names."""
        for rule in (*(self.result.rules if self.result is not None else ()), *self.rules):
            yield rule if isinstance(rule, str) else rule.id


class Entry(msgspec.Struct, frozen=True):
    """A record: its line as it stands in the log, and what it is chosen by."""

    line: bytes
    facets: Facets

    @property
    def index(self) -> int:
        """Its place in the log."""
        return self.facets.index

    @property
    def session_id(self) -> str:
        """Of the session that it is of, or ""."""
        return self.facets.session_id

    @property
    def leaf(self) -> str:
        """Its RFC 6962 leaf hash."""
        return leaf_hash(self.line)


_facets: Final = msgspec.json.Decoder(Facets).decode


def entry(line: bytes) -> Entry | None:
    """The record of a line, None for a fragment."""
    try:
        return Entry(line, _facets(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def ahead(state: pathlib.Path, index: int, end: int, size: int) -> list[Entry]:
    """The records from `index` on: so many bytes of them and at least one, none from the index `end` on.

    Those before `end` must be in the files. Raises AuditError where one is not.
    """
    found: list[Entry] = []
    pace = _Pace()
    paths = segment_paths(state)
    number, offset = _place(paths, index)
    for path in paths[number:]:
        with path.open("rb", buffering=_BLOCK) as file:
            file.seek(offset)
            while index < end and size > 0 and (line := file.readline(MAX_LINE + 1)):
                one = entry(line.removesuffix(b"\n"))
                if one is not None and one.index != index:
                    raise _misplaced(index)
                if one is not None:
                    found.append(one)
                    index, size = index + 1, size - len(line)
                pace.read(len(line))
        if index == end or size <= 0:
            return found
        offset = 0
    raise _misplaced(index)


def backward(state: pathlib.Path, before: int, end: int) -> Iterator[tuple[int, Entry | None]]:
    """The records before the index `before`, the newest first, with the bytes of each; None for what is no record.

    end: how many records there are; those behind may be half written. Raises AuditError where one is missing.
    """
    left = min(before, end)
    pace = _Pace()
    paths = segment_paths(state)
    place = _place(paths, left) if before < end else (len(paths) - 1, None)
    for line in _log_back(paths, *place):
        pace.read(len(line))
        one = entry(line)
        if one is not None and one.index >= left:
            continue
        if one is not None and one.index != left - 1:
            raise _misplaced(left - 1)
        left -= one is not None
        yield len(line) + 1, one
    if left:
        raise _misplaced(left - 1)


def _log_back(paths: Sequence[pathlib.Path], number: int, offset: int | None) -> Iterator[bytes]:
    """All lines before that byte of a segment, the last first."""
    yield from _lines_back(paths[number], offset, whole=False)
    for path in reversed(paths[:number]):
        yield from _lines_back(path, None, whole=True)


class _Pace:
    def __init__(self) -> None:
        self._left = _STRIDE

    def read(self, size: int) -> None:
        """So many bytes more."""
        self._left -= size
        if self._left <= 0:
            time.sleep(_PAUSE_S)
            self._left = _STRIDE


def _place(paths: Sequence[pathlib.Path], index: int) -> tuple[int, int]:
    """Number of the segment and the offset at which a record begins, or would begin. Raises AuditError."""
    number = bisect.bisect_right(range(len(paths)), index, key=lambda one: _first_index(paths[one])) - 1
    if number < 0:
        raise _misplaced(index)
    with paths[number].open("rb") as file:
        return number, _offset(file, index)


def _first_index(path: pathlib.Path) -> int:
    """Index of a segment's first record; more than any where it has none yet."""
    with path.open("rb") as file:
        return next((one.index for _, one in _records(file)), sys.maxsize)


def _offset(file: BinaryIO, index: int) -> int:
    """Where the record begins in its segment; the end of what is complete where it is not there yet."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while high - low > _NEAR:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()  # the rest of the line that lies across
        at, one = next(_records(file), (high, None))
        if one is None or at >= high or one.index > index:
            high = middle + 1
        else:
            low = at
    file.seek(low)
    end = low
    for at, one in _records(file):
        if one.index >= index:
            return at
        end = at + len(one.line) + 1
    return end


def _records(file: BinaryIO) -> Iterator[tuple[int, Entry]]:
    """Offset and record of each complete line from here on."""
    at = file.tell()
    while (line := file.readline(MAX_LINE + 1)).endswith(b"\n"):
        one = entry(line[:-1])
        if one is not None:
            yield at, one
        at += len(line)


def _lines_back(path: pathlib.Path, end: int | None, *, whole: bool) -> Iterator[bytes]:
    """The lines of a file before the byte `end` (None: its own end), the last first.

    whole: what stands behind the last newline is a line, too; else it may still be written.
    """
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END) if end is None else end
        behind: list[bytes] = []  # pieces of the line whose beginning is not read yet, the last first
        while at:
            begin = max(0, at - _BLOCK)
            file.seek(begin)
            *lines, rest = reversed(file.read(at - begin).split(b"\n"))
            at = begin
            for line in lines:
                if whole:
                    yield b"".join(reversed([*behind, line]))
                behind, whole = [], True
            behind.append(rest)
            if sum(map(len, behind)) > MAX_LINE:
                raise AuditError("a line is longer than any record", value=path.name, limit=MAX_LINE)
        if whole:
            yield b"".join(reversed(behind))


def _misplaced(index: int) -> AuditError:
    return AuditError("a record is not where it has to be", value=index, remedy="Run `opensafe audit verify`.")
