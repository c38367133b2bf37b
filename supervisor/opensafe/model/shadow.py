"""What shadow found: a whole candidate bundle beside the one in force, and single rules that the site put in shadow."""

import msgspec

from .decision import Action, RuleHit


class ShadowSample(msgspec.Struct, frozen=True, kw_only=True):
    """A decision on which the candidate differs: what is enforced, and what the candidate says by which rules."""

    decision_id: str
    time_us: int
    principal: str
    tool: str
    enforced: Action
    candidate: Action
    rules: tuple[RuleHit, ...]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate and what came of it since `started_us`. key: id of the key that signed it.

    other_rules: the same action by other rules. dropped: decisions not looked at: too many at once, or a fault that the
    daemon's log tells. no_verdict: how often it reached none, which counts as a block. transitions: `allow>block` and
    the like. rules: how often a rule decides on the candidate where the action differs.
    """

    revision: str
    digest: str
    key: str
    started_by: str
    started_us: int
    evaluated: int = 0
    same: int = 0
    differed: int = 0
    other_rules: int = 0
    dropped: int = 0
    no_verdict: int = 0
    transitions: dict[str, int] = {}
    rules: dict[str, int] = {}


class ShadowRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule in shadow: how often it would have fired, on how many of these calls it would have changed the verdict."""

    id: str
    hits: int
    would_change: int
    last_decision_id: str
    last_reason: str


class ShadowReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of shadow: no candidate where none runs. samples: the newest last. since_us: the daemon's start."""

    since_us: int
    decisions: int
    candidate: Candidate | None
    samples: tuple[ShadowSample, ...]
    rules: tuple[ShadowRule, ...]
