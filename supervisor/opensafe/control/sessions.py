"""Sessions: made by the daemon, looked up by their owner only.

An object of another principal is reported as not found, so that ids tell nothing.
"""

from collections.abc import Mapping
from typing import Final

from opensafe.audit.log import AuditLog
from opensafe.config import Caps
from opensafe.errors import InvalidArgument, LimitExceeded, NotFound
from opensafe.model.calls import Principal
from opensafe.model.ids import new_id, now_us
from opensafe.model.records import SessionRecord, UsageRecord
from opensafe.model.usage import Limits, Usage
from opensafe.state.rows import SessionRow
from opensafe.state.store import Store
from opensafe.telemetry.spans import Tracing

from .refusals import Pace, Refusals

_TEXT_MAX: Final = 128
_REPORT_MAX: Final = 10**9


class Sessions:
    """Opens, finds and closes sessions. Every change is a record first."""

    def __init__(self, log: AuditLog, store: Store, refusals: Refusals, tracing: Tracing, caps: Caps) -> None:
        self._log = log
        self._store = store
        self._refusals = refusals
        self._tracing = tracing
        self._caps = caps
        self._reports = Pace(caps.usage_reports_per_s)

    async def open(
        self,
        principal: Principal,
        agent: str,
        conversation_id: str,
        carrier: Mapping[str, str],
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> str:
        """Make a session, with ceilings of its own beside the site's. Returns its id.

        Raises LimitExceeded, InvalidArgument.
        """
        async with self._refusals.noted(principal.name, request="CreateSession"):
            _check_text("agent", agent)
            _check_text("conversation_id", conversation_id)
            self._admit(principal)
        session_id = new_id("ses")
        trace_id = self._tracing.begin_session(session_id, agent, conversation_id, carrier)
        await self._log.append(
            SessionRecord(
                time_us=now_us(),
                session_id=session_id,
                principal=principal.name,
                state="open",
                agent=agent,
                conversation_id=conversation_id,
                trace_id=trace_id,
                limits=limits,
            )
        )
        return session_id

    async def report_usage(
        self, principal: Principal, session_id: str, tokens: int, cost_microusd: int, written: int | None = None
    ) -> Usage:
        """Add what a client declares; returns the session's totals. Raises NotFound, InvalidArgument, LimitExceeded.

        written: how many of the tokens the model wrote, for the trace alone.
        """
        async with self._refusals.noted(principal.name, session_id=session_id, request="ReportUsage"):
            self._take_report(principal, session_id, tokens, cost_microusd, written)
        usage = Usage(tokens=tokens, cost_microusd=cost_microusd)
        await self._log.append(
            UsageRecord(time_us=now_us(), session_id=session_id, principal=principal.name, usage=usage)
        )
        self._tracing.add_usage(session_id, tokens, written, cost_microusd)
        row = self._store.session(session_id)
        return row.usage if row is not None else usage

    def require(self, principal: Principal, session_id: str) -> SessionRow:
        """The principal's open session. Raises NotFound."""
        row = self._store.session(session_id)
        if row is None or row.principal != principal.name or row.closed:
            raise NotFound("no such open session", value=session_id, remedy="Make one with CreateSession.")
        return row

    async def close(self, principal: Principal, session_id: str) -> None:
        """Take nothing more for the session. Its calls and its sandboxes are then for others to end."""
        async with self._refusals.noted(principal.name, session_id=session_id, request="CloseSession"):
            self.require(principal, session_id)
        await self._log.append(
            SessionRecord(time_us=now_us(), session_id=session_id, principal=principal.name, state="closed")
        )

    def ended(self, session_id: str) -> None:
        """All that the closed session held has ended, too: so does its span, as the last one below it."""
        self._tracing.end_session(session_id)

    def _admit(self, principal: Principal) -> None:
        limit, count = self._caps.sessions_per_principal, self._store.open_sessions(principal.name)
        if count >= limit:
            raise LimitExceeded(
                "too many open sessions",
                value=count,
                limit=f"caps.sessions_per_principal = {limit}",
                remedy="Close sessions that are done.",
            )

    def _take_report(
        self, principal: Principal, session_id: str, tokens: int, cost_microusd: int, written: int | None
    ) -> None:
        self.require(principal, session_id)
        if not (0 <= tokens <= _REPORT_MAX and 0 <= cost_microusd <= _REPORT_MAX and tokens + cost_microusd > 0):
            raise InvalidArgument(
                "a report adds tokens, cost or both",
                value=f"{tokens} tokens, {cost_microusd} millionths of a dollar",
                limit=f"0 to {_REPORT_MAX} each",
            )
        if written is not None and not 0 <= written <= tokens:
            raise InvalidArgument("the model wrote some of the tokens", value=written, limit=f"0 to {tokens}")
        if not self._reports.allows(principal.name):
            raise LimitExceeded(
                "too many usage reports within a second",
                limit=f"caps.usage_reports_per_s = {self._reports.limit}",
                remedy="Add them up and report once.",
            )


def _check_text(field: str, text: str) -> None:
    if len(text) > _TEXT_MAX or not text.isprintable():
        raise InvalidArgument(
            f"{field} must be printable text", value=text, limit=f"{_TEXT_MAX} characters", remedy="Shorten it."
        )
