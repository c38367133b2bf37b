"""What a candidate bundle would have said of recorded decisions: the differences, counted and listed up to a cap."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from opensafe.model.decision import Action, Decision, RuleHit
from opensafe.model.records import DecisionRecord

from .engine import Engine
from .rejudge import JUDGED, judge_on_candidate

_STRENGTH: Final = (Action.ALLOW, Action.REVIEW, Action.BLOCK)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that would be another. old_rules: ids. rules: what decides on the candidate. index: in the log."""

    index: int
    time_us: int
    decision_id: str
    call_id: str
    session_id: str
    principal: str
    purpose: str
    tool: str
    old: Action
    new: Action
    old_rules: tuple[str, ...]
    rules: tuple[RuleHit, ...]

    @property
    def loosened(self) -> bool:
        """The candidate is the milder one."""
        return _STRENGTH.index(self.new) < _STRENGTH.index(self.old)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over all decisions, and the first `changes`.

    skipped: records that can't be judged again, by their purpose or for a secret masked in them.
    other_rules: same action, other deciding rules.
    transitions: `allow>block` and the like. rules: how often a rule decides on the candidate where the action changed.
    """

    decisions: int
    skipped: int
    same: int
    other_rules: int
    loosened: int
    tightened: int
    transitions: dict[str, int]
    rules: dict[str, int]
    changes: tuple[Change, ...]
    seconds: float

    @property
    def changed(self) -> int:
        """Decisions with another action."""
        return self.loosened + self.tightened

    @property
    def calls_per_s(self) -> float:
        """Decisions judged in a second, reading the log included."""
        return self.decisions / self.seconds if self.seconds else 0.0


def deciding_ids(decision: Decision) -> tuple[str, ...]:
    """The ids of the rules that decide, each once, in order."""
    return tuple(dict.fromkeys(hit.id for hit in decision.deciding()))


def difference(index: int, record: DecisionRecord, new: Decision) -> Change | None:
    """The change from the record to `new`, None where the action is the same."""
    if new.action is record.result.action:
        return None
    return Change(
        index=index,
        time_us=record.time_us,
        decision_id=record.decision_id,
        call_id=record.call_id,
        session_id=record.session_id,
        principal=record.principal,
        purpose=record.purpose,
        tool=record.input.call.tool,
        old=record.result.action,
        new=new.action,
        old_rules=deciding_ids(record.result),
        rules=new.deciding(),
    )


def compare(
    engine: Engine,
    records: Iterable[tuple[int, DecisionRecord]],
    *,
    keep: int,
    seen: Callable[[int], None],
) -> Comparison:
    """Judge `records` (index, record) on the candidate's `engine` and keep the first `keep` changes.

    `seen` is called after each with their number. Memory does not grow with the log.
    """
    begun = time.monotonic()
    decisions = skipped = same = other = 0
    directions: Counter[bool] = Counter()
    transitions: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    changes: list[Change] = []
    for index, record in records:
        if record.purpose not in JUDGED or record.masked:
            skipped += 1
            continue
        decisions += 1
        new = judge_on_candidate(engine, record)
        change = difference(index, record, new)
        if change is None:
            same += 1
            other += deciding_ids(new) != deciding_ids(record.result)
        else:
            directions[change.loosened] += 1
            transitions[f"{change.old}>{change.new}"] += 1
            rules.update(deciding_ids(new))
            if len(changes) < keep:
                changes.append(change)
        seen(decisions)
    return Comparison(
        decisions=decisions,
        skipped=skipped,
        same=same,
        other_rules=other,
        loosened=directions[True],
        tightened=directions[False],
        transitions=dict(sorted(transitions.items())),
        rules=dict(rules.most_common()),
        changes=tuple(changes),
        seconds=time.monotonic() - begun,
    )
