"""Bytes to a sequence of system calls: every byte string is one, and the same bytes are always the same.

What a byte decides is which tool's trace to follow, where to leave it, which of a kind's few values to take, and
whether a descriptor is one of the pool's or what an earlier call gave. So whatever changes bytes with a purpose (a
fuzzer guided by coverage) changes sequences with it.
"""

from typing import Final

from opensafe.proof.fuzzing.draw import Draw
from opensafe.warden.sandbox.profiles import PROFILES
from opensafe.warden.sandbox.syscalls import NUMBERS

from .arena import pokeable
from .signatures import BY_NAME, GIVES, LAST, POOLS, TABLE, Line
from .traces import TRACES
from .wire import Sequence, SystemCall

#: Calls of a sequence, before one that may end it.
LEAST: Final = 20
_MORE: Final = 13
#: Bytes that a sequence seldom needs more than. Those after the end are zero.
BYTES: Final = 640
_PROFILE: Final = "default"
_X32: Final = 0x40000000
_KNOWN: Final = {line.number for line in (*TABLE, *LAST)}
#: Numbers that no line above has, some beyond all, some of the x32 interface.
_BARE: Final = (
    *(n for n in range(480) if n not in _KNOWN),
    512,
    547,
    1 << 16,
    _X32,
    _X32 + 2,
    _X32 + 59,
    _X32 + 520,
)
_FATAL: Final = frozenset(NUMBERS[name] for name in PROFILES[_PROFILE].fatal)
_BARE_ALIVE: Final = tuple(n for n in _BARE if n not in _FATAL | {NUMBERS["semtimedop"], NUMBERS["futex_wait"]})
_ALIVE: Final = tuple(line for line in TABLE if line.number not in _FATAL)
_ENDING: Final = (*LAST, *(line for line in TABLE if line.number in _FATAL))
_ANY: Final = POOLS["any"] + POOLS["out"] + POOLS["fd"]


def sequence(data: bytes, *, filtered: bool = True) -> Sequence:
    """At least LEAST calls. filtered: what kills under a call filter stands at the end, if anywhere."""
    return _Making(Draw(data), filtered=filtered).made()


class _Making:
    def __init__(self, choices: Draw, *, filtered: bool) -> None:
        self._choices = choices
        self._filtered = filtered
        self._calls: list[SystemCall] = []
        self._given: list[int] = []

    def made(self) -> Sequence:
        choices = self._choices
        length = LEAST + choices.byte() % _MORE
        pokes = tuple(self._poke() for _ in range(choices.byte() % 4))
        while len(self._calls) < length:
            self._stretch(length)
        if choices.byte() % 4 == 0:
            ending = _ENDING[choices.byte() % len(_ENDING)]
            self._call(ending)
        return Sequence(tuple(self._calls), pokes)

    def _stretch(self, length: int) -> None:
        """A tool's trace, or a few calls of any kind."""
        choices = self._choices
        way = choices.byte()
        if way < 96:
            trace = TRACES[way % len(TRACES)]
            first = choices.byte() % len(trace)
            names = trace[first:] + trace[:first]
            for name in names[: 2 + choices.byte() % len(trace)]:
                line = BY_NAME[name]
                if len(self._calls) < length and line not in LAST and not (self._filtered and line.number in _FATAL):
                    self._call(line)
        elif way < 224:
            lines = _ALIVE if self._filtered else TABLE
            for _ in range(1 + way % 4):
                if len(self._calls) < length:
                    line = lines[choices.word() % len(lines)]
                    self._call(line)
        else:
            bare = _BARE_ALIVE
            number = bare[choices.word() % len(bare)]
            arguments = tuple(_ANY[choices.byte() % len(_ANY)] for _ in range(way % 4))
            self._calls.append(SystemCall(number, arguments))

    def _call(self, line: Line) -> None:
        arguments, earlier = [], 0
        for place, kind in enumerate(line.kinds):
            drawn = self._choices.byte()
            if kind in ("fd", "dir") and self._given and drawn >= 128:
                arguments.append(self._given[drawn % len(self._given)])
                earlier |= 1 << place
            else:
                pool = POOLS[kind]
                arguments.append(pool[drawn % len(pool)])
        if line.name in GIVES:
            self._given.append(len(self._calls))
        self._calls.append(SystemCall(line.number, tuple(arguments), earlier))

    def _poke(self) -> tuple[int, int]:
        offsets = pokeable()
        offset = offsets[self._choices.byte() % len(offsets)]
        return offset, POOLS["any"][self._choices.byte() % len(POOLS["any"])]
