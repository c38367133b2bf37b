"""Sandboxes as their owners ask for them: made where policy allows it, leased, paused and deleted.

An object of another principal is reported as not found, so that ids tell nothing. Labels, leases and states are records
of the log; what became of a sandbox without being asked for is upkeep.py's.
"""

import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Final, Literal

import msgspec

from opensafe.config import Caps
from opensafe.errors import (
    Conflict,
    Denied,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    SandboxError,
    SandboxLost,
    SandboxPaused,
)
from opensafe.model.calls import Principal
from opensafe.model.decision import Action
from opensafe.model.ids import new_id, now_us
from opensafe.model.limits import SandboxLimits
from opensafe.model.records import SandboxRecord
from opensafe.model.sandbox import GATEWAY, NO_NETWORK, Name, SandboxSpec
from opensafe.state.rows import SandboxRow, SessionRow
from opensafe.state.store import Store
from opensafe.telemetry import semconv
from opensafe.telemetry.spans import Tracing
from opensafe.warden.client import WardenClient

from .changes import Changes
from .judge import Ask, Judge, Judged
from .refusals import Refusals
from .removals import Removals
from .sessions import Sessions

_REMEDY: Final = "Make one with CreateSandbox."

_LabelKey = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}\Z")]
_LabelValue = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f]*\Z", max_length=256)]
Labels = Annotated[dict[_LabelKey, _LabelValue], msgspec.Meta(max_length=16)]
_Seconds = Annotated[int, msgspec.Meta(ge=0, le=31_536_000)]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox as it is asked for. network: None for what this site has. ttl_s: 0 for as long as the site allows.
    idle_timeout_s: 0 for never.
    """

    template: Name = "base"
    network: Name | None = None
    limits: SandboxLimits = SandboxLimits()
    labels: Labels = {}
    ttl_s: _Seconds = 0
    idle_timeout_s: _Seconds = 0
    idle_action: Literal["pause", "delete"] = "delete"
    require_warm: bool = False


class MadeSandbox(msgspec.Struct, frozen=True, kw_only=True):
    """A fresh sandbox, the verdict that allowed it, and the time the warden took. warm, claim_ns: as in SandboxMade."""

    row: SandboxRow
    judged: Judged
    create_ns: int
    warm: bool = False
    claim_ns: int = 0


class Sandboxes:
    """Every change is a record. All raise NotFound for what is not the principal's."""

    def __init__(
        self,
        judge: Judge,
        store: Store,
        sessions: Sessions,
        changes: Changes,
        removals: Removals,
        refusals: Refusals,
        warden: WardenClient,
        tracing: Tracing,
        caps: Caps,
        *,
        way_out: bool = False,
    ) -> None:
        """way_out: sandboxes have one, unless they are asked for without."""
        self._judge = judge
        self._store = store
        self._sessions = sessions
        self._changes = changes
        self._removals = removals
        self._refusals = refusals
        self._warden = warden
        self._tracing = tracing
        self._caps = caps
        self._networks = (GATEWAY, NO_NETWORK) if way_out else (NO_NETWORK,)
        #: Ids of those that are being made; one of them may be in the index already.
        self._making: set[str] = set()

    async def make(
        self,
        principal: Principal,
        session_id: str,
        wanted: Wanted,
        carrier: Mapping[str, str] = {},
    ) -> MadeSandbox:
        """Judge, record, make. carrier: the client's trace context.

        Raises Denied with the rules where policy says no, SandboxStartFailed, NoWarmSandbox.
        """
        arrived = time.monotonic_ns()
        sandbox_id = new_id("sb")
        async with self._noted(principal, "CreateSandbox", session_id):
            session = self._sessions.require(principal, session_id)
            ttl_s = self._ttl(wanted.ttl_s)
            network = self._network(wanted.network)
            self._admit()
            self._making.add(sandbox_id)
        try:
            spec = SandboxSpec(
                sandbox_id=sandbox_id,
                template=wanted.template,
                image_digest=await self._warden.find_image(wanted.template),
                network=network,
                limits=wanted.limits,
            )
            with self._tracing.tool("sandbox.create", session_id, session.trace_id, spec.sandbox_id, carrier):
                judged = await self._judge.judge(
                    Ask(purpose="sandbox", principal=principal, session=session, spec=spec, arrived_ns=arrived)
                )
                if judged.action is not Action.ALLOW:
                    raise _refused(judged)
                with self._tracing.child(semconv.SPAN_SANDBOX_CREATE, **{semconv.SANDBOX_ID: spec.sandbox_id}) as span:
                    made = await self._warden.create_sandbox(spec, judged.record, require_warm=wanted.require_warm)
                    span.set_attribute(semconv.SANDBOX_WARM, made.warm)
            await self._changes.write(_made(session, spec, wanted, ttl_s))
        finally:
            self._making.discard(sandbox_id)
        row, now = self._store.sandbox(spec.sandbox_id), self._store.session(session_id)
        if row is None:
            raise SandboxError("the sandbox was made and not recorded", value=spec.sandbox_id)
        if now is None or now.closed:
            await self._removals.begin(row.sandbox_id, "session closed")
            raise NotFound("the session was closed meanwhile", value=session_id)
        return MadeSandbox(row=row, judged=judged, create_ns=made.create_ns, warm=made.warm, claim_ns=made.claim_ns)

    def find(self, principal: Principal, sandbox_id: str) -> SandboxRow:
        """One that is not deleted, whatever else its state."""
        row = self._store.sandbox(sandbox_id)
        if row is None or row.principal != principal.name:
            raise NotFound("no such sandbox", value=sandbox_id, remedy=_REMEDY)
        if row.state == "deleted":
            raise NotFound(f"the sandbox is deleted ({row.cause})", value=sandbox_id, remedy=_REMEDY)
        return row

    def require(self, principal: Principal, sandbox_id: str) -> SandboxRow:
        """One in which a call can run. Raises SandboxPaused, SandboxLost with the cause, Conflict."""
        row = self.find(principal, sandbox_id)
        match row.state:
            case "paused":
                raise SandboxPaused(
                    f"the sandbox is paused ({row.cause})",
                    value=sandbox_id,
                    remedy="Resume it (opensafe sandbox resume), then send the call under a new call_id.",
                )
            case "lost":
                raise SandboxLost(f"the sandbox is lost ({row.cause})", value=sandbox_id, remedy=_REMEDY)
            case "deleting":
                raise Conflict(f"the sandbox is being deleted ({row.cause})", value=sandbox_id, remedy=_REMEDY)
        return row

    async def renew(self, principal: Principal, sandbox_id: str, ttl_s: int) -> SandboxRow:
        """Let it live `ttl_s` seconds from now (0: as long as the site allows). Raises LimitExceeded, Conflict."""
        async with self._noted(principal, f"RenewSandbox {sandbox_id}"):
            if ttl_s < 0:
                raise InvalidArgument("ttl_s is negative", value=ttl_s)
            until = now_us() + self._ttl(ttl_s) * 10**6
            self.find(principal, sandbox_id)
            async with self._changes.turn(sandbox_id) as row:
                _must_live(row)
                return await self._changes.record(row, row.state, expires_us=until)

    async def pause(self, principal: Principal, sandbox_id: str) -> SandboxRow:
        """Stop its guest; deadlines of calls go on. One that is paused stays so. Raises Conflict, SandboxLost."""
        async with self._noted(principal, f"PauseSandbox {sandbox_id}"):
            return await self._turn_to(principal, sandbox_id, "paused")

    async def resume(self, principal: Principal, sandbox_id: str) -> SandboxRow:
        """Let its guest go on; one that runs goes on. Raises Conflict, SandboxLost."""
        async with self._noted(principal, f"ResumeSandbox {sandbox_id}"):
            return await self._turn_to(principal, sandbox_id, "running")

    async def delete(self, principal: Principal, sandbox_id: str, *, wait: bool) -> None:
        """Returns when the wish is on record; with `wait` when it is removed. Raises SandboxError where it could not be
        at once: it goes on being tried.
        """
        async with self._noted(principal, f"DeleteSandbox {sandbox_id}"):
            self.find(principal, sandbox_id)
        await self._removals.begin(sandbox_id, "asked")
        if wait:
            await self._removals.tried(sandbox_id)

    async def remove_of(self, session_id: str) -> None:
        """Remove what the closed session has."""
        rows = self._store.sandboxes.of_session(session_id)
        for row in rows:
            await self._removals.begin(row.sandbox_id, "session closed")
        for row in rows:
            await self._removals.tried(row.sandbox_id)

    async def _turn_to(self, principal: Principal, sandbox_id: str, state: str) -> SandboxRow:
        self.find(principal, sandbox_id)
        async with self._changes.turn(sandbox_id) as row:
            _must_live(row)
            if row.state == state:
                return row
            if state == "paused":
                await self._warden.pause_sandbox(sandbox_id)
            else:
                await self._warden.resume_sandbox(sandbox_id)
            return await self._changes.record(row, state, "asked")

    def _noted(self, principal: Principal, request: str, session_id: str = "") -> AbstractAsyncContextManager[None]:
        return self._refusals.noted(principal.name, session_id=session_id, request=request)

    def _network(self, asked: str | None) -> str:
        """The profile's name. Raises InvalidArgument."""
        network = self._networks[0] if asked is None else asked
        if network not in self._networks:
            raise InvalidArgument(
                "there is no such network profile",
                value=network,
                limit=", ".join(self._networks),
                remedy="The site's operator sets egress.enabled." if network == GATEWAY else "Name one of these.",
            )
        return network

    def _ttl(self, asked_s: int) -> int:
        most = self._caps.sandbox_ttl_s
        if asked_s > most:
            raise LimitExceeded(
                "no sandbox lives so long",
                value=f"{asked_s} s",
                limit=f"caps.sandbox_ttl_s = {most}",
                remedy="Ask for less, and renew it in time.",
            )
        return asked_s or most

    def _admit(self) -> None:
        count = self._store.sandboxes.count() + sum(self._store.sandbox(one) is None for one in self._making)
        if count >= self._caps.sandboxes:
            raise LimitExceeded(
                "too many sandboxes",
                value=count,
                limit=f"caps.sandboxes = {self._caps.sandboxes}",
                remedy="Delete sandboxes that are done.",
            )


