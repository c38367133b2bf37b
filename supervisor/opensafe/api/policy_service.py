"""Verdicts without runs, permits for runs elsewhere, explanations, shadow, and the daemon's state."""

from collections.abc import AsyncIterator
from typing import Any

from opensafe import __version__
from opensafe._proto.v1 import policy_pb2, policy_pb2_grpc
from opensafe.audit.log import AuditLog
from opensafe.audit.shipping import Shipping
from opensafe.control.activation import Activations
from opensafe.control.explanations import Explanations
from opensafe.control.judge import Judge
from opensafe.control.permits import Permits, Request
from opensafe.control.shadow import Shadow
from opensafe.gate import Gate
from opensafe.model.calls import Principal
from opensafe.warden.client import WardenClient

from . import convert, policy_messages
from .exec_service import trace_carrier
from .handlers import gone


class PolicyService(policy_pb2_grpc.PolicyServiceServicer):
    """See policy.proto."""

    def __init__(
        self,
        gate: Gate,
        permits: Permits,
        judge: Judge,
        explanations: Explanations,
        shadow: Shadow,
        activations: Activations,
        shipping: Shipping,
        log: AuditLog,
        warden: WardenClient,
        principal: Principal,
    ) -> None:
        self._gate = gate
        self._explanations = explanations
        self._shadow = shadow
        self._activations = activations
        self._shipping = shipping
        self._permits = permits
        self._judge = judge
        self._log = log
        self._warden = warden
        self._principal = principal

    async def Decide(  # noqa: N802 - the name of the RPC
        self,
        request: policy_pb2.DecideRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> policy_pb2.DecideResponse:
        """What policy would say."""
        verdict = await self._gate.decide(
            self._principal,
            request.session_id,
            request.tool,
            request.arguments_json,
            description_digest=request.description_digest,
            pinned_digest=request.pinned_digest,
            carrier=trace_carrier(context),
        )
        return policy_pb2.DecideResponse(decision=convert.decision(verdict))

    async def Begin(  # noqa: N802 - the name of the RPC
        self,
        request: policy_pb2.BeginRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> policy_pb2.BeginResponse:
        """A verdict and, where it is allow, a permit."""
        begun = await self._permits.begin(
            self._principal,
            Request(
                session_id=request.session_id,
                call_id=request.call_id,
                tool=request.tool,
                arguments_json=request.arguments_json,
                description_digest=request.description_digest,
                pinned_digest=request.pinned_digest,
                carrier=trace_carrier(context),
            ),
            gone(context) if request.wait_for_review else None,
        )
        return policy_pb2.BeginResponse(
            decision=convert.decision(begun.verdict),
            permit=begun.permit,
            expires_unix_ns=begun.expires_us * 1000,
            outcome=convert.outcome(begun.outcome) if begun.outcome else None,
        )

    async def Finish(  # noqa: N802 - the name of the RPC
        self,
        request: policy_pb2.FinishRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> policy_pb2.FinishResponse:
        """How the run elsewhere ended."""
        await self._permits.finish(
            self._principal, request.session_id, request.permit, convert.outcome_of(request.outcome)
        )
        return policy_pb2.FinishResponse()

    async def GetStatus(  # noqa: N802 - the name of the RPC
        self,
        request: policy_pb2.GetStatusRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> policy_pb2.GetStatusResponse:
        """Bundle, runtime, self-test, log."""
        report = await self._warden.status()
        return policy_pb2.GetStatusResponse(
            bundle_revision=self._judge.bundle.revision,
            bundle_digest=self._judge.bundle.digest,
            runsc_version=report.runsc_version,
            runsc_platform=report.runsc_platform,
            checks=convert.checks(report),
            self_test_unix_ns=report.checked_us * 1000,
            ledger_size=report.ledger_size,
            audit_size=self._log.head.size,
            audit_head=self._log.head.leaf,
            append_only=report.append_only,
            checkpoint=policy_pb2.CheckpointState(
                size=report.checkpoint_size, time_us=report.checkpoint_us, failure=report.checkpoint_failure
            ),
            sandboxes=report.sandboxes,
            programs=report.programs,
            version=__version__,
            removed_at_start=report.removed_at_start,
            roles=self._principal.roles,
            pool=policy_messages.pool(report, self._principal),
            ships=policy_messages.ships(self._shipping),
            **policy_messages.load(report, self._principal),
            **policy_messages.bundle(self._activations, report.helper_bundle),
        )

    async def WatchBundle(  # noqa: N802 - the name of the RPC
        self,
        request: policy_pb2.WatchBundleRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> AsyncIterator[policy_pb2.WatchBundleResponse]:
        """How bundles put in place ended."""
        async for settled in self._activations.settled():
            yield policy_messages.settled(settled)

    async def Explain(  # noqa: N802 - the name of the RPC
        self,
        request: policy_pb2.ExplainRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> policy_pb2.ExplainResponse:
        """Why a decision is what it is."""
        record, found = await self._explanations.explain(self._principal, request.decision_id)
        return policy_messages.explanation(record, found)

    async def ListRules(  # noqa: N802 - the name of the RPC
        self,
        request: policy_pb2.ListRulesRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> policy_pb2.ListRulesResponse:
        """What there is to fire."""
        return policy_messages.rules(self._activations)

    async def StartShadow(  # noqa: N802 - the name of the RPC
        self,
        request_iterator: AsyncIterator[policy_pb2.StartShadowRequest],
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> policy_pb2.StartShadowResponse:
        """Take a bundle in and let it judge along."""
        async with self._gate.noted(self._principal, request="StartShadow"):
            started = await self._shadow.start(self._principal, (piece.content async for piece in request_iterator))
        return policy_pb2.StartShadowResponse(candidate=policy_messages.candidate(started))

    async def StopShadow(  # noqa: N802 - the name of the RPC
        self,
        request: policy_pb2.StopShadowRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> policy_pb2.StopShadowResponse:
        """End it."""
        async with self._gate.noted(self._principal, request="StopShadow"):
            stopped = await self._shadow.stop(self._principal)
        return policy_pb2.StopShadowResponse(candidate=policy_messages.candidate(stopped))

    async def GetShadow(  # noqa: N802 - the name of the RPC
        self,
        request: policy_pb2.GetShadowRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> policy_pb2.GetShadowResponse:
        """What came of it so far."""
        return policy_messages.shadow(self._shadow.report(self._principal))
