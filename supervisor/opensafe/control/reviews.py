"""Parked calls and the rules for deciding on them.

An approval is for one exact call: the digest shown to the reviewer must be the digest that is parked. It is given by
a principal with the role `reviewer` who did not ask for the call, before it expires, once. What an approved call then
does is the gate's business: it is judged again with the approval as a fact.
"""

import asyncio
from typing import Final

from opensafe.audit.log import AuditLog
from opensafe.config import Caps
from opensafe.errors import Conflict, LimitExceeded, NotFound, NotPermitted
from opensafe.model.calls import Principal
from opensafe.model.ids import now_us
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.records import ReviewRecord
from opensafe.state.rows import ReviewRow
from opensafe.state.store import Store

REVIEWER: Final = "reviewer"
#: Full arguments kept for all parked calls together, in bytes.
PARKED_BYTES: Final = 64 << 20


class Reviews:
    """The queue, as it stands in the index."""

    def __init__(self, log: AuditLog, store: Store, caps: Caps) -> None:
        self._log = log
        self._store = store
        self._caps = caps
        self._deciding: set[str] = set()
        self._changed = asyncio.Event()

    def admit(self, size: int) -> None:
        """Raises LimitExceeded where one more parked call of `size` bytes would not fit."""
        pending = self._store.pending_reviews()
        if pending >= self._caps.parked_reviews:
            raise LimitExceeded(
                "too many calls wait for review",
                value=pending,
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

    def of_session(self, session_id: str) -> list[ReviewRow]:
        """The session's pending reviews."""
        return [row for row in self._store.reviews(everything=False) if row.session_id == session_id]

    def decidable(self, principal: Principal, review_id: str) -> ReviewRow:
        """The pending review that `principal` may decide on. Raises NotPermitted, NotFound, Conflict."""
        if REVIEWER not in principal.roles:
            raise NotPermitted(
                "deciding on reviews needs a role",
                value=", ".join(principal.roles),
                limit=REVIEWER,
                remedy="Use the socket of a principal with that role.",
            )
        row = self.find(principal, review_id)
        if row.principal == principal.name:
            raise NotPermitted("nobody decides on a call of their own", value=principal.name)
        if row.state != "pending" or review_id in self._deciding:
            raise Conflict("the review is decided", value=row.state, limit="pending")
        if now_us() >= row.expires_us:
            raise Conflict("the review has expired", value=review_id, remedy="The agent must send the call again.")
        return row

    async def decide(self, principal: Principal, row: ReviewRow, state: str, digest: str, reason: str) -> None:
        """Record the verdict `state` (approved or rejected) on a `decidable` row; it takes effect once."""
        self._deciding.add(row.review_id)
        try:
            await self.record(row, state, decided_by=principal.name, digest=digest, reason=reason)
        finally:
            self._deciding.discard(row.review_id)

    async def record(
        self, row: ReviewRow, state: str, *, decided_by: str = "", digest: str = "", reason: str = ""
    ) -> None:
        """Append the review's new state and forget the parked arguments."""
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
            )
        )
        if state != "approved":
            self._store.unpark(row.review_id)

    def changed(self) -> None:
        """A call was parked: its expiry is to be watched."""
        self._changed.set()

    async def next_expired(self) -> ReviewRow:
        """The pending review that expires next, when it does."""
        while True:
            self._changed.clear()
            pending = [row for row in self._store.reviews(everything=False) if row.review_id not in self._deciding]
            first = min(pending, key=lambda row: row.expires_us, default=None)
            wait_s = None if first is None else (first.expires_us - now_us()) / 1e6
            if first is not None and wait_s is not None and wait_s <= 0:
                return first
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue


def rejected(row: ReviewRow, reason: str) -> Outcome:
    """The outcome of a call whose review was rejected; the reason reaches the agent."""
    detail = reason or "a reviewer rejected the call without giving a reason"
    return Outcome(kind=OutcomeKind.REVIEW_REJECTED, detail=f"{row.review_id}: {detail}")


def expired(row: ReviewRow) -> Outcome:
    """The outcome of a call that nobody decided on in time."""
    return Outcome(kind=OutcomeKind.REVIEW_EXPIRED, detail=f"{row.review_id}: nobody decided before it expired")
