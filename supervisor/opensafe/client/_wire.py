"""Between the generated messages and our own types. A value outside its closed list is refused, never guessed."""

from __future__ import annotations  # ValueType exists for the type checker only

from collections.abc import Iterable
from typing import Final, NoReturn

import msgspec

from opensafe._proto.v1 import agent_pb2, common_pb2, policy_pb2, review_pb2, session_pb2
from opensafe.errors import OpenSafeError
from opensafe.model.decision import Action, RuleHit, Severity
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.usage import Limits

from ._types import (
    Ban,
    BundleRefusal,
    BundleSettled,
    DaemonStatus,
    PoolState,
    Review,
    SelfTest,
    ShipState,
    Verdict,
)

_ACTIONS: Final = {
    common_pb2.ACTION_ALLOW: Action.ALLOW,
    common_pb2.ACTION_REVIEW: Action.REVIEW,
    common_pb2.ACTION_BLOCK: Action.BLOCK,
}
_ACTION_NUMBERS: Final = {action: number for number, action in _ACTIONS.items()}
_KINDS: Final = {common_pb2.OutcomeKind.Value(f"OUTCOME_KIND_{kind.name}"): kind for kind in OutcomeKind}
_KIND_NUMBERS: Final = {kind: number for number, kind in _KINDS.items()}


def strange(what: str, value: object) -> NoReturn:
    """Raises OpenSafeError."""
    raise OpenSafeError(
        f"the daemon answered with an unknown {what}",
        value=value,
        remedy="Client and daemon must be of the same version.",
    )


def action_number(wanted: Action | None) -> common_pb2.Action.ValueType:
    """As a request names it; None names none."""
    return common_pb2.ACTION_UNSPECIFIED if wanted is None else _ACTION_NUMBERS[wanted]


def action(number: common_pb2.Action.ValueType) -> Action:
    """Raises OpenSafeError where it is none of ours."""
    return _ACTIONS.get(number) or strange("action", number)


def _severity(text: str) -> Severity:
    try:
        return Severity(text)
    except ValueError:
        strange("severity", text)


def rules(messages: Iterable[common_pb2.Rule]) -> tuple[RuleHit, ...]:
    """Rules that fired."""
    return tuple(
        RuleHit(
            id=rule.id,
            severity=_severity(rule.severity),
            action=action(rule.action),
            reason=rule.reason,
            value=rule.value,
            remedy=rule.remedy,
        )
        for rule in messages
    )


def verdict(message: common_pb2.Decision) -> Verdict:
    """Raises OpenSafeError where the action is none of ours."""
    return Verdict(
        decision_id=message.decision_id,
        action=action(message.action),
        rules=rules(message.rules),
        bundle_revision=message.bundle_revision,
        evaluation_ns=message.evaluation_ns,
        decision_ns=message.decision_ns,
        trace_id=message.trace_id,
        review_id=message.review_id,
    )


def outcome(message: common_pb2.Outcome) -> Outcome:
    """Raises OpenSafeError where the kind is none of ours."""
    kind = _KINDS.get(message.kind) or strange("outcome", message.kind)
    return Outcome(
        kind=kind,
        exit_code=message.exit_code if kind is OutcomeKind.EXITED else None,
        signal=message.signal if kind is OutcomeKind.SIGNALLED else None,
        detail=message.detail,
        run_ns=message.run_ns,
        stdout_bytes=message.stdout_bytes,
        stderr_bytes=message.stderr_bytes,
        truncated=message.truncated,
    )


def outcome_message(value: Outcome) -> common_pb2.Outcome:
    """The message of an outcome that a client reports."""
    return common_pb2.Outcome(
        kind=_KIND_NUMBERS[value.kind],
        exit_code=value.exit_code or 0,
        signal=value.signal or 0,
        detail=value.detail,
        run_ns=value.run_ns,
        stdout_bytes=value.stdout_bytes,
        stderr_bytes=value.stderr_bytes,
        truncated=value.truncated,
    )


