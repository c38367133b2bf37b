"""Two sessions' calls side by side: those that are the same stand in one row, what only one of them has alone.

Rows keep both orders. As many same calls as possible are paired, then as many of the same tool, rather those that begin
alike: a longest common subsequence with weights. Its cost is bounded by the lengths alone, whatever agents have put
into their calls.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from .board import Call
from .trace import Trace

#: Calls of each session that are compared, the last ones.
COMPARED_MAX: Final = 500
#: What a pair counts: the same call more than all others could together, then one that begins alike.
_SAME: Final = 3 * COMPARED_MAX
_ALIKE: Final = 2
_TOOL: Final = 1

Kind = Literal["same", "other", "left", "right"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that stand beside each other; None where one session has none.

    kind: same (tool and target), other (the tool alone), left or right (only there). differs: verdict, rules, outcome.
    delta_us: how much longer the right one took, judging and run together; None where one is missing.
    """

    left: Call | None
    right: Call | None
    kind: Kind
    differs: tuple[str, ...] = ()
    delta_us: int | None = None


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """One session's calls summed up. Times in microseconds and nanoseconds, as calls have them."""

    calls: int
    counts: dict[str, int]
    evaluation_us: int
    run_ns: int
    alone: int


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The whole. cut: not all of their calls are in it."""

    rows: tuple[Row, ...]
    left: Total
    right: Total
    same: int
    differing: int
    cut: bool


def calls_of(trace: Trace) -> list[Call]:
    """The calls that are held of a session; requests that never came before policy are none."""
    return [step.call for step in trace.steps if step.call is not None]


def compare(left: Sequence[Call], right: Sequence[Call]) -> Compared:
    """Compare the last COMPARED_MAX calls of each."""
    cut = max(len(left), len(right)) > COMPARED_MAX
    left, right = left[-COMPARED_MAX:], right[-COMPARED_MAX:]
    rows = tuple(_row(one, other) for one, other in pairs(left, right))
    return Compared(
        rows=rows,
        left=_total(left, rows, "left"),
        right=_total(right, rows, "right"),
        same=sum(row.kind == "same" for row in rows),
        differing=sum(row.kind != "same" or bool(row.differs) for row in rows),
        cut=cut,
    )


def pairs(left: Sequence[Call], right: Sequence[Call]) -> list[tuple[Call | None, Call | None]]:
    """Both in their orders, paired. At most COMPARED_MAX of each."""
    ours, theirs = [(one.tool, one.target) for one in left], [(one.tool, one.target) for one in right]
    begin = 0
    while begin < min(len(ours), len(theirs)) and ours[begin] == theirs[begin]:
        begin += 1
    end = 0
    while end < min(len(ours), len(theirs)) - begin and ours[-1 - end] == theirs[-1 - end]:
        end += 1
    middle = _aligned(ours[begin : len(ours) - end], theirs[begin : len(theirs) - end])
    tail = [(len(ours) - back, len(theirs) - back) for back in range(end, 0, -1)]
    places: list[tuple[int | None, int | None]] = [(at, at) for at in range(begin)]
    places += [(None if i is None else i + begin, None if j is None else j + begin) for i, j in middle]
    places += tail
    return [(None if i is None else left[i], None if j is None else right[j]) for i, j in places]


def _aligned(ours: list[tuple[str, str]], theirs: list[tuple[str, str]]) -> list[tuple[int | None, int | None]]:
    """Indices of both, paired with the greatest weight."""
    best = [[0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]  # of what follows i and j
    for i in range(len(ours) - 1, -1, -1):
        row, below, mine = best[i], best[i + 1], ours[i]
        for j in range(len(theirs) - 1, -1, -1):
            skipped = max(below[j], row[j + 1])
            row[j] = max(skipped, below[j + 1] + _weight(mine, theirs[j]))
    found: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        weight = _weight(ours[i], theirs[j])
        if weight and best[i][j] == best[i + 1][j + 1] + weight:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            found.append((i, None))
            i += 1
        else:
            found.append((None, j))
            j += 1
    found += [(rest, None) for rest in range(i, len(ours))]
    return found + [(None, rest) for rest in range(j, len(theirs))]


def _weight(one: tuple[str, str], other: tuple[str, str]) -> int:
    if one == other:
        return _SAME
    if one[0] != other[0]:
        return 0
    return _ALIKE if one[1].partition(" ")[0] == other[1].partition(" ")[0] else _TOOL


def _row(left: Call | None, right: Call | None) -> Row:
    if left is None or right is None:
        return Row(left=left, right=right, kind="right" if left is None else "left")
    kind: Kind = "same" if (left.tool, left.target) == (right.tool, right.target) else "other"
    differs = [("verdict", left.action != right.action), ("rules", _rules(left) != _rules(right))]
    differs.append(("outcome", _ended(left) != _ended(right)))
    return Row(
        left=left,
        right=right,
        kind=kind,
        differs=tuple(name for name, holds in differs if holds),
        delta_us=_took_us(right) - _took_us(left),
    )


def _took_us(call: Call) -> int:
    return call.evaluation_us + (call.outcome.run_ns // 1000 if call.outcome is not None else 0)


def _rules(call: Call) -> list[str]:
    return sorted({hit.id for hit in call.rules})


def _ended(call: Call) -> tuple[str, int | None, int | None]:
    outcome = call.outcome
    return ("", None, None) if outcome is None else (outcome.kind, outcome.exit_code, outcome.signal)


def _total(calls: Sequence[Call], rows: Sequence[Row], side: Kind) -> Total:
    counts: dict[str, int] = {}
    for call in calls:
        counts[call.action] = counts.get(call.action, 0) + 1
    return Total(
        calls=len(calls),
        counts=counts,
        evaluation_us=sum(call.evaluation_us for call in calls),
        run_ns=sum(call.outcome.run_ns for call in calls if call.outcome is not None),
        alone=sum(row.kind == side for row in rows),
    )
