"""Records that match, the newest first: the log read backwards, a bounded number of its bytes at a time.

There is no index of what is searched for: the log is the only truth, and it is read at some hundred MB/s. A rare text
is therefore found over several requests, each of which says where the next one goes on.
"""

import pathlib
from collections.abc import Callable
from typing import Final

import msgspec

from .past import Entry, Facets, backward

#: Bytes of the log that one request looks through, and that one piece of it does; one record more at most.
SCAN_BYTES: Final = 32 << 20
PIECE_BYTES: Final = 1 << 20
#: Bytes of records that one page holds, or one record.
PAGE_BYTES: Final = 4 << 20
TEXT_MAX: Final = 200
#: How much older than `since_us` a record is before which none is looked for: clocks are set.
_SLACK_US: Final = 3600 * 10**6


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for; empty fields don't restrict. Times are in microseconds since the epoch, until_us excluded.

    action: of a decision. rule: an id, or what ids begin with before a dot. text: in the line, whatever its case.
    """

    session_id: str = ""
    call_id: str = ""
    kinds: frozenset[str] = frozenset()
    action: str = ""
    rule: str = ""
    text: str = ""
    since_us: int = 0
    until_us: int = 0

    def matcher(self) -> Callable[[Entry], bool]:
        """Whether a record is one."""
        texts = _needles(self.text)
        folded = not self.text.isascii()

        def matches(one: Entry) -> bool:
            if not self._takes(one.facets):
                return False
            if not texts:
                return True
            line = one.line.decode(errors="replace").casefold().encode() if folded else one.line.lower()
            return any(text in line for text in texts)

        return matches

    def _takes(self, facets: Facets) -> bool:
        return (
            (not self.session_id or facets.session_id == self.session_id)
            and (not self.call_id or facets.call_id == self.call_id)
            and (not self.kinds or facets.kind in self.kinds)
            and (not self.action or (facets.result is not None and facets.result.action == self.action))
            and (not self.since_us or facets.time_us >= self.since_us)
            and (not self.until_us or facets.time_us < self.until_us)
            and (not self.rule or any(_begins(rule, self.rule) for rule in facets.rule_ids))
        )


class Piece(msgspec.Struct, frozen=True):
    """Matches, the newest first. left: the records before this index were not looked at. scanned: bytes."""

    found: list[Entry]
    left: int
    scanned: int


def scan(state: pathlib.Path, query: Query, before: int, end: int) -> Piece:
    """Look at the records before the index `before`: PIECE_BYTES of them and at least one. Raises AuditError.

    end: how many records there are.
    """
    found: list[Entry] = []
    matches, oldest_us = query.matcher(), query.since_us - _SLACK_US
    left, scanned = min(before, end), 0
    for length, one in backward(state, before, end):
        scanned += length
        if one is None:
            continue
        left = one.index
        if 0 < one.facets.time_us < oldest_us:
            return Piece(found, 0, scanned)
        if matches(one):
            found.append(one)
        if scanned >= PIECE_BYTES:
            return Piece(found, left, scanned)
    return Piece(found, 0, scanned)


def _needles(text: str) -> tuple[bytes, ...]:
    """The text as it may stand in a line: as it is, and as a JSON string has it."""
    if not text:
        return ()
    folded = text.casefold()
    return tuple({folded.encode(), msgspec.json.encode(folded)[1:-1]})


def _begins(rule: str, wanted: str) -> bool:
    return rule == wanted or rule.startswith(f"{wanted.removesuffix('.')}.")
