"""Which rules fired in the records at hand, and which of those in force never did."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from opensafe.model.explanation import RuleNote, by_rule
from opensafe.model.records import DecisionRecord

#: Rules that are kept: bundles of before had others.
RULES_MAX: Final = 2048


class Hits(msgspec.Struct, kw_only=True):
    """Decisions in which a rule fired, whatever came of them; index and time of the last."""

    count: int = 0
    last_index: int = 0
    last_us: int = 0


class Fired:
    """Fold decisions in with `take`. decisions: how many there were; since_us: the first one's time."""

    def __init__(self) -> None:
        self.decisions = 0
        self.since_us = 0
        self.rules: OrderedDict[str, Hits] = OrderedDict()

    def take(self, index: int, record: DecisionRecord) -> None:
        """Count each rule of a decision once."""
        self.decisions += 1
        self.since_us = self.since_us or record.time_us
        for rule in {hit.id for hit in record.result.rules}:
            hits = self.rules.pop(rule, None) or Hits()
            hits.count, hits.last_index, hits.last_us = hits.count + 1, index, record.time_us
            self.rules[rule] = hits
        while len(self.rules) > RULES_MAX:
            self.rules.popitem(last=False)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule in force. titles: of its parts, each once. hits: None where it never fired."""

    id: str
    severity: str
    titles: tuple[str, ...]
    threat: str
    file: str
    hits: Hits | None


def coverage(notes: Iterable[RuleNote], fired: Fired) -> list[Rule]:
    """The rules that `notes` are parts of: those that fired most first, then the others by id."""
    rules = [
        Rule(
            id=rule,
            severity=parts[0].severity,
            titles=tuple(dict.fromkeys(part.title for part in parts)),
            threat=parts[0].threat,
            file=parts[0].file,
            hits=fired.rules.get(rule),
        )
        for rule, parts in by_rule(notes).items()
    ]
    return sorted(rules, key=lambda rule: -(rule.hits.count if rule.hits else 0))
