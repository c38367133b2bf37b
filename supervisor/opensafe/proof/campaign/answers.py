"""Oracle 9: what a profile says of a call, against what a guest got."""

import enum
import errno
from collections.abc import Sequence as Values
from typing import Final

import msgspec

from opensafe.warden.sandbox import bpf, seccomp
from opensafe.warden.sandbox.profiles import PROFILES

from .wire import ARGUMENTS, Answer, Sequence

_SIGSYS: Final = 31
_ERRNO: Final = 0x00050000
_ARCH_X86_64: Final = 0xC000003E
_ARGUMENTS_AT: Final = 16
_SIGNAL_BITS: Final = 0x7F


class Said(enum.Enum):
    """What a profile says of a call."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    FATAL = "fatal"


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was answered otherwise than the profile says. at: its place in the sequence."""

    at: int
    number: int
    wanted: str
    got: str


class Expectation:
    """A profile's answers, from the decision tree that its filter is compiled from."""

    def __init__(self, profile: str) -> None:
        tree = seccomp.decisions(PROFILES[profile]).cases[_ARCH_X86_64]
        assert isinstance(tree, bpf.Switch)  # noqa: S101 - by number
        self._numbers = tree

    def of(self, number: int, arguments: Values[int] = ()) -> int:
        """The filter's return value."""
        verdict = self._numbers.cases.get(number & bpf.WORD, self._numbers.default)
        while not isinstance(verdict, int):
            at = (verdict.offset - _ARGUMENTS_AT) // 8
            word = arguments[at] if at < len(arguments) else 0
            verdict = verdict.cases.get(word & verdict.mask, verdict.default)
        return verdict

    def says(self, number: int, arguments: Values[int] = ()) -> Said:
        """In short."""
        verdict = self.of(number, arguments)
        if verdict == bpf.ALLOW:
            return Said.ALLOWED
        return Said.FATAL if verdict == bpf.KILL_PROCESS else Said.REFUSED

    def misses(self, sequence: Sequence, answer: Answer) -> list[Miss]:
        """Calls that were not answered as the profile says."""
        found = []
        for at, call in enumerate(sequence.calls[: answer.made]):
            verdict = self.of(call.number, arguments_of(sequence, at, answer.results))
            if verdict == bpf.ALLOW:
                continue
            came_back = at < len(answer.results)
            if verdict == bpf.KILL_PROCESS:
                fine = not came_back and answer.status & _SIGNAL_BITS == _SIGSYS
                wanted = "SIGSYS"
            else:
                fine = not came_back or answer.results[at] == -(verdict & 0xFFFF)
                wanted = errno.errorcode[verdict & 0xFFFF] if verdict & _ERRNO else hex(verdict)
            if not fine:
                got = str(answer.results[at]) if came_back else f"status {answer.status}"
                found.append(Miss(at=at, number=call.number, wanted=wanted, got=got))
        return found


def arguments_of(sequence: Sequence, at: int, results: Values[int]) -> list[int]:
    """The values that a call had, those of earlier calls filled in."""
    call = sequence.calls[at]
    values = [*call.arguments, *([0] * (ARGUMENTS - len(call.arguments)))]
    return [
        results[value] if call.earlier >> place & 1 and value < len(results) else value
        for place, value in enumerate(values)
    ]