def review(message: review_pb2.Review) -> Review:
    """One review. Raises OpenSafeError where the arguments are no JSON object."""
    try:
        arguments = msgspec.json.decode(message.sealed_arguments_json or b"null", type=dict | None)
    except msgspec.DecodeError:
        strange("form of arguments in a review", message.review_id)
    return Review(
        review_id=message.review_id,
        state=message.state,
        principal=message.principal,
        session_id=message.session_id,
        sandbox_id=message.sandbox_id,
        call_id=message.call_id,
        tool=message.tool,
        arguments=arguments,
        digest=message.digest,
        rules=rules(message.rules),
        created_unix_ns=message.created_unix_ns,
        expires_unix_ns=message.expires_unix_ns,
        decided_by=message.decided_by,
        decided_reason=message.decided_reason,
        approvals_needed=message.approvals_needed,
        seconded_by=message.seconded_by,
        taints=tuple(message.taints),
        workspace_changes=message.workspace_changes,
        stdin=message.stdin,
        elsewhere=message.elsewhere,
        description_digest=message.description_digest,
    )


def budget_message(limits: Limits) -> session_pb2.BudgetLimits:
    """The message of a session's own ceilings."""
    return session_pb2.BudgetLimits(**limits.as_budget())


def ban(message: agent_pb2.Ban) -> Ban:
    """One ban in force."""
    return Ban(
        principal=message.subject.principal,
        agent=message.subject.agent,
        banned_unix_ns=message.banned_unix_ns,
        decided_by=message.decided_by,
        reason=message.reason,
    )


def status(message: policy_pb2.GetStatusResponse) -> DaemonStatus:
    """What the daemon says of itself."""
    return DaemonStatus(
        version=message.version,
        bundle_revision=message.bundle_revision,
        bundle_digest=message.bundle_digest,
        runsc_version=message.runsc_version,
        runsc_platform=message.runsc_platform,
        roles=tuple(message.roles),
        self_test_unix_ns=message.self_test_unix_ns,
        sandbox_cpu_ns=message.sandbox_cpu_ns if message.HasField("sandbox_cpu_ns") else None,
        sandbox_memory_bytes=message.sandbox_memory_bytes if message.HasField("sandbox_memory_bytes") else None,
        host_cpus=message.host_cpus if message.HasField("host_cpus") else None,
        host_memory_bytes=message.host_memory_bytes if message.HasField("host_memory_bytes") else None,
        checks=tuple(
            SelfTest(
                name=check.name,
                refused=check.refused,
                control_succeeded=check.control_succeeded,
                answer=check.answer,
                control_answer=check.control_answer,
            )
            for check in message.checks
        ),
        ledger_size=message.ledger_size,
        audit_size=message.audit_size,
        audit_head=message.audit_head,
        append_only=message.append_only,
        checkpoint_size=message.checkpoint.size,
        checkpoint_us=message.checkpoint.time_us,
        checkpoint_failure=message.checkpoint.failure,
        sandboxes=message.sandboxes,
        programs=message.programs,
        removed_at_start=tuple(message.removed_at_start),
        bundle_number=message.bundle_number,
        bundle_key=message.bundle_key,
        trusted_keys=tuple(message.trusted_keys),
        bundle_path=message.bundle_path,
        helper_revision=message.helper_revision,
        bundle_refused=message.bundle_refused,
        last_refusal=_refusal(message.last_refusal) if message.HasField("last_refusal") else None,
        ships=tuple(
            ShipState(
                destination=one.destination,
                size=one.size,
                time_us=one.time_us,
                failures=one.failures,
                error=one.error,
                dropped=one.dropped,
            )
            for one in message.ships
        ),
        pool=tuple(
            PoolState(
                principal=one.principal,
                template=one.template,
                wanted=one.wanted,
                ready=one.ready,
                failures=one.failures,
                error=one.error,
                pause_s=one.pause_s,
            )
            for one in message.pool
        ),
    )


def settled(message: policy_pb2.WatchBundleResponse) -> BundleSettled:
    """How a bundle put in place ended."""
    return BundleSettled(
        sequence=message.sequence,
        activated=message.activated,
        digest=message.digest,
        number=message.number,
        revision=message.revision,
        reason=message.reason,
        took_ms=message.took_ms,
    )


def _refusal(message: policy_pb2.BundleRefusal) -> BundleRefusal:
    return BundleRefusal(digest=message.digest, reason=message.reason, unix_ns=message.unix_ns)