def _made(session: SessionRow, spec: SandboxSpec, wanted: Wanted, ttl_s: int) -> SandboxRecord:
    now = now_us()
    return SandboxRecord(
        time_us=now,
        sandbox_id=spec.sandbox_id,
        session_id=session.session_id,
        principal=session.principal,
        state="running",
        cause="asked",
        expires_us=now + ttl_s * 10**6,
        template=spec.template,
        image_digest=spec.image_digest,
        network=spec.network,
        limits=spec.limits,
        labels=wanted.labels,
        idle_timeout_s=wanted.idle_timeout_s,
        idle_action=wanted.idle_action if wanted.idle_timeout_s else "",
    )


def _must_live(row: SandboxRow) -> None:
    match row.state:
        case "lost":
            raise SandboxLost(f"the sandbox is lost ({row.cause})", value=row.sandbox_id, remedy=_REMEDY)
        case "deleting" | "deleted":
            raise Conflict(f"the sandbox is {row.state} ({row.cause})", value=row.sandbox_id, remedy=_REMEDY)


def _refused(judged: Judged) -> Denied:
    hits = judged.verdict.decision.deciding()
    reasons = "; ".join(f"{hit.id}: {hit.reason}" for hit in hits)
    remedy = " ".join(hit.remedy for hit in hits if hit.remedy)
    return Denied(
        f"policy does not allow this sandbox ({reasons})",
        value=hits[0].value if hits else judged.verdict.decision_id,
        remedy=remedy,
        rules=hits,
    )
