"""Whether a target sees a fault: each mutant of our code must be found by it within a bounded run.

Found means that an invariant breaks in the mutant and holds, for the very same input, in the code as it is. A mutant
that can't be started, that hangs or that dies otherwise was not found. Nor is one found where a copy without any fault
breaks for a seed: there it is the copying that was found.
"""

import functools

import msgspec

from opensafe.errors import InvalidArgument
from opensafe.proof.mutants import Mutant, check, planted

from .catalogue import Located
from .running import Run, replay, run

#: Each mutant's run begins with these one after the other: one seed may be out of luck.
_SEEDS = (1, 2)


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a mutant. why: it was not killed; "" where it was. broken: which invariant told it."""

    target: str
    mutant: str
    says: str
    executed: int
    seconds: float
    broken: str = ""
    input: bytes = b""
    why: str = ""

    @property
    def ok(self) -> bool:
        """It was found."""
        return not self.why


def kill(located: Located, mutant: Mutant, *, seconds: int = 60) -> Killed:
    """Look for one mutant, without the kept inputs, within the target's `runs`; twice where the first finds nothing."""
    try:
        broken = _of_a_plain_copy(located)
        check(mutant)
    except InvalidArgument as stale:
        broken = str(stale)
    if broken:
        return Killed(target=located.target.id, mutant=mutant.id, says=mutant.says, executed=0, seconds=0, why=broken)
    done: list[Run] = []
    with planted(mutant) as source:
        for seed in _SEEDS:
            done.append(run(located, runs=located.target.runs, seconds=seconds, seed=seed, source=source, corpus=False))
            if (finding := done[-1].finding) is not None and not finding.unsaid:
                break
    last = done[-1]
    return Killed(
        target=located.target.id,
        mutant=mutant.id,
        says=mutant.says,
        executed=sum(one.executed for one in done),
        seconds=round(sum(one.seconds for one in done), 2),
        broken=last.finding.kind if last.finding is not None else "",
        input=last.finding.input if last.finding is not None else b"",
        why=_why(located, last),
    )


@functools.lru_cache(maxsize=1)
def _of_a_plain_copy(located: Located) -> str:
    """What the target has against a copy of the code as it is; asked once for all mutants of a target."""
    with planted() as source:
        broken = replay(located, [b"", *located.target.seeds()], source=source)
    return f"a copy without a fault breaks: {broken.kind}: {broken.message}" if broken is not None else ""


def _why(located: Located, found: Run) -> str:
    if found.finding is None:
        return found.vacuous or "nothing was found"
    if found.finding.unsaid:
        return f"the mutant broke no invariant but ended the run: {found.finding.kind}"
    if broken := replay(located, [found.finding.input]):
        return f"the code as it is breaks for the same input: {broken.kind}"
    return ""
