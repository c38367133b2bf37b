"""What the console reads of the details of reports; what else stands in them is passed over."""

from typing import Annotated, Any

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
Part = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """`hits` of `of`, with the 95 % interval of the rate."""

    hits: Count
    of: Count
    rate: Part
    low: Part
    high: Part


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate that is another one than in the report before. now: None where it is not measured any more."""

    name: str
    before: float
    now: float | None
    worse: bool


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A report beside the one before it, as its command held them against each other."""

    baseline_version: str = ""
    rates: tuple[Rate, ...] = ()
    missed_now: tuple[str, ...] = ()
    missed_no_more: tuple[str, ...] = ()
    held_out_worse: bool = False


class Both(msgspec.Struct, frozen=True, kw_only=True):
    """Of a family of scenarios: attacks stopped, honest twins stopped with them."""

    stopped: Share
    falsely_stopped: Share


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was judged otherwise than it must be."""

    id: str
    kind: str = ""
    expected: str = ""
    got: str = ""
    rules: tuple[str, ...] = ()
    idea: str = ""


class Half(msgspec.Struct, frozen=True, kw_only=True):
    """A half of the single calls."""

    misses: tuple[Miss, ...] = ()


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario."""

    id: str
    stopped: bool
    honest: bool
    why: str = ""


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What every report of the red team may have."""

    baseline: Compared | None = None


class Played(Beside, frozen=True, kw_only=True):
    """The scenarios."""

    all: Both | None = None
    families: dict[str, Both] = {}
    lines: tuple[Line, ...] = ()


class RedTeam(Beside, frozen=True, kw_only=True):
    """Details of the whole evaluation and of its single calls; those of scenarios alone are Played."""

    families: dict[str, Share] = {}
    honest: dict[str, Share] = {}
    missed: tuple[str, ...] = ()
    falsely: tuple[str, ...] = ()
    held_out_missed: Count = 0
    held_out_falsely: Count = 0
    dev: Half | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a probe. opened: the layers that were opened before."""

    opened: tuple[str, ...] = ()
    layer: str = ""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A probe of the escape suite."""

    id: str
    boundary: str
    title: str
    severity: str
    verdict: str
    control_breached: bool
    layer: str = ""
    reason: str = ""
    attacks: tuple[str, ...] = ()
    runs: tuple[Tried, ...] = ()


class Oracle(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign watched."""

    title: str
    raised: Count
    raised_by_planted: Count


class Planted(msgspec.Struct, frozen=True, kw_only=True):
    """A breach that was planted, and which oracles stayed silent for it."""

    name: str
    missing: tuple[Any, ...] = ()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What an oracle saw."""

    oracle: int | str
    what: str
    batch: int = -1
    run: int | None = None


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """Details of an escape campaign."""

    oracles: dict[str, Oracle] = {}
    planted: tuple[Planted, ...] = ()
    findings: tuple[Found, ...] = ()
    policy_rules: dict[str, Count] = {}
    answers: dict[str, Count] = {}
    faults: tuple[str, ...] = ()


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that was put into a copy of the code. why: it was not found; "" where it was."""

    target: str
    mutant: str
    says: str
    executed: Count = 0
    seconds: float = 0.0
    broken: str = ""
    why: str = ""
