"""Parked calls and permits, and the rules for deciding on them.

An approval is for one exact call: the digest shown to the reviewer must be the digest that is parked. It is given by
a principal with the role `reviewer` who did not ask for the call, before it expires, once; where the configuration
wants two, by two of them. What comes of an approval is the business of the gate, or of the permits: the call is judged
again with the approval as a fact.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from opensafe.audit.log import AuditLog
from opensafe.config import Caps
from opensafe.errors import Conflict, LimitExceeded, NotFound, NotPermitted
from opensafe.model.calls import Principal
from opensafe.model.decision import Severity
from opensafe.model.ids import now_us
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.records import DecisionRecord, ReviewRecord
from opensafe.state.rows import ReviewRow
from opensafe.state.store import Store
from opensafe.telemetry.spans import Waited

from .expiry import next_due
from .roles import require_role
from .turns import Turns

REVIEWER: Final = "reviewer"
VOIDED: Final = "policy changed since the review: the approval is void"
#: Full arguments kept for all parked calls together, in bytes.
PARKED_BYTES: Final = 64 << 20
_GRAVE: Final = frozenset({Severity.HIGH, Severity.CRITICAL})


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A review as it is shown.

    approvals_needed: 1 or 2. taints: of its session and sandbox, now. changes: calls since it was parked that may have
    changed its workspace, those under way included.
    """

    row: ReviewRow
    approvals_needed: int
    taints: tuple[str, ...]
    changes: int


