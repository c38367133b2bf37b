"""Decision trees over `struct seccomp_data`, compiled to classic BPF (Linux, networking/filter.rst).

What counts is the time to *install* a filter, which every call pays: gVisor then runs the program once for each
number from 0 to 2000, and its cost for one run grows with the program's length as well. So a switch becomes a search
tree over ranges of equal verdict, balanced by how many of those numbers lie in each, and verdicts share one return.

The program is written from its end, since BPF jumps only forward: what is jumped to has its place by then.
"""

import struct
from collections.abc import Mapping
from typing import Final

import msgspec

#: struct seccomp_data (linux/seccomp.h).
NUMBER: Final = 0
ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16

#: linux/seccomp.h
ALLOW: Final = 0x7FFF0000
KILL_PROCESS: Final = 0x80000000
_ERRNO: Final = 0x00050000

# linux/bpf_common.h: class, size, mode and operation together.
_AND: Final = 0x54
_JUMP: Final = 0x05
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_NOT_BELOW: Final = 0x35
_LOAD: Final = 0x20
_RETURN: Final = 0x06

#: All 32 bits.
WORD: Final = 0xFFFFFFFF
#: The longest conditional jump, less one for what may have to be put between.
_NEAR: Final = 254


class Switch(msgspec.Struct, frozen=True):
    """The verdict by one 32-bit word of the data, after `mask`: that of the equal case, or the default.

    `frequent` is the highest value that is asked for as often as any below it; 0 where no more is known.
    """

    offset: int
    cases: Mapping[int, "Verdict"]
    default: "Verdict"
    mask: int = WORD
    frequent: int = 0


#: The value that the filter returns, or what else to look at.
Verdict = int | Switch


def errno(number: int) -> Verdict:
    """The call fails with this errno and is not executed."""
    return _ERRNO | number


def argument(index: int) -> int:
    """Offset of the low 32 bits of an argument, on a little-endian machine. The kernel reads no more of an int."""
    return _ARGUMENTS + 8 * index


def compiled(verdict: Verdict) -> bytes:
    """The program, `struct sock_filter` records. The same for equal verdicts."""
    return _Program().whole(verdict)


class _Range(msgspec.Struct, frozen=True):
    """Values from `first` to that before the next range's."""

    first: int
    weight: int
    verdict: Verdict


class _Program:
    """Instructions in reverse order. A place is an index into them."""

    def __init__(self) -> None:
        self._reversed: list[tuple[int, int, int, int]] = []
        self._returns: dict[int, int] = {}

    def whole(self, verdict: Verdict) -> bytes:
        self._put(verdict)
        return b"".join(struct.pack("=HBBI", *instruction) for instruction in reversed(self._reversed))

    def _put(self, verdict: Verdict) -> int:
        if isinstance(verdict, int):
            if not self._reaches(self._returns.get(verdict)):
                self._returns[verdict] = self._add(_RETURN, verdict)
            return self._returns[verdict]
        place = self._search(_ranges(verdict))
        # What was put last is what runs next.
        if place != len(self._reversed) - 1:
            self._add(_JUMP, len(self._reversed) - place - 1)
        if verdict.mask != WORD:
            self._add(_AND, verdict.mask)
        return self._add(_LOAD, verdict.offset)

    def _search(self, ranges: list[_Range]) -> int:
        match ranges:
            case [only]:
                return self._put(only.verdict)
            case [below, one, above] if below.verdict == above.verdict and one.first == above.first - 1:
                return self._branch(_JUMP_IF_EQUAL, one.first, self._put(one.verdict), self._put(below.verdict))
        middle = _middle(ranges)
        upper = self._search(ranges[middle:])
        return self._branch(_JUMP_IF_NOT_BELOW, ranges[middle].first, upper, self._search(ranges[:middle]))

    def _branch(self, code: int, value: int, if_true: int, if_false: int) -> int:
        """`if_false` was put last, so it is in reach."""
        if_true = self._near(if_true)
        here = len(self._reversed) - 1
        return self._add(code, value, here - if_true, here - if_false)

    def _near(self, place: int) -> int:
        """`place`, or a nearer one from which the same follows."""
        if self._reaches(place):
            return place
        code, _, _, value = self._reversed[place]
        if code == _RETURN:
            return self._add(_RETURN, value)
        return self._add(_JUMP, len(self._reversed) - place - 1)

    def _reaches(self, place: int | None) -> bool:
        return place is not None and len(self._reversed) - 1 - place <= _NEAR

    def _add(self, code: int, value: int, if_true: int = 0, if_false: int = 0) -> int:
        self._reversed.append((code, if_true, if_false, value))
        return len(self._reversed) - 1


def _ranges(switch: Switch) -> list[_Range]:
    """All 32-bit values in order; neighbours differ in their verdict."""
    firsts: list[tuple[int, Verdict]] = [(0, switch.default)]
    for value in sorted(switch.cases):
        verdict = switch.cases[value]
        # The one before has ended its case there already.
        if firsts[-1][0] == value:
            firsts.pop()
        if not firsts or firsts[-1][1] != verdict:
            firsts.append((value, verdict))
        if value < WORD:
            firsts.append((value + 1, switch.default))
    return _weighed(firsts, switch.frequent)


def _weighed(firsts: list[tuple[int, Verdict]], frequent: int) -> list[_Range]:
    ends = [first - 1 for first, _ in firsts[1:]] + [WORD]
    return [
        _Range(first, max(1, min(end, frequent) - first + 1), verdict)
        for (first, verdict), end in zip(firsts, ends, strict=True)
    ]


def _middle(ranges: list[_Range]) -> int:
    """Where to part them so that both halves weigh most nearly the same."""
    total = sum(one.weight for one in ranges)
    best, middle, below = total, 1, 0
    for index, one in enumerate(ranges[:-1], 1):
        below += one.weight
        if abs(total - 2 * below) < best:
            best, middle = abs(total - 2 * below), index
    return middle
