"""Why policy said what it said: the verdict with its rules' sources, and the question it was given."""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from .decision import GRAVITY, Decision, RuleHit, Severity
from .policy_input import PolicyInput

_Word = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class RuleNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part of a rule, from its METADATA. `file` is relative to the policies' root, `line` its first, from 1.

    says: the fixed pieces of the reason it gives, in order, with its values between them; () where none is fixed.
    """

    id: _Word
    file: _Text
    line: Annotated[int, msgspec.Meta(ge=1)]
    severity: Severity
    title: _Text
    description: _Text
    threat: _Text
    says: tuple[str, ...] = ()

    def said(self, reason: str) -> int:
        """How many fixed characters of `reason` are this part's; -1 where it can't have given that reason."""
        if not self.says:
            return 0
        first, last = self.says[0], self.says[-1]
        if not (reason.startswith(first) and reason.endswith(last)):
            return -1
        at = 0
        for piece in self.says:
            at = reason.find(piece, at)
            if at < 0:
                return -1
            at += len(piece)
        return sum(map(len, self.says))


def by_rule(notes: Iterable[RuleNote]) -> dict[str, list[RuleNote]]:
    """The parts of each rule, the gravest first, by id in order."""
    found: dict[str, list[RuleNote]] = {}
    for note in sorted(notes, key=lambda note: (note.id, -GRAVITY.index(note.severity), note.file, note.line)):
        found.setdefault(note.id, []).append(note)
    return found


class Nearest(msgspec.Struct, frozen=True, kw_only=True):
    """Something of the call that the site doesn't allow, and the likest that it does, best first.

    kind: path, host, program or tool.
    """

    kind: str
    value: str
    allowed: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One decision explained. `notes` are those of every rule in `decision`, shadow included; question: as judged."""

    decision_id: str
    revision: str
    entrypoint: str
    question: PolicyInput
    decision: Decision
    notes: tuple[RuleNote, ...]
    nearest: tuple[Nearest, ...]

    def notes_of(self, hit: RuleHit) -> tuple[RuleNote, ...]:
        """The part of the rule that fired, as its reason tells; several where they would say the same."""
        of_rule = [(note.said(hit.reason), note) for note in self.notes if note.id == hit.id]
        most = max((said for said, _ in of_rule), default=0)
        return tuple(note for said, note in of_rule if said == most)
