"""Parked permits that reviewers approved, until they are fetched.

An approval is judged at once, so that the reviewer hears what policy says of it; the permit itself is a verdict of its
own, made when the client fetches it (control/permits.py). All of it happens in the review's turn.
"""

import time
from collections.abc import Mapping

from opensafe.errors import Conflict
from opensafe.model.calls import Principal
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.policy_input import ApprovalInput
from opensafe.state.rows import ReviewRow, SessionRow
from opensafe.telemetry.spans import Tracing

from .judge import Ask, Judge, Verdict
from .reviews import VOIDED, Reviews
from .sessions import Sessions


class Approved:
    """For the desk, which approves, and for the permits, which hand out."""

    def __init__(
        self,
        judge: Judge,
        sessions: Sessions,
        reviews: Reviews,
        tracing: Tracing,
        principals: Mapping[str, Principal],
    ) -> None:
        self._judge = judge
        self._sessions = sessions
        self._reviews = reviews
        self._tracing = tracing
        self._principals = principals

    def asker(self, row: ReviewRow) -> tuple[Principal, SessionRow]:
        """Who waits for the parked permit, and its open session. Raises Conflict, NotFound."""
        principal = self._principals.get(row.principal)
        if principal is None:
            raise Conflict("the principal that asked is gone", value=row.principal)
        return principal, self._sessions.require(principal, row.session_id)

    async def confirm(self, row: ReviewRow) -> Verdict:
        """What policy says of the approved permit now. Recorded as a question: it gives nothing yet."""
        arrived = time.monotonic_ns()
        principal, session = self.asker(row)
        call = self._judge.registry.reopen(row.call_id, row.tool, row.sealed)
        with self._tracing.tool(row.tool, row.session_id, session.trace_id, row.call_id, {}):
            judged = await self._judge.judge(
                Ask(
                    purpose="query",
                    principal=principal,
                    session=session,
                    call=call,
                    description_digest=row.described,
                    pinned_digest=row.pinned,
                    approval=approval(row),
                    arrived_ns=arrived,
                )
            )
        return judged.verdict

    async def denied(self, row: ReviewRow, verdict: Verdict) -> Outcome:
        """The end of an approved permit that policy does not allow; void where the approval no longer counts."""
        if verdict.decision.action is Action.REVIEW:
            await self._reviews.record(row, "void", decided_by=row.decided_by, reason=VOIDED)
            return Outcome(kind=OutcomeKind.BLOCKED, detail=VOIDED)
        rules = ", ".join(sorted({hit.id for hit in verdict.decision.deciding()}))
        return Outcome(kind=OutcomeKind.BLOCKED, detail=f"approved, but policy blocks it: {rules}")


def approval(row: ReviewRow) -> ApprovalInput:
    """The approval as a fact."""
    return ApprovalInput(id=row.review_id, digest=row.digest, revision=row.revision, approver=row.decided_by)
