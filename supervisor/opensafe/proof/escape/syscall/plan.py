"""All system calls that a guest can try to make, and what a profile says that each is answered with.

The answer is told from the profile's lists, not from the filter that was compiled of them: that the two agree is what
the sweep is to see.
"""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from opensafe.warden.sandbox import bpf, seccomp
from opensafe.warden.sandbox.profiles import Profile
from opensafe.warden.sandbox.syscalls import NUMBERS

from . import arguments

#: Beyond the highest of any table: the kernel's (x32 has calls of its own from 512 on) and i386's.
HIGHEST: Final = 600
#: Ends of what the sentry looks up and of what a number can be; and calls with more than a number in the register.
_BEYOND: Final = (
    *(1000, 1023, 1024, 1999, 2000, 2001, 4095, 4096, 65535, 0x3FFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF),
    *(1 << 32 | NUMBERS[name] for name in ("read", "unshare", "mount")),
    (1 << 64) - 1,
)
#: What a number of x32 has beside it.
X32: Final = 1 << 30
_NAMES: Final = {number: name for name, number in NUMBERS.items()}
_LETTERS: Final = {"d": -100, "m": -1, "s": 4096}
ALLOWED: Final = "allowed"


class Way(enum.StrEnum):
    """How a number gets to the kernel."""

    X86_64 = "x86-64"
    X32 = "x32"
    INT80 = "int80"


class Attempt(msgspec.Struct, frozen=True):
    """One call. arguments: as sweep.c takes them; "" for six zeros."""

    way: Way
    number: int
    arguments: str = arguments.NULL

    @property
    def word(self) -> str:
        """As sweep.c takes it."""
        number = self.number - (1 << 64) if self.number >> 63 else self.number
        return f"{number}:{self.arguments}" if self.arguments else str(number)

    @property
    def name(self) -> str:
        """For people."""
        number = self.number & (X32 - 1) if self.way is Way.X32 else self.number
        known = _NAMES.get(number, "") if self.way is not Way.INT80 else ""
        return f"{self.way} {number}{f' ({known})' if known else ''}"


Answers = Mapping[Attempt, str]
"""How each was answered."""


def attempts() -> tuple[Attempt, ...]:
    """Every number by every way, with nothing and with plausible arguments."""
    numbers = range(HIGHEST + 1)
    tried = [(Way.X86_64, number) for number in (*numbers, *_BEYOND)]
    tried += [(Way.X32, X32 | number) for number in numbers]
    tried += [(Way.INT80, number) for number in (*numbers, 1000, 2000, 65535)]
    null = [Attempt(way, number) for way, number in tried]
    return (*null, *(Attempt(one.way, one.number, _plausible(one)) for one in null))


def _plausible(attempt: Attempt) -> str:
    return arguments.plausible(-1 if attempt.way is Way.INT80 else attempt.number & (X32 - 1))


def stated(profile: Profile, attempt: Attempt) -> str:
    """`allowed`, or the answer that a profile gives: EXDEV, ENOSYS, SIGSYS."""
    # The kernel's filters see 32 bits of the number.
    name = _NAMES.get(attempt.number & 0xFFFFFFFF) if attempt.way is Way.X86_64 else None
    if name is None:
        return "EXDEV"
    if name in profile.conditional:
        return ALLOWED if _by_argument(seccomp.BY_ARGUMENT[name], attempt) == bpf.ALLOW else "EXDEV"
    if name in profile.fatal:
        return "SIGSYS"
    if name in profile.unavailable:
        return "ENOSYS"
    return ALLOWED if name in profile.allowed else "EXDEV"


def allowed(profile: Profile, attempt: Attempt) -> bool:
    """Whether it is in the profile's policy."""
    return stated(profile, attempt) == ALLOWED


def _by_argument(rule: bpf.Verdict, attempt: Attempt) -> int:
    words = attempt.arguments.split(",")
    while isinstance(rule, bpf.Switch):
        index = (rule.offset - bpf.argument(0)) // 8
        word = words[index] if index < len(words) and words[index] else "0"
        value = _LETTERS[word] if word in _LETTERS else int(word, 0)
        rule = rule.cases.get(value & rule.mask & 0xFFFFFFFF, rule.default)
    return rule
