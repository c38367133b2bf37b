"""Bundles, explanations and shadow as protobuf messages. One function a message."""

import os
from typing import Any, Final

import msgspec

from opensafe._proto.v1 import policy_pb2
from opensafe.audit.shipping import Shipping
from opensafe.control.activation import ACTIVATED, REFUSED, Activations, Settled
from opensafe.control.judge import Verdict
from opensafe.model.calls import Principal
from opensafe.model.explanation import Explanation
from opensafe.model.records import DecisionRecord
from opensafe.model.shadow import Candidate, ShadowReport
from opensafe.warden.protocol import StatusReport

from . import convert

#: Roles that see every principal's pool, and what all sandboxes use up.
_SEEING: Final = frozenset({"operator", "auditor"})


def bundle(activations: Activations, helper_digest: str) -> dict[str, Any]:
    """The fields of GetStatusResponse that concern bundles."""
    found, refusal = activations.loaded.bundle, activations.last_refusal()
    return {
        "bundle_number": found.number,
        "bundle_key": found.key,
        "trusted_keys": activations.trusted_keys,
        "bundle_path": activations.path,
        "helper_revision": found.revision if helper_digest == found.digest else "",
        "bundle_refused": activations.last.state == REFUSED,
        "last_refusal": refusal
        and policy_pb2.BundleRefusal(digest=refusal.digest, reason=refusal.reason, unix_ns=refusal.time_us * 1000),
    }


def pool(report: StatusReport, principal: Principal) -> list[policy_pb2.PoolState]:
    """The pool's entries that the principal may see: who else keeps sandboxes ready is nobody's business."""
    seen = report.pool if _SEEING.intersection(principal.roles) else ()
    own = [one for one in report.pool if one.principal == principal.name]
    return [policy_pb2.PoolState(**msgspec.structs.asdict(one)) for one in seen or own]


def load(report: StatusReport, principal: Principal) -> dict[str, Any]:
    """The fields of GetStatusResponse that say what sandboxes use up, and of how much; for those who may see it."""
    if not _SEEING.intersection(principal.roles):
        return {}
    return {
        "sandbox_cpu_ns": report.sandbox_cpu_ns,
        "sandbox_memory_bytes": report.sandbox_memory_bytes,
        "host_cpus": os.cpu_count() or 0,
        "host_memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    }


def ships(shipping: Shipping) -> list[policy_pb2.ShipState]:
    """How the destinations of checkpoints stand."""
    return [policy_pb2.ShipState(**msgspec.structs.asdict(one)) for one in shipping.states]


def settled(found: Settled) -> policy_pb2.WatchBundleResponse:
    """How a bundle put in place ended."""
    fields = msgspec.structs.asdict(found)
    return policy_pb2.WatchBundleResponse(activated=fields.pop("state") == ACTIVATED, **fields)


def explanation(record: DecisionRecord, found: Explanation) -> policy_pb2.ExplainResponse:
    """A decision explained; the times are those of the record."""
    verdict = Verdict(
        decision_id=record.decision_id,
        decision=record.result,
        revision=found.revision,
        review_id=record.review_id,
        trace_id=record.trace_id,
        evaluation_ns=record.metrics.get("timer_rego_query_eval_ns", 0),
    )
    return policy_pb2.ExplainResponse(
        decision=convert.decision(verdict),
        shadow=[convert.rule(hit) for hit in record.result.shadow],
        entrypoint=found.entrypoint,
        question_json=msgspec.json.encode(found.question),
        notes=[policy_pb2.RuleNote(**msgspec.to_builtins(note)) for note in found.notes],
        nearest=[policy_pb2.Nearest(**msgspec.to_builtins(one)) for one in found.nearest],
    )


def rules(activations: Activations) -> policy_pb2.ListRulesResponse:
    """The catalogue of the bundle in force."""
    found = activations.loaded.bundle
    return policy_pb2.ListRulesResponse(
        revision=found.revision, notes=[policy_pb2.RuleNote(**msgspec.to_builtins(note)) for note in found.rules]
    )


def candidate(found: Candidate) -> policy_pb2.Candidate:
    """A candidate in shadow with its counts."""
    fields = msgspec.to_builtins(found)
    return policy_pb2.Candidate(started_unix_ns=fields.pop("started_us") * 1000, **fields)


def shadow(found: ShadowReport) -> policy_pb2.GetShadowResponse:
    """The whole report."""
    return policy_pb2.GetShadowResponse(
        since_unix_ns=found.since_us * 1000,
        decisions=found.decisions,
        candidate=candidate(found.candidate) if found.candidate else None,
        samples=[
            policy_pb2.ShadowSample(
                decision_id=sample.decision_id,
                time_unix_ns=sample.time_us * 1000,
                principal=sample.principal,
                tool=sample.tool,
                enforced=convert.action(sample.enforced),
                candidate=convert.action(sample.candidate),
                rules=[convert.rule(hit) for hit in sample.rules],
            )
            for sample in found.samples
        ],
        rules=[policy_pb2.ShadowRule(**msgspec.to_builtins(rule)) for rule in found.rules],
    )
