"""Permits for tools that run elsewhere: judged like any call, good for one run, for a while.

A permit consumes what a run would consume when it is given, not when it is used. One that is never finished ends as
lost, because nobody knows what its tool did.
"""

import asyncio
import re
import time
from typing import Final

from opensafe.audit.log import AuditLog
from opensafe.config import Caps
from opensafe.errors import Conflict, InvalidArgument, NotFound
from opensafe.model.calls import Principal
from opensafe.model.ids import is_call_id, now_us
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.records import OutcomeRecord
from opensafe.state.rows import CallRow
from opensafe.state.store import Store
from opensafe.telemetry.spans import Tracing

from .expiry import next_due
from .history import used_by
from .judge import Ask, Judge, Judged
from .refusals import Flow, Refusals
from .sessions import Sessions

#: How a tool elsewhere may have ended.
REPORTABLE: Final = frozenset({OutcomeKind.EXITED, OutcomeKind.SIGNALLED, OutcomeKind.CANCELLED, OutcomeKind.LOST})
_DIGEST: Final = re.compile(r"[A-Za-z0-9:+/=_.-]{0,128}")


class Permits:
    """Begin, finish, expire."""

    def __init__(
        self,
        judge: Judge,
        log: AuditLog,
        store: Store,
        sessions: Sessions,
        refusals: Refusals,
        tracing: Tracing,
        caps: Caps,
        flow: Flow,
    ) -> None:
        self._judge = judge
        self._log = log
        self._store = store
        self._sessions = sessions
        self._refusals = refusals
        self._tracing = tracing
        self._caps = caps
        self._flow = flow
        self._busy: set[str] = set()
        self._changed = asyncio.Event()

    async def begin(
        self,
        principal: Principal,
        session_id: str,
        call_id: str,
        tool: str,
        arguments_json: bytes,
        *,
        description_digest: str = "",
        pinned_digest: str = "",
    ) -> Judged:
        """Judge the call; `permit` is set where it is allowed. A used call_id raises Conflict: permits run once.

        description_digest, pinned_digest: of the tool's description as the client was shown it, and as it was approved.
        """
        arrived = time.monotonic_ns()
        async with self._refusals.noted(
            principal.name, session_id=session_id, call_id=call_id, tool=tool, request="Begin"
        ):
            session = self._sessions.require(principal, session_id)
            if not is_call_id(call_id):
                raise InvalidArgument("call_id is not well formed", value=call_id)
            for digest in (description_digest, pinned_digest):
                if not _DIGEST.fullmatch(digest):
                    raise InvalidArgument(
                        "a digest of a description is not well formed",
                        value=digest[:80],
                        limit="128 letters, digits and signs of base64",
                    )
            self._flow.take(principal.name, len(arguments_json))
            call = self._judge.registry.validate(call_id, tool, arguments_json, self._caps.arguments_bytes)
            key = f"{session_id}/{call_id}"
            if self._store.call(session_id, call_id) is not None or key in self._busy:
                raise Conflict("the call_id is used", value=call_id, remedy="Choose a fresh call_id.")
        self._busy.add(key)
        try:
            with self._tracing.tool(tool, session_id, session.trace_id, call_id, {}):
                judged = await self._judge.judge(
                    Ask(
                        purpose="permit",
                        principal=principal,
                        session=session,
                        call=call,
                        description_digest=description_digest,
                        pinned_digest=pinned_digest,
                        arrived_ns=arrived,
                    )
                )
        finally:
            self._busy.discard(key)
        self._changed.set()
        return judged

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
