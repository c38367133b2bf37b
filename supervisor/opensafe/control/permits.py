"""Permits for tools that run elsewhere: judged like any call, good for one run, for a while.

    begin ─► judge ──► allow  ─► permit ─► finish, or lost
               ├─► review ─► parked ─► approved ─► begin again: judged again ─► permit, once
               └─► block

A permit consumes what a run would consume when it is given, not when it is used. One that is never finished ends as
lost, because nobody knows what its tool did. A parked one keeps no arguments: whoever fetches it sends the same again.
"""

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from typing import Final

import msgspec

from opensafe.audit.log import AuditLog
from opensafe.config import Caps
from opensafe.errors import Conflict, InvalidArgument, NotFound
from opensafe.model.calls import Principal, ToolCall
from opensafe.model.decision import Action
from opensafe.model.ids import is_call_id, now_us
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.records import OutcomeRecord
from opensafe.state.rows import CallRow, ReviewRow, SessionRow
from opensafe.state.store import Store
from opensafe.telemetry.spans import Tracing

from .approved import Approved, approval
from .expiry import next_due
from .history import used_by
from .judge import Ask, Judge, Judged, Verdict, check_digests
from .refusals import Flow, Refusals
from .reviews import Reviews, wait_of
from .sessions import Sessions

#: How a tool elsewhere may have ended.
REPORTABLE: Final = frozenset({OutcomeKind.EXITED, OutcomeKind.SIGNALLED, OutcomeKind.CANCELLED, OutcomeKind.LOST})


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A call for which a permit is wanted.

    description_digest, pinned_digest: of the tool's description as the client was shown it, and as it was approved.
    carrier: the client's trace context.
    """

    session_id: str
    call_id: str
    tool: str
    arguments_json: bytes
    description_digest: str = ""
    pinned_digest: str = ""
    carrier: dict[str, str] = {}


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. permit: "" unless the verdict allows. outcome: how a parked call ended without a permit."""

    verdict: Verdict
    permit: str = ""
    expires_us: int = 0
    outcome: Outcome | None = None


