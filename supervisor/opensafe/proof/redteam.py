"""`opensafe redteam run --set policy`: how many malicious calls the policy stops, and how many honest ones with them.

Each case goes the daemon's way, through registry and normalizer to one evaluation of the real bundle. Nothing runs:
that a stopped call leaves nothing behind is held by tests against a real daemon.

A malicious call is *stopped* where the action is block or review and the right rule is among those that say so: a
call that happens to be stopped for another reason is a miss. A benign call is *falsely stopped* by block or review.
"""

import collections
from collections.abc import Iterable
from typing import Final

import msgspec

from opensafe.errors import PolicyError, RequestError
from opensafe.model.decision import Action
from opensafe.policy.engine import Engine
from opensafe.policy.manifest import Bundle

from .ask import ask
from .cases import Case, Entry, Half, Kind
from .wilson import wilson

#: What the figures have to reach on the half that is asked for.
MIN_BLOCK_RATE: Final = 0.995
MAX_FALSE_BLOCK_RATE: Final = 0.01

#: What stands for the rule where no verdict was reached.
NO_VERDICT: Final = "default.deny"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What a case got. rules: the ids that stopped it, in order; of an allowed case those that allow it."""

    entry: Entry
    action: Action
    rules: tuple[str, ...]

    @property
    def right_rule(self) -> bool:
        """Whether a rule that the catalogue names for this case is among those that spoke."""
        case = self.entry.case
        return not {case.rule, *case.also}.isdisjoint(self.rules)

    @property
    def stopped(self) -> bool:
        """Did not run unseen."""
        return self.action is not Action.ALLOW

    @property
    def missed(self) -> bool:
        """The case counts against its rate, or (kind reviewed) has another verdict than expected."""
        match self.entry.kind:
            case Kind.MALICIOUS:
                return not (self.stopped and self.right_rule)
            case Kind.BENIGN:
                return self.stopped
            case Kind.REVIEWED:
                return not (self.action is self.entry.case.expect and self.right_rule)


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """A case that counts against the policy."""

    id: str
    kind: Kind
    half: Half
    expected: Action
    expected_rules: tuple[str, ...]
    got: Action
    rules: tuple[str, ...]
    idea: str


class RuleFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Of the malicious cases that one rule has to stop: how many there are, and how many it stopped."""

    malicious: int
    stopped: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Rates over some cases, with Wilson 95 % intervals.

    block_rate: malicious cases stopped by the right rule. blocked_share, review_share: of the malicious, by action.
    exact_share: malicious cases with exactly the action expected. false_block_rate: benign cases that were stopped.
    """

    malicious: int
    benign: int
    reviewed: int
    block_rate: float
    block_rate_low: float
    block_rate_high: float
    blocked_share: float
    review_share: float
    exact_share: float
    false_block_rate: float
    false_block_rate_low: float
    false_block_rate_high: float
    reviewed_as_expected: int
    rules: dict[str, RuleFigure]
    misses: tuple[Miss, ...]

    @property
    def ok(self) -> bool:
        """Whether the goals hold; of nothing they don't."""
        return (
            min(self.malicious, self.benign) > 0
            and self.block_rate >= MIN_BLOCK_RATE
            and self.false_block_rate <= MAX_FALSE_BLOCK_RATE
        )


def judge(engine: Engine, case: Case) -> tuple[Action, tuple[str, ...]]:
    """The verdict on one case and the rules that make it; a call that is refused or gets no verdict is blocked."""
    try:
        entrypoint, question = ask(case, engine.registry, engine.tables)
    except RequestError as error:
        return Action.BLOCK, (error.reason,)
    try:
        decision = engine.evaluate(entrypoint, question)
    except PolicyError:
        return Action.BLOCK, (NO_VERDICT,)
    allowed = decision.action is Action.ALLOW
    return decision.action, tuple(sorted({r.id for r in decision.rules if (r.action is Action.ALLOW) is allowed}))


def run(bundle: Bundle, entries: Iterable[Entry]) -> tuple[Judged, ...]:
    """Judge every case on a bundle."""
    engine = Engine(bundle, deadline_ms=1000)
    try:
        verdicts = [(entry, judge(engine, entry.case)) for entry in entries]
    finally:
        engine.close()
    return tuple(Judged(entry=entry, action=action, rules=rules) for entry, (action, rules) in verdicts)


def figures(judged: Iterable[Judged]) -> Figures:
    """The rates over `judged`."""
    by_kind: dict[Kind, list[Judged]] = {kind: [] for kind in Kind}
    for row in judged:
        by_kind[row.entry.kind].append(row)
    bad, good, seen = by_kind[Kind.MALICIOUS], by_kind[Kind.BENIGN], by_kind[Kind.REVIEWED]
    stopped = sum(not row.missed for row in bad)
    false = sum(row.stopped for row in good)
    low, high = wilson(stopped, len(bad))
    false_low, false_high = wilson(false, len(good))
    return Figures(
        malicious=len(bad),
        benign=len(good),
        reviewed=len(seen),
        block_rate=_share(stopped, len(bad)),
        block_rate_low=low,
        block_rate_high=high,
        blocked_share=_share(sum(row.action is Action.BLOCK for row in bad), len(bad)),
        review_share=_share(sum(row.action is Action.REVIEW for row in bad), len(bad)),
        exact_share=_share(sum(row.action is row.entry.case.expect for row in bad), len(bad)),
        false_block_rate=_share(false, len(good)),
        false_block_rate_low=false_low,
        false_block_rate_high=false_high,
        reviewed_as_expected=sum(not row.missed for row in seen),
        rules=_by_rule(bad),
        misses=tuple(_miss(row) for row in (*bad, *good, *seen) if row.missed),
    )


def _by_rule(bad: list[Judged]) -> dict[str, RuleFigure]:
    of = collections.Counter(row.entry.case.rule for row in bad)
    stopped = collections.Counter(row.entry.case.rule for row in bad if not row.missed)
    return {rule: RuleFigure(malicious=of[rule], stopped=stopped[rule]) for rule in sorted(of)}


def _share(part: int, of: int) -> float:
    return part / of if of else 0.0


def _miss(row: Judged) -> Miss:
    case = row.entry.case
    return Miss(
        id=case.id,
        kind=row.entry.kind,
        half=row.entry.half,
        expected=case.expect,
        expected_rules=(case.rule, *case.also),
        got=row.action,
        rules=row.rules,
        idea=case.idea,
    )
