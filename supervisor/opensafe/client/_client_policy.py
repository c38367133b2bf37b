"""What a client can ask of policy: verdicts, permits for runs elsewhere, explanations, shadow, the daemon's state."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from opensafe._proto.v1 import policy_pb2
from opensafe.model.explanation import Explanation
from opensafe.model.outcome import Outcome
from opensafe.model.shadow import Candidate, ShadowReport

from . import _policy, _trace, _wire
from ._calls import encode_arguments
from ._connection import Connection
from ._failures import stream
from ._types import BundleSettled, DaemonStatus, Permit, RuleList, Verdict


class PolicyMethods(Connection):
    """Verdicts without runs of the daemon's, and what it judges by."""

    async def decide(
        self,
        session_id: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        description_digest: str = "",
        pinned_digest: str = "",
    ) -> Verdict:
        """Judge a call and execute nothing. The digests are as in `begin`."""
        request = policy_pb2.DecideRequest(
            session_id=session_id,
            tool=tool,
            arguments_json=encode_arguments(arguments),
            description_digest=description_digest,
            pinned_digest=pinned_digest,
        )
        return _wire.verdict((await self._ask(self._policy.Decide(request, metadata=_trace.metadata()))).decision)

    async def begin(
        self,
        session_id: str,
        call_id: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        description_digest: str = "",
        pinned_digest: str = "",
        wait_for_review: bool = False,
    ) -> Permit:
        """Judge a call that runs elsewhere; with a yes comes a permit for one run. `finish` it before it expires.

        A call that is parked gets its permit, once, when the same is asked again after its approval, or at once with
        `wait_for_review`.

        description_digest, pinned_digest: of the tool's description and schema as you were shown them, and as they
        were approved: policy blocks where they differ (`description_digest` makes them). Where the tool manifest pins
        one, it stands in the place of the second.
        """
        request = policy_pb2.BeginRequest(
            session_id=session_id,
            call_id=call_id,
            tool=tool,
            arguments_json=encode_arguments(arguments),
            description_digest=description_digest,
            pinned_digest=pinned_digest,
            wait_for_review=wait_for_review,
        )
        answer = await self._ask(self._policy.Begin(request, metadata=_trace.metadata()))
        return Permit(
            verdict=_wire.verdict(answer.decision),
            permit=answer.permit,
            expires_unix_ns=answer.expires_unix_ns,
            outcome=_wire.outcome(answer.outcome) if answer.HasField("outcome") else None,
        )

    async def finish(self, session_id: str, permit: str, outcome: Outcome) -> None:
        """Use a permit up. outcome: EXITED, SIGNALLED, CANCELLED or LOST. Raises Conflict for a used permit."""
        request = policy_pb2.FinishRequest(session_id=session_id, permit=permit, outcome=_wire.outcome_message(outcome))
        await self._ask(self._policy.Finish(request))

    async def status(self) -> DaemonStatus:
        """Versions, bundle, self-test and sizes of the logs."""
        return _wire.status(await self._ask(self._policy.GetStatus(policy_pb2.GetStatusRequest())))

    async def explain(self, decision_id: str) -> Explanation:
        """Why a recent decision (or the latest of a call_id) is what it is. Raises NotFound for older ones."""
        request = policy_pb2.ExplainRequest(decision_id=decision_id)
        return _policy.explanation(await self._ask(self._policy.Explain(request)))

    async def list_rules(self) -> RuleList:
        """The rules that are in force, a note for each part of each."""
        answer = await self._ask(self._policy.ListRules(policy_pb2.ListRulesRequest()))
        return RuleList(revision=answer.revision, notes=_policy.notes(answer.notes))

    async def start_shadow(self, bundle: bytes) -> Candidate:
        """Let a signed bundle judge along, until it is stopped or the daemon ends. It decides nothing.

        Needs the role operator or reviewer, like the two below. Raises Conflict where one runs, NotPermitted with
        the failed check for a bundle that the daemon would not load.
        """
        answer = await self._ask(self._policy.StartShadow(_policy.pieces(bundle)))
        return _policy.candidate(answer.candidate)

    async def stop_shadow(self) -> Candidate:
        """End it; its last counts. Raises Conflict where none runs."""
        answer = await self._ask(self._policy.StopShadow(policy_pb2.StopShadowRequest()))
        return _policy.candidate(answer.candidate)

    async def get_shadow(self) -> ShadowReport:
        """What the candidate would have said so far, and the rules that the site put in shadow."""
        return _policy.shadow(await self._ask(self._policy.GetShadow(policy_pb2.GetShadowRequest())))

    async def watch_bundle(self) -> AsyncIterator[BundleSettled]:
        """How the last bundle put in place ended, at once, and then each further one."""
        with stream(self._policy.WatchBundle(policy_pb2.WatchBundleRequest()), self._path) as messages:
            async for message in messages:
                yield _wire.settled(message)