class Permits:
    """Begin, finish, expire."""

    def __init__(
        self,
        judge: Judge,
        log: AuditLog,
        store: Store,
        sessions: Sessions,
        reviews: Reviews,
        approved: Approved,
        refusals: Refusals,
        tracing: Tracing,
        caps: Caps,
        flow: Flow,
    ) -> None:
        self._judge = judge
        self._log = log
        self._store = store
        self._sessions = sessions
        self._reviews = reviews
        self._approved = approved
        self._refusals = refusals
        self._tracing = tracing
        self._caps = caps
        self._flow = flow
        self._busy: set[str] = set()
        self._changed = asyncio.Event()

    # ── begin ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, principal: Principal, request: Request, gone: asyncio.Event | None = None) -> Begun:
        """Judge the call, or fetch what came of its review. Raises RequestError; Conflict for a call_id that is used.

        gone: where it is given and the call is parked, wait for the reviewers until it is set.
        """
        arrived = time.monotonic_ns()
        key = f"{request.session_id}/{request.call_id}"
        async with self._noted(principal, request):
            session, call = self._admit(principal, request)
            known = self._known(request, call, key)
        if known is not None:
            begun = await self._fetch(principal, request, call, known)
        else:
            self._busy.add(key)
            try:
                begun = _begun(await self._ask(principal, session, call, request, arrived_ns=arrived))
            finally:
                self._busy.discard(key)
            self._changed.set()
            self._reviews.changed()
        review_id = begun.verdict.review_id
        waits = gone is not None and begun.outcome is None and not begun.permit and review_id
        if gone is not None and waits and await self._reviews.decided(review_id, gone):
            return await self._fetch(principal, request, call, review_id)
        return begun

    async def _fetch(self, principal: Principal, request: Request, call: ToolCall, review_id: str) -> Begun:
        """What came of the review: nothing yet, an end, or, once, the permit."""
        arrived = time.monotonic_ns()
        async with self._noted(principal, request), self._reviews.turn(review_id):
            row, review = self._store.call(request.session_id, request.call_id), self._reviews.require(review_id)
            if row is None or row.review_id != review_id:
                raise _used(request)
            verdict = Verdict(
                decision_id=row.decision_id, decision=row.decision, revision=row.revision, review_id=review_id
            )
            if row.outcome is not None:
                return Begun(verdict=verdict, outcome=row.outcome)
            if review.state == "pending":
                return Begun(verdict=verdict)
            if now_us() >= review.expires_us:
                raise Conflict("the approval has expired", value=review_id, remedy="Begin the call anew.")
            # Since it was read the session may have been closed, and the tool changed.
            session = self._sessions.require(principal, request.session_id)
            call = self._judge.registry.reopen(call.call_id, call.tool, call.sealed)
            judged = await self._ask(principal, session, call, request, arrived_ns=arrived, approved=review)
            self._changed.set()
            if judged.action is not Action.REVIEW:
                return _begun(judged)
            outcome = await self._approved.denied(review, judged.verdict)
            await self._end(self._store.call(row.session_id, row.call_id) or row, outcome)
            return Begun(verdict=judged.verdict, outcome=outcome)

    def _admit(self, principal: Principal, request: Request) -> tuple[SessionRow, ToolCall]:
        session = self._sessions.require(principal, request.session_id)
        if not is_call_id(request.call_id):
            raise InvalidArgument("call_id is not well formed", value=request.call_id)
        check_digests(request.description_digest, request.pinned_digest)
        self._flow.take(principal.name, len(request.arguments_json))
        call = self._judge.registry.validate(
            request.call_id, request.tool, request.arguments_json, self._caps.arguments_bytes
        )
        user = self._judge.registry.user(call)
        if user:
            raise InvalidArgument(
                "a user can be asked for where we run the call, and not where you do",
                value=user,
                remedy="Leave the argument out; whom it runs as there is yours to see to.",
            )
        return session, call

    def _known(self, request: Request, call: ToolCall, key: str) -> str | None:
        """The review under which this very request is parked; None for a new one."""
        row = self._store.call(request.session_id, request.call_id)
        if key in self._busy or (row is not None and not (row.purpose == "permit" and row.review_id)):
            raise _used(request)
        if row is None:
            self._reviews.admit(0)
            return None
        shown = self._reviews.require(row.review_id).described
        if (row.digest, shown) != (call.digest, request.description_digest):
            raise Conflict(
                "the call_id was used for another request",
                value=request.call_id,
                remedy="Choose a fresh call_id for it.",
            )
        return row.review_id

    async def _ask(
        self,
        principal: Principal,
        session: SessionRow,
        call: ToolCall,
        request: Request,
        *,
        arrived_ns: int,
        approved: ReviewRow | None = None,
    ) -> Judged:
        over = wait_of(approved) if approved is not None else None
        with self._tracing.tool(call.tool, session.session_id, session.trace_id, call.call_id, request.carrier, over):
            return await self._judge.judge(
                Ask(
                    purpose="permit",
                    principal=principal,
                    session=session,
                    call=call,
                    description_digest=request.description_digest,
                    pinned_digest=request.pinned_digest,
                    approval=approval(approved) if approved is not None else None,
                    arrived_ns=arrived_ns,
                )
            )

    def _noted(self, principal: Principal, request: Request) -> AbstractAsyncContextManager[None]:
        return self._refusals.noted(
            principal.name, session_id=request.session_id, call_id=request.call_id, tool=request.tool, request="Begin"
        )

    # ── finish and expire ────────────────────────────────────────────────────────────────────────────────────────

    async def finish(self, principal: Principal, session_id: str, permit: str, outcome: Outcome) -> None:
        """Use `permit` up. Raises NotFound (foreign or unknown), Conflict (used or expired), InvalidArgument."""
        async with self._refusals.noted(principal.name, session_id=session_id, request=f"Finish {permit}"):
            if outcome.kind not in REPORTABLE:
                raise InvalidArgument(
                    "a run elsewhere can't have ended so", value=outcome.kind, limit=sorted(REPORTABLE)
                )
            row = self._store.permit(permit)
            if row is None or row.session_id != session_id:
                raise NotFound("no such permit in this session", value=permit)
            self._sessions.require(principal, session_id)
            if row.outcome is not None or permit in self._busy or now_us() >= row.expires_us:
                raise Conflict("the permit is used up or expired", value=permit, remedy="Begin the call anew.")
        await self._end(row, outcome)

    async def watch_expiry(self) -> None:
        """End permits that expire; runs until cancelled."""
        while True:
            row = await next_due(self._waiting, self._changed)
            await self._end(row, Outcome(kind=OutcomeKind.LOST, detail="the permit expired"))

    def _waiting(self) -> list[CallRow]:
        return [row for row in self._store.unfinished() if row.permit and row.permit not in self._busy]

    async def _end(self, row: CallRow, outcome: Outcome) -> None:
        self._busy.add(row.permit)
        try:
            await self._log.append(
                OutcomeRecord(
                    time_us=now_us(),
                    decision_id=row.decision_id,
                    session_id=row.session_id,
                    call_id=row.call_id,
                    outcome=outcome,
                    usage=used_by(row, outcome),
                )
            )
        finally:
            self._busy.discard(row.permit)
            self._changed.set()


def _begun(judged: Judged) -> Begun:
    return Begun(verdict=judged.verdict, permit=judged.permit, expires_us=judged.expires_us if judged.permit else 0)


def _used(request: Request) -> Conflict:
    return Conflict("the call_id is used", value=request.call_id, remedy="Choose a fresh call_id.")
