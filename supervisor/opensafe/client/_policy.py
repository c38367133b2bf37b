"""Explanations and shadow, from messages to the model's types. A value outside its closed list is refused."""

from __future__ import annotations  # ValueType exists for the type checker only

from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec

from opensafe._proto.v1 import policy_pb2
from opensafe.errors import OpenSafeError
from opensafe.model.decision import Decision, Grant
from opensafe.model.explanation import Explanation, Nearest, RuleNote
from opensafe.model.policy_input import PolicyInput
from opensafe.model.shadow import Candidate, ShadowReport, ShadowRule, ShadowSample

from . import _wire

#: Bytes of a bundle in one message: below the smallest message that a daemon accepts.
_PIECE: Final = 32 * 1024


def notes(messages: Iterable[policy_pb2.RuleNote]) -> tuple[RuleNote, ...]:
    """Parts of rules."""
    try:
        return tuple(
            msgspec.convert(
                {
                    "id": note.id,
                    "file": note.file,
                    "line": note.line,
                    "severity": note.severity,
                    "title": note.title,
                    "description": note.description,
                    "threat": note.threat,
                    "says": list(note.says),
                },
                RuleNote,
            )
            for note in messages
        )
    except msgspec.ValidationError as error:
        raise _malformed("a rule", error) from error


def explanation(message: policy_pb2.ExplainResponse) -> Explanation:
    """A decision explained. The grant is not part of it."""
    verdict = _wire.verdict(message.decision)
    try:
        question = msgspec.json.decode(message.question_json, type=PolicyInput)
    except msgspec.DecodeError as error:
        raise _malformed("the explanation", error) from error
    return Explanation(
        decision_id=verdict.decision_id,
        revision=verdict.bundle_revision,
        entrypoint=message.entrypoint,
        question=question,
        decision=Decision(
            action=verdict.action,
            rules=verdict.rules,
            grant=Grant(),
            id=verdict.decision_id,
            data_version=verdict.bundle_revision,
            shadow=_wire.rules(message.shadow),
        ),
        notes=notes(message.notes),
        nearest=tuple(Nearest(kind=one.kind, value=one.value, allowed=tuple(one.allowed)) for one in message.nearest),
    )


def candidate(message: policy_pb2.Candidate) -> Candidate:
    """A candidate with its counts."""
    return Candidate(
        revision=message.revision,
        digest=message.digest,
        key=message.key,
        started_by=message.started_by,
        started_us=message.started_unix_ns // 1000,
        evaluated=message.evaluated,
        same=message.same,
        differed=message.differed,
        other_rules=message.other_rules,
        dropped=message.dropped,
        no_verdict=message.no_verdict,
        transitions=dict(sorted(message.transitions.items())),
        rules=dict(sorted(message.rules.items(), key=lambda item: (-item[1], item[0]))),
    )


def shadow(message: policy_pb2.GetShadowResponse) -> ShadowReport:
    """The whole report."""
    return ShadowReport(
        since_us=message.since_unix_ns // 1000,
        decisions=message.decisions,
        candidate=candidate(message.candidate) if message.HasField("candidate") else None,
        samples=tuple(
            ShadowSample(
                decision_id=sample.decision_id,
                time_us=sample.time_unix_ns // 1000,
                principal=sample.principal,
                tool=sample.tool,
                enforced=_wire.action(sample.enforced),
                candidate=_wire.action(sample.candidate),
                rules=_wire.rules(sample.rules),
            )
            for sample in message.samples
        ),
        rules=tuple(
            ShadowRule(
                id=rule.id,
                hits=rule.hits,
                would_change=rule.would_change,
                last_decision_id=rule.last_decision_id,
                last_reason=rule.last_reason,
            )
            for rule in message.rules
        ),
    )


def _malformed(what: str, error: msgspec.DecodeError) -> OpenSafeError:
    return OpenSafeError(
        f"the daemon's answer is malformed: {what}: {error}", remedy="Client and daemon must be of the same version."
    )


async def pieces(content: bytes) -> AsyncIterator[policy_pb2.StartShadowRequest]:
    """A bundle in messages."""
    for start in range(0, len(content), _PIECE):
        yield policy_pb2.StartShadowRequest(content=content[start : start + _PIECE])
