"""From the guest's bytes to a Decision: exactly one well-formed, bounded, consistent result, or none at all."""

import operator
import re
from typing import Final

import msgspec

from opensafe.errors import EvaluationFailed
from opensafe.model.decision import Action, Decision

MAX_RULES: Final = 64
MAX_TEXT: Final = 1024
MAX_NAMES: Final = 256
_RULE_ID: Final = re.compile(r"[a-z][a-z0-9_.]{2,63}")
_SECCOMP: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    result: Decision


_BY_STRENGTH: Final = (Action.BLOCK, Action.REVIEW, Action.ALLOW)
_ORDER: Final = operator.attrgetter("action", "id", "reason", "remedy", "severity", "value")
_decode: Final = msgspec.json.Decoder(list[_Row]).decode


def read_verdict(answer: bytes, *, question_id: str, data_version: str) -> Decision:
    """The decision in `answer`, which must echo both. Raises EvaluationFailed, which means: not executed."""
    try:
        rows = _decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvaluationFailed(f"the policy's result is malformed: {error}", remedy=_REMEDY) from error
    if len(rows) != 1:
        raise EvaluationFailed(
            "the policy's result is undefined" if not rows else "the policy gave several results", remedy=_REMEDY
        )
    decision = rows[0].result
    if decision.id != question_id:
        raise EvaluationFailed("the verdict is another call's", value=decision.id, limit=question_id, remedy=_REMEDY)
    if decision.data_version != data_version:
        raise EvaluationFailed(
            "the verdict was given on other data", value=decision.data_version, limit=data_version, remedy=_REMEDY
        )
    _bounded(decision)
    _consistent(decision)
    return _ordered(decision)


_REMEDY: Final = "The call was not executed. Report this with the bundle's revision."


def _ordered(decision: Decision) -> Decision:
    """The rules by action, id and text: the guest gives them in no order, since sorting objects takes it long."""
    if len(decision.rules) < 2:
        return decision
    return msgspec.structs.replace(decision, rules=tuple(sorted(decision.rules, key=_ORDER)))


def _bounded(decision: Decision) -> None:
    if max(len(decision.rules), len(decision.shadow)) > MAX_RULES:
        raise EvaluationFailed("the verdict names too many rules", value=len(decision.rules), limit=MAX_RULES)
    for hit in (*decision.rules, *decision.shadow):
        if not _RULE_ID.fullmatch(hit.id):
            raise EvaluationFailed("the verdict names an impossible rule", value=hit.id, remedy=_REMEDY)
        if max(len(hit.reason), len(hit.value), len(hit.remedy)) > MAX_TEXT:
            raise EvaluationFailed(f"the text of {hit.id} is too long", limit=MAX_TEXT, remedy=_REMEDY)
    grant = decision.grant
    programs = () if isinstance(grant.programs, str) else grant.programs
    if isinstance(grant.programs, str) and grant.programs != "any":
        raise EvaluationFailed("the grant's programs are neither a list nor `any`", value=grant.programs)
    held = (grant.paths.hold_read, grant.paths.hold_write)
    for names in (grant.network, programs, grant.paths.read, grant.paths.write, *held):
        if names and (len(names) > MAX_NAMES or any(not 0 < len(name) <= MAX_TEXT for name in names)):
            raise EvaluationFailed("the grant is too large", value=len(names), limit=MAX_NAMES, remedy=_REMEDY)
    if any(not path.startswith("/") for path in (*grant.paths.read, *grant.paths.write)):
        raise EvaluationFailed("the grant holds a path that is not absolute", remedy=_REMEDY)
    if not _SECCOMP.fullmatch(grant.seccomp):
        raise EvaluationFailed("the grant names an impossible seccomp profile", value=grant.seccomp)


def _consistent(decision: Decision) -> None:
    """The action is borne out by the rules: a second look that no rule's mistake can get past."""
    fired = {hit.action for hit in decision.rules}
    strongest = next((action for action in _BY_STRENGTH if action in fired), None)
    lifted = decision.action == Action.ALLOW and strongest == Action.REVIEW  # by an approval
    if decision.action != strongest and not lifted:
        raise EvaluationFailed(
            "the verdict's action does not follow from its rules", value=decision.action, remedy=_REMEDY
        )
