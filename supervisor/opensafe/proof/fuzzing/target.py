"""What a file of fuzz/targets holds: one function that takes bytes and raises where an invariant does not hold.

A target is read in two processes: here, for its bounds and its mutants, and in the child that runs it, where the
modules that it names give coverage. So reading it must have no effect, and what it needs it makes on first use.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Final

import msgspec

from opensafe.proof.mutants import Mutant

#: An input is data for a parser, not a load test: what is longer is a matter of limits, which have tests of their own.
_LONGEST: Final = 4096


class BrokenInvariantError(AssertionError):
    """An invariant did not hold. says: which, the same text for every input; value: what shows it."""

    def __init__(self, says: str, value: object = "") -> None:
        super().__init__(f"{says}: {value!r}")
        self.says = says


def holds(condition: object, says: str, value: object = "") -> None:
    """Raises BrokenInvariantError unless `condition` is true. Unlike assert it is there under -O, and has a name."""
    if not condition:
        raise BrokenInvariantError(says, value)


def _nothing() -> None:
    pass


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One target. Each file has one, under the name TARGET.

    one: takes any bytes. It returns where all is well, which includes a typed refusal; whatever it raises is a finding.
    seeds: inputs that reach what is to be tried. words: texts that inputs are made of, for the mutations.
    modules: whose coverage guides the run: names of modules or packages of ours.
    floor: edges of these that any run must reach, one of 400 inputs too; one that stays below tried nothing.
    mutants: faults in our code, each of which a run of `runs` inputs must find. longest: bytes of an input.
    mutate: a mutation of one's own, where bytes are not what the input is made of; takes data, longest size, seed.
    close: ends what the first use of `one` began, where that outlives it.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^F\d{1,2}$")]
    title: str
    one: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    modules: tuple[str, ...]
    floor: int
    mutants: tuple[Mutant, ...]
    words: tuple[bytes, ...] = ()
    runs: int = 4000
    longest: int = _LONGEST
    mutate: Callable[[bytes, int, int], bytes] | None = None
    close: Callable[[], None] = _nothing
