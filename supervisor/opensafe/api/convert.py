"""Between protobuf messages and the model. One function a message; unknown enum values raise InvalidArgument."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from opensafe._proto.v1 import agent_pb2, common_pb2, policy_pb2, review_pb2, session_pb2
from opensafe.control.bans import Subject
from opensafe.control.judge import Verdict
from opensafe.control.reviews import View
from opensafe.errors import InvalidArgument
from opensafe.model.decision import Action, RuleHit
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.usage import Limits
from opensafe.state.rows import BanRow
from opensafe.warden import protocol

_ACTIONS: Final = {
    Action.ALLOW: common_pb2.ACTION_ALLOW,
    Action.REVIEW: common_pb2.ACTION_REVIEW,
    Action.BLOCK: common_pb2.ACTION_BLOCK,
}
_ACTIONS_BACK: Final = {value: action for action, value in _ACTIONS.items()}
_KINDS: Final = {kind: common_pb2.OutcomeKind.Value(f"OUTCOME_KIND_{kind.name}") for kind in OutcomeKind}
_KINDS_BACK: Final = {value: kind for kind, value in _KINDS.items()}

_Kind = TypeVar("_Kind")


def checked(what: str, asked: Mapping[str, object], kind: type[_Kind], *, remedy: str = "") -> _Kind:
    """The fields of a message as one of our types, which has their bounds. Raises InvalidArgument naming both."""
    try:
        return msgspec.convert(asked, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"{what}: {error}", value=asked, remedy=remedy) from error


def action(value: Action) -> "common_pb2.Action.ValueType":
    """A word of a verdict."""
    return _ACTIONS[value]


def action_asked(value: common_pb2.Action.ValueType) -> Action | None:
    """The action that a request names; None where it names none. Raises InvalidArgument."""
    if value not in (common_pb2.ACTION_UNSPECIFIED, *_ACTIONS_BACK):
        raise InvalidArgument("there is no such action", value=value)
    return _ACTIONS_BACK.get(value)


def rule(hit: RuleHit) -> common_pb2.Rule:
    """A rule that fired."""
    return common_pb2.Rule(
        id=hit.id,
        severity=str(hit.severity),
        action=_ACTIONS[hit.action],
        reason=hit.reason,
        value=hit.value,
        remedy=hit.remedy,
    )


def decision(verdict: Verdict) -> common_pb2.Decision:
    """A verdict with its ids and times. The deciding rules come first."""
    deciding = verdict.decision.deciding()
    others = [hit for hit in verdict.decision.rules if hit not in deciding]
    return common_pb2.Decision(
        decision_id=verdict.decision_id,
        action=_ACTIONS[verdict.decision.action],
        rules=[rule(hit) for hit in (*deciding, *others)],
        bundle_revision=verdict.revision,
        evaluation_ns=verdict.evaluation_ns,
        decision_ns=verdict.decision_ns,
        trace_id=verdict.trace_id,
        review_id=verdict.review_id,
    )


def outcome(value: Outcome) -> common_pb2.Outcome:
    """How a call ended."""
    return common_pb2.Outcome(
        kind=_KINDS[value.kind],
        exit_code=value.exit_code or 0,
        signal=value.signal or 0,
        detail=value.detail,
        run_ns=value.run_ns,
        stdout_bytes=value.stdout_bytes,
        stderr_bytes=value.stderr_bytes,
        truncated=value.truncated,
    )


def outcome_of(message: common_pb2.Outcome) -> Outcome:
    """What a client reports of a run elsewhere. Raises InvalidArgument."""
    kind = _KINDS_BACK.get(message.kind)
    if kind is None:
        raise InvalidArgument("outcome.kind is not set or unknown", value=message.kind)
    return Outcome(
        kind=kind,
        exit_code=message.exit_code if kind is OutcomeKind.EXITED else None,
        signal=message.signal if kind is OutcomeKind.SIGNALLED else None,
        detail=message.detail[:1000],
        run_ns=message.run_ns,
    )


def budget_of(message: session_pb2.BudgetLimits) -> Limits:
    """A session's own ceilings. Raises InvalidArgument naming field and bound."""
    return checked("limits", {field.name: value for field, value in message.ListFields()}, Limits)


def subject_of(message: agent_pb2.BanSubject) -> Subject:
    """What is to be banned. Raises InvalidArgument."""
    if not message.principal:
        raise InvalidArgument("subject.principal is not set")
    return Subject(message.principal, message.agent)


def ban(row: BanRow) -> agent_pb2.Ban:
    """A ban in force."""
    return agent_pb2.Ban(
        subject=agent_pb2.BanSubject(principal=row.principal, agent=row.agent),
        banned_unix_ns=row.banned_us * 1000,
        decided_by=row.decided_by,
        reason=row.reason,
    )


def review(view: View) -> review_pb2.Review:
    """A parked call."""
    row = view.row
    return review_pb2.Review(
        review_id=row.review_id,
        state=row.state,
        principal=row.principal,
        session_id=row.session_id,
        sandbox_id=row.sandbox_id,
        call_id=row.call_id,
        tool=row.tool,
        sealed_arguments_json=msgspec.json.encode(row.sealed),
        digest=row.digest,
        rules=[rule(hit) for hit in row.rules],
        created_unix_ns=row.created_us * 1000,
        expires_unix_ns=row.expires_us * 1000,
        decided_by=row.decided_by,
        decided_reason=row.reason,
        approvals_needed=view.approvals_needed,
        seconded_by=row.seconded,
        taints=view.taints,
        workspace_changes=view.changes,
        stdin=bool(row.stdin),
        elsewhere=row.elsewhere,
        description_digest=row.described,
    )


def checks(report: protocol.StatusReport) -> list[policy_pb2.SelfTestCheck]:
    """The self-test's results."""
    return [
        policy_pb2.SelfTestCheck(
            name=check.name,
            refused=check.refused,
            control_succeeded=check.control_succeeded,
            answer=check.answer,
            control_answer=check.control_answer,
        )
        for check in report.checks
    ]
