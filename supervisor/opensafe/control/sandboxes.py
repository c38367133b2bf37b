"""Sandboxes: made where policy allows it, looked up by their owner only, removed with their session.

An object of another principal is reported as not found, so that ids tell nothing.
"""

import contextlib
import time

import msgspec

from opensafe.audit.log import AuditLog
from opensafe.config import Caps
from opensafe.errors import InvalidArgument, LimitExceeded, NotFound, NotPermitted, SandboxError
from opensafe.model.calls import Principal
from opensafe.model.decision import Action
from opensafe.model.ids import new_id, now_us
from opensafe.model.limits import SandboxLimits
from opensafe.model.records import SandboxRecord
from opensafe.model.sandbox import SandboxSpec
from opensafe.state.rows import SandboxRow, SessionRow
from opensafe.state.store import Store
from opensafe.telemetry import semconv
from opensafe.telemetry.spans import Tracing
from opensafe.warden.client import WardenClient
from opensafe.warden.protocol import SandboxState

from .judge import Ask, Judge, Judged
from .sessions import Sessions


class MadeSandbox(msgspec.Struct, frozen=True, kw_only=True):
    """A fresh sandbox, the verdict that allowed it, and the time the warden took."""

    row: SandboxRow
    judged: Judged
    create_ns: int


class Sandboxes:
    """Makes, finds and removes sandboxes. Every change is a record."""

    def __init__(
        self,
        judge: Judge,
        log: AuditLog,
        store: Store,
        sessions: Sessions,
        warden: WardenClient,
        tracing: Tracing,
        caps: Caps,
    ) -> None:
        self._judge = judge
        self._log = log
        self._store = store
        self._sessions = sessions
        self._warden = warden
        self._tracing = tracing
        self._caps = caps
        self._making = 0

    async def make(self, principal: Principal, session_id: str, template: str, limits: SandboxLimits) -> MadeSandbox:
        """Judge, record, make. Raises NotPermitted with the rules where policy says no, SandboxStartFailed."""
        arrived = time.monotonic_ns()
        session = self._sessions.require(principal, session_id)
        try:
            spec = msgspec.convert(
                {"sandbox_id": new_id("sb"), "template": template or "base", "limits": msgspec.to_builtins(limits)},
                SandboxSpec,
            )
        except msgspec.ValidationError as error:
            raise InvalidArgument(f"sandbox: {error}", value=template) from error
        count = len(self._store.sandboxes()) + self._making
        if count >= self._caps.sandboxes:
            raise LimitExceeded(
                "too many sandboxes",
                value=count,
                limit=f"caps.sandboxes = {self._caps.sandboxes}",
                remedy="Delete sandboxes that are done.",
            )
        self._making += 1
        try:
            with self._tracing.tool("sandbox.create", session_id, session.trace_id, spec.sandbox_id, {}):
                judged = await self._judge.judge(
                    Ask(purpose="sandbox", principal=principal, session=session, spec=spec, arrived_ns=arrived)
                )
                if judged.action is not Action.ALLOW:
                    raise _refused(judged)
                with self._tracing.child(semconv.SPAN_SANDBOX_CREATE, **{semconv.SANDBOX_ID: spec.sandbox_id}):
                    made = await self._warden.create_sandbox(spec, judged.record)
            await self._record(spec.sandbox_id, session, "running", spec)
        finally:
            self._making -= 1
        row, now = self._store.sandbox(spec.sandbox_id), self._store.session(session_id)
        if row is None:
            raise SandboxError("the sandbox was made and not recorded", value=spec.sandbox_id)
        if now is None or now.closed:
            await self._delete(row, "deleted")
            raise NotFound("the session was closed meanwhile", value=session_id)
        return MadeSandbox(row=row, judged=judged, create_ns=made.create_ns)

    def require(self, principal: Principal, sandbox_id: str) -> SandboxRow:
        """The principal's sandbox, running or lost. Raises NotFound."""
        row = self._store.sandbox(sandbox_id)
        if row is None or row.principal != principal.name or row.ended is not None:
            cause = f" ({row.ended})" if row is not None and row.principal == principal.name else ""
            raise NotFound(f"no such sandbox{cause}", value=sandbox_id, remedy="Make one with CreateSandbox.")
        return row

    async def states(self, principal: Principal) -> list[tuple[SandboxRow, SandboxState | None]]:
        """The principal's sandboxes with what the warden says of each (None: it knows it no more)."""
        seen = {state.sandbox_id: state for state in await self._warden.list_sandboxes()}
        return [(row, seen.get(row.sandbox_id)) for row in self._store.sandboxes(principal=principal.name)]

    async def delete(self, principal: Principal, sandbox_id: str) -> None:
        """End and remove a sandbox. Raises NotFound."""
        await self._delete(self.require(principal, sandbox_id), "deleted")

    async def remove_of(self, session_id: str) -> None:
        """End and remove what the closed session has."""
        for row in self._store.sandboxes(session_id=session_id):
            await self._delete(row, "deleted")

    async def reconcile(self) -> None:
        """After a start: agree with the warden on what lives. Neither keeps what the other doesn't know."""
        states = await self._warden.list_sandboxes()
        alive = {state.sandbox_id for state in states if state.state == "running"}
        known = {row.sandbox_id: row for row in self._store.sandboxes()}
        for sandbox_id in sorted(known.keys() - alive):
            session = self._store.session(known[sandbox_id].session_id)
            if session is not None:
                await self._record(sandbox_id, session, "lost: ended while the daemon was away")
        for row in self._store.sandboxes():
            session = self._store.session(row.session_id)
            if session is None or session.closed:
                await self._delete(row, "deleted")
        for state in states:
            if state.sandbox_id not in known or state.sandbox_id not in alive:
                with contextlib.suppress(NotFound):
                    await self._warden.delete_sandbox(state.sandbox_id)

    async def end_all(self) -> None:
        """The daemon stops, and with it every sandbox: put that on record."""
        for row in self._store.sandboxes():
            session = self._store.session(row.session_id)
            if session is not None:
                await self._record(row.sandbox_id, session, "daemon stopped")

    async def _delete(self, row: SandboxRow, cause: str) -> None:
        with contextlib.suppress(NotFound):  # gone already, which is what was wanted
            await self._warden.delete_sandbox(row.sandbox_id)
        current = self._store.sandbox(row.sandbox_id)
        if current is None or current.ended is not None:
            return
        session = self._store.session(row.session_id)
        if session is not None:
            await self._record(row.sandbox_id, session, cause)

    async def _record(self, sandbox_id: str, session: SessionRow, state: str, spec: SandboxSpec | None = None) -> None:
        await self._log.append(
            SandboxRecord(
                time_us=now_us(),
                sandbox_id=sandbox_id,
                session_id=session.session_id,
                principal=session.principal,
                state=state,
                template=spec.template if spec else "",
                limits=spec.limits if spec else None,
            )
        )


def _refused(judged: Judged) -> NotPermitted:
    hits = judged.verdict.decision.deciding()
    reasons = "; ".join(f"{hit.id}: {hit.reason}" for hit in hits)
    remedy = " ".join(hit.remedy for hit in hits if hit.remedy)
    return NotPermitted(
        f"policy does not allow this sandbox ({reasons})", value=judged.verdict.decision_id, remedy=remedy
    )