class Reviews:
    """The queue, as it stands in the index."""

    def __init__(self, log: AuditLog, store: Store, caps: Caps) -> None:
        self._log = log
        self._store = store
        self._caps = caps
        self._turns = Turns()
        self._changed = asyncio.Event()
        self._recorded = asyncio.Condition()

    def admit(self, size: int) -> None:
        """Raises LimitExceeded where one more parked call of `size` bytes would not fit."""
        waiting = self._store.parked_calls()
        if waiting >= self._caps.parked_reviews:
            raise LimitExceeded(
                "too many calls wait for review",
                value=waiting,
                limit=f"caps.parked_reviews = {self._caps.parked_reviews}",
                remedy="A reviewer must decide on some (opensafe review list).",
            )
        if self._store.parked_bytes() + size > PARKED_BYTES:
            raise LimitExceeded("parked calls hold too many bytes", value=size, limit=PARKED_BYTES)

    def visible(self, principal: Principal, *, everything: bool) -> list[ReviewRow]:
        """All reviews for a reviewer, its own for anybody else."""
        rows = self._store.reviews(everything=everything)
        if REVIEWER in principal.roles:
            return rows
        return [row for row in rows if row.principal == principal.name]

    def find(self, principal: Principal, review_id: str) -> ReviewRow:
        """The review, for a reviewer or the principal whose call it is. Raises NotFound."""
        row = self._store.review(review_id)
        if row is None or (REVIEWER not in principal.roles and row.principal != principal.name):
            raise NotFound("no such review", value=review_id, remedy="opensafe review list shows those that wait.")
        return row

    def view(self, row: ReviewRow) -> View:
        """What a reviewer should know beside the call itself."""
        session, sandbox = self._store.session(row.session_id), self._store.sandbox(row.sandbox_id)
        pending = row.state == "pending"
        return View(
            row=row,
            approvals_needed=self.needed(row),
            taints=tuple(dict.fromkeys((*(session.taints if session else ()), *(sandbox.taints if sandbox else ())))),
            changes=row.changes + (self._store.history.changes_under_way(row.sandbox_id) if pending else 0),
        )

    def needed(self, row: ReviewRow) -> int:
        """How many reviewers must approve."""
        grave = any(hit.severity in _GRAVE for hit in row.rules)
        return max(self._caps.approvals_needed, self._caps.approvals_needed_high if grave else 1)

    async def watch(self, principal: Principal) -> AsyncIterator[ReviewRow]:
        """Reviews that wait, then each one that is parked or decided on, of those `visible` to the principal."""
        position = self._log.durable
        for row in self.visible(principal, everything=False):
            yield row
        async for written in self._log.follow(position):
            if written.kind not in ("decision", "review"):
                continue
            match written.record:
                case DecisionRecord(review_id=review_id) | ReviewRecord(review_id=review_id) if review_id:
                    changed = self._store.review(review_id)
                    if changed is not None and (REVIEWER in principal.roles or changed.principal == principal.name):
                        yield changed
                case _:
                    pass

    def waiting(self) -> list[ReviewRow]:
        """All that are undecided, and approved permits that nobody fetched yet; oldest first."""
        return self._store.waiting_reviews()

    def of_session(self, session_id: str) -> list[ReviewRow]:
        """Those of the session that wait."""
        return [row for row in self.waiting() if row.session_id == session_id]

    async def decided(self, review_id: str, gone: asyncio.Event) -> bool:
        """Wait until the review is decided on, however; False where `gone` is set before."""
        leaving = asyncio.create_task(gone.wait())
        deciding = asyncio.create_task(self._decided(review_id))
        try:
            await asyncio.wait((leaving, deciding), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            deciding.cancel()
            await asyncio.gather(leaving, deciding, return_exceptions=True)
        return not gone.is_set()

    async def _decided(self, review_id: str) -> None:
        async with self._recorded:
            await self._recorded.wait_for(lambda: self._state(review_id) != "pending")

    def _state(self, review_id: str) -> str:
        row = self._store.review(review_id)
        return row.state if row is not None else ""

    def turn(self, review_id: str) -> asyncio.Lock:
        """The right to decide on a review, for `async with`: whoever holds it sees what the one before made of it.

        Approval, rejection, expiry and voiding all take it, so a parked call ends once.
        """
        return self._turns.of(review_id)

    def require(self, review_id: str) -> ReviewRow:
        """The review as it is now. Raises NotFound."""
        row = self._store.review(review_id)
        if row is None:
            raise NotFound("no such review", value=review_id)
        return row

    def still_waiting(self, review_id: str) -> ReviewRow | None:
        """The review as it is now, if it waits; to be asked within its `turn`."""
        row = self._store.review(review_id)
        return row if row is not None and row.waits else None

    def decidable(self, principal: Principal, review_id: str) -> ReviewRow:
        """The pending review that `principal` may decide on, within its `turn`.

        Raises NotPermitted, NotFound, Conflict.
        """
        require_role(principal, "deciding on reviews", (REVIEWER,))
        if self._store.history.banned(principal.name, ""):
            raise NotPermitted("a banned principal decides on nothing", value=principal.name)
        row = self.find(principal, review_id)
        if row.principal == principal.name:
            raise NotPermitted("nobody decides on a call of their own", value=principal.name)
        if row.state != "pending":
            raise Conflict("the review is decided", value=row.state, limit="pending")
        if now_us() >= row.expires_us:
            raise Conflict("the review has expired", value=review_id, remedy="The agent must send the call again.")
        return row

    async def approve(self, principal: Principal, row: ReviewRow, digest: str) -> int:
        """Record an approval of a `decidable` row. Returns how many are still missing. Raises Conflict."""
        if digest != row.digest:
            raise Conflict("the approval is for another request", value=digest, limit=row.digest)
        if row.seconded == principal.name:
            raise Conflict("another reviewer must approve, too", value=principal.name)
        missing = self.needed(row) - (2 if row.seconded else 1)
        await self.record(row, "seconded" if missing > 0 else "approved", decided_by=principal.name, digest=digest)
        return max(missing, 0)

    async def reject(self, principal: Principal, row: ReviewRow, reason: str) -> None:
        """Record a rejection of a `decidable` row."""
        await self.record(row, "rejected", decided_by=principal.name, digest=row.digest, reason=reason)

    async def record(
        self, row: ReviewRow, state: str, *, decided_by: str = "", digest: str = "", reason: str = ""
    ) -> None:
        """Append the review's new state and forget the parked arguments where it was the last."""
        await self._log.append(
            ReviewRecord(
                time_us=now_us(),
                review_id=row.review_id,
                session_id=row.session_id,
                call_id=row.call_id,
                state=state,
                decided_by=decided_by,
                digest=digest,
                reason=reason,
                changes=self.view(row).changes if state == "approved" else 0,
            )
        )
        if state not in ("approved", "seconded"):
            self._store.unpark(row.review_id)
        async with self._recorded:
            self._recorded.notify_all()

    def changed(self) -> None:
        """A call was parked: its expiry is to be watched."""
        self._changed.set()

    async def next_expired(self) -> ReviewRow:
        """The waiting review that expires next, when it does."""
        return await next_due(self.waiting, self._changed)


def wait_of(row: ReviewRow) -> Waited:
    """The review as its call's trace shows it."""
    return Waited(review_id=row.review_id, since_us=row.created_us, state=row.state)


def rejected(row: ReviewRow, reason: str) -> Outcome:
    """The outcome of a call whose review was rejected; the reason reaches the agent."""
    detail = reason or "a reviewer rejected the call without giving a reason"
    return Outcome(kind=OutcomeKind.REVIEW_REJECTED, detail=f"{row.review_id}: {detail}")


def expired(row: ReviewRow) -> Outcome:
    """The outcome of a call that nobody decided on in time, or of a permit that was not fetched in time."""
    why = "the permit was not fetched" if row.state == "approved" else "nobody decided"
    return Outcome(kind=OutcomeKind.REVIEW_EXPIRED, detail=f"{row.review_id}: {why} before it expired")
