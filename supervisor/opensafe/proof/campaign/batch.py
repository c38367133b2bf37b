"""What a campaign is made of: batches of runs, each in sandboxes of its own, and what is known of one that was run."""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from .oracles import Finding

#: A sandbox is used for no more runs than these.
RUNS: Final = 100


class Kind(enum.StrEnum):
    """What the runs of a batch are. shipped: system calls under the call filter. peeled: the same without, so that
    what stands behind it is tried too. gated: tool calls through a daemon.
    """

    SHIPPED = "shipped"
    PEELED = "peeled"
    GATED = "gated"


#: Of four batches in a row.
_ROUND: Final = (Kind.GATED, Kind.SHIPPED, Kind.PEELED, Kind.SHIPPED)


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs of a campaign. The same seed, number and corpus (its digest) are the same runs, wherever they
    are made.
    """

    seed: int
    number: int
    size: int = RUNS
    corpus: str = ""
    kinds: tuple[Kind, ...] = _ROUND

    @property
    def kind(self) -> Kind:
        """What its runs are."""
        return self.kinds[self.number % len(self.kinds)]

    @property
    def runs(self) -> range:
        """Their numbers in the campaign."""
        return range(self.number * RUNS, self.number * RUNS + self.size)


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a batch.

    completed: runs of full length with an answer. short: that ended before they were long enough. lost: whose answer
    never came, of system calls twice. faults: why it could not be run, or not at once. sandboxes: how many it took.
    calls: by number, how often tried; answers: by errno (0: a result), how often given. rules: by id, calls that they
    decided; tools: calls by tool and verdict.
    """

    number: int
    kind: Kind
    completed: int
    short: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    sandboxes: int = 1
    findings: tuple[Finding, ...] = ()
    calls: Mapping[int, int] = {}
    answers: Mapping[int, int] = {}
    faults: tuple[str, ...] = ()
    rules: Mapping[str, int] = {}
    tools: Mapping[str, int] = {}
    seconds: float = 0.0
