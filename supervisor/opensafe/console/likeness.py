"""The likest call that was allowed, and how another differs from it, word by word.

Agents choose the texts that are compared: they come cut to a few hundred characters, and how many are tried is bounded.
"""

import difflib
import heapq
import itertools
import re
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from opensafe.model.decision import Action

from .board import Call, Session

#: Different texts that are looked at, the latest; how many of them, by their words alone the likest, are compared in
#: order, too; and how alike the likest must at least be, 0 to 1.
TRIED_MAX: Final = 300
COMPARED_MAX: Final = 8
LIKE_MIN: Final = 0.4
_WORDS: Final = re.compile(r"\s+|[\w.~%+-]+|.", re.DOTALL)


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a comparison. kind: same, gone (only in the earlier one) or new (only in the later one)."""

    kind: Literal["same", "gone", "new"]
    text: str


def likest(tool: str, about: str, session_id: str, call_id: str, sessions: Iterable[Session]) -> Call | None:
    """The allowed call of `tool` that is likest to one `about` a target; the latest of equals. Not that call itself."""
    tried: dict[str, Call] = {}
    calls = itertools.chain.from_iterable(reversed(one.calls) for one in sessions)
    for call in calls:
        if call.tool != tool or call.action is not Action.ALLOW or call.purpose not in ("call", "permit"):
            continue
        if (call.session_id, call.call_id) == (session_id, call_id):
            continue
        if call.target not in tried:
            if len(tried) == TRIED_MAX:
                break
            tried[call.target] = call
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(words(about))

    def same_words(text: str) -> float:
        matcher.set_seq1(words(text))
        return matcher.quick_ratio()

    best, found = LIKE_MIN, None
    for text in heapq.nlargest(COMPARED_MAX, tried, key=same_words):
        matcher.set_seq1(words(text))
        if matcher.ratio() > best:
            best, found = matcher.ratio(), tried[text]
    return found


def compare(earlier: str, later: str) -> tuple[Piece, ...]:
    """What of `earlier` is gone in `later`, and what is new there, in the order of both."""
    old, new = words(earlier), words(later)
    pieces: list[Piece] = []
    for kind, begin, end, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, added = "".join(old[begin:end]), "".join(new[start:stop])
        if kind == "equal":
            pieces.append(Piece(kind="same", text=gone))
            continue
        if gone:
            pieces.append(Piece(kind="gone", text=gone))
        if added:
            pieces.append(Piece(kind="new", text=added))
    return tuple(pieces)


def words(text: str) -> list[str]:
    """Names, spaces and signs, which together are the text."""
    return _WORDS.findall(text)
