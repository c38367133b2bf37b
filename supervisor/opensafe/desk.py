"""What people decide about calls: approve, reject, ban, close; and what time decides: expiry.

Each decision on a parked call is taken in its review's turn, so a call ends once, whoever asks at the same time. How a
call is then carried on is the gate's business, and a permit's control/approved.py's.
"""

import asyncio

from opensafe.control.approved import Approved
from opensafe.control.bans import Bans, Subject
from opensafe.control.judge import Verdict
from opensafe.control.refusals import Refusals
from opensafe.control.reviews import Reviews, expired, rejected
from opensafe.control.sandboxes import Sandboxes
from opensafe.control.sessions import Sessions
from opensafe.gate import Gate
from opensafe.model.calls import Principal
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.policy_input import ApprovalInput
from opensafe.state.rows import ReviewRow
from opensafe.state.store import Store


class Desk:
    """Reviewers, operators and owners act here. Every refusal is on record."""

    def __init__(
        self,
        gate: Gate,
        approved: Approved,
        sessions: Sessions,
        sandboxes: Sandboxes,
        reviews: Reviews,
        bans: Bans,
        refusals: Refusals,
        store: Store,
    ) -> None:
        self._gate = gate
        self._approved = approved
        self._sessions = sessions
        self._sandboxes = sandboxes
        self._reviews = reviews
        self._bans = bans
        self._refusals = refusals
        self._store = store

    async def approve(self, principal: Principal, review_id: str, digest: str) -> Verdict | None:
        """Let exactly the parked call run once, judged again; None where another reviewer must approve, too.

        An approved permit waits to be fetched. Raises NotPermitted, NotFound, Conflict.
        """
        async with (
            self._refusals.noted(principal.name, request=f"ApproveReview {review_id}"),
            self._reviews.turn(review_id),
        ):
            row = self._reviews.decidable(principal, review_id)
            if row.elsewhere:
                return await self._approve_permit(principal, row, digest)
            live = self._gate.parked(row)
            asker = live.submission.principal
            session = self._sessions.require(asker, row.session_id)
            self._sandboxes.require(asker, row.sandbox_id)
            if await self._reviews.approve(principal, row, digest):
                return None
            self._store.unpark(review_id)
            approval = ApprovalInput(id=review_id, digest=digest, revision=row.revision, approver=principal.name)
            self._gate.resume(live, approval, session.trace_id)
        return await asyncio.shield(live.verdict)

    async def reject(self, principal: Principal, review_id: str, reason: str) -> None:
        """End the parked call; `reason` reaches the agent. Raises as `approve` does."""
        async with (
            self._refusals.noted(principal.name, request=f"RejectReview {review_id}"),
            self._reviews.turn(review_id),
        ):
            row = self._reviews.decidable(principal, review_id)
            await self._reviews.reject(principal, row, reason)
            await self._gate.end_parked(row, rejected(row, reason))

    async def close_session(self, principal: Principal, session_id: str) -> None:
        """End the session: nothing new is taken, running and parked calls and sandboxes end. Raises NotFound."""
        await self._sessions.close(principal, session_id)
        why = "the session was closed"
        try:
            for row in self._reviews.of_session(session_id):
                await self._void(row, why)
            ending = self._gate.cancel(lambda running: running == session_id, why)
            await asyncio.gather(*(live.ended() for live in ending))
            await self._sandboxes.remove_of(session_id)
        finally:
            self._sessions.ended(session_id)

    async def ban(self, principal: Principal, subject: Subject, reason: str) -> tuple[int, int]:
        """Ban, end running calls, void parked ones: returns how many of both. Raises as Bans.ban."""
        async with self._refusals.noted(principal.name, request=f"Ban {subject}"):
            await self._bans.ban(principal, subject, reason)
        why = f"banned: {reason or subject}"

        def covers(session_id: str) -> bool:
            session = self._store.session(session_id)
            return session is not None and subject.covers(session)

        running = self._gate.cancel(covers, why)
        parked = [row for row in self._reviews.waiting() if covers(row.session_id)]
        for row in parked:
            await self._void(row, why)
        return len(running), len(parked)

    async def unban(self, principal: Principal, subject: Subject) -> None:
        """Lift a ban. Raises as Bans.unban."""
        async with self._refusals.noted(principal.name, request=f"Unban {subject}"):
            await self._bans.unban(principal, subject)

    async def watch_expiry(self) -> None:
        """Let parked calls, and approved permits that nobody fetches, expire; runs until cancelled."""
        while True:
            due = await self._reviews.next_expired()
            async with self._reviews.turn(due.review_id):
                row = self._reviews.still_waiting(due.review_id)
                if row is not None:
                    await self._reviews.record(row, "expired", decided_by=row.decided_by)
                    await self._gate.end_parked(row, expired(row))

    async def _approve_permit(self, principal: Principal, row: ReviewRow, digest: str) -> Verdict | None:
        """As `approve`, in the review's turn. What policy no longer allows ends here and not when it is fetched."""
        self._approved.asker(row)
        if await self._reviews.approve(principal, row, digest):
            return None
        row = self._reviews.require(row.review_id)
        verdict = await self._approved.confirm(row)
        if verdict.decision.action is not Action.ALLOW:
            await self._gate.end_parked(row, await self._approved.denied(row, verdict))
        return verdict

    async def _void(self, due: ReviewRow, why: str) -> None:
        async with self._reviews.turn(due.review_id):
            row = self._reviews.still_waiting(due.review_id)
            if row is not None:
                await self._reviews.record(row, "void", decided_by=row.decided_by, reason=why)
                await self._gate.end_parked(row, Outcome(kind=OutcomeKind.CANCELLED, detail=why))
