"""One judgement: facts, question, evaluation, record. Used by everything that needs a verdict.

A verdict that could not be reached is a block. What an allow authorises is built here, before the record, so that
its digest stands in it; the same frozen object is what runs.
"""

import re
import time
from typing import Final

import msgspec

from opensafe.audit.log import AuditLog, Written
from opensafe.errors import InvalidArgument, PolicyError, RequestError
from opensafe.model.calls import Principal, ToolCall
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.history import effects_of
from opensafe.model.ids import new_id, now_us
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.policy_input import ApprovalInput, CallInput, PolicyInput, SandboxInput, SessionInput
from opensafe.model.records import Bundle, DecisionRecord
from opensafe.model.sandbox import Asked, Launch, SandboxSpec, User
from opensafe.model.written import NOTHING_LEFT, Left
from opensafe.normalize.tools import Registry
from opensafe.policy.engine import Engine
from opensafe.policy.subject import build_launch, call_input
from opensafe.state.rows import SessionRow
from opensafe.telemetry import semconv
from opensafe.telemetry.spans import Ids, Tracing, describe_decision
from opensafe.warden.protocol import RecordRef

from .history import History

#: What a failed evaluation or an unbuildable program is blocked by.
FAILED_RULE: Final = "default.deny"
SANDBOX_ENTRYPOINT: Final = "gate/sandbox"
CANARY_ENTRYPOINT: Final = "gate/canary"
_DIGEST: Final = re.compile(r"[A-Za-z0-9:+/=_.-]{0,128}")


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be judged. `call` for a tool call, `spec` for a sandbox; exactly one of them.

    purpose: `call`, `permit`, `query` or `sandbox`, as in DecisionRecord. stdin: the client streams standard input.
    asked: what it asks of the run. user: who has the name in the image that the call asks to run as.
    description_digest, pinned_digest: what the client states of the tool's description, as in CallInput.
    arrived_ns: time.monotonic_ns().
    """

    purpose: str
    principal: Principal
    session: SessionRow
    call: ToolCall | None = None
    stdin: bool = False
    asked: Asked = Asked()
    user: User | None = None
    description_digest: str = ""
    pinned_digest: str = ""
    spec: SandboxSpec | None = None
    sandbox: SandboxInput = SandboxInput()
    approval: ApprovalInput | None = None
    arrived_ns: int


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is told of a decision. Times are 0 where the decision was read back from the index."""

    decision_id: str
    decision: Decision
    revision: str
    review_id: str = ""
    trace_id: str = ""
    evaluation_ns: int = 0
    decision_ns: int = 0


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded verdict. `launch` is what an allowed call runs, `written` its record."""

    verdict: Verdict
    written: Written
    launch: Launch | None
    permit: str
    expires_us: int

    @property
    def action(self) -> Action:
        """What policy said."""
        return self.verdict.decision.action

    @property
    def record(self) -> RecordRef:
        """Where the warden finds the verdict."""
        written = self.written
        return RecordRef(segment=written.segment, offset=written.offset, length=len(written.line), leaf=written.leaf)


class Judge:
    """Holds the engine in force, the log and the past. engine, bundle: what judges now."""

    def __init__(
        self,
        engine: Engine,
        bundle: Bundle,
        log: AuditLog,
        history: History,
        tracing: Tracing,
        review_ttl_s: int,
        permit_ttl_s: int,
    ) -> None:
        self.bundle = bundle
        self.engine = engine
        self._log = log
        self._history = history
        self._tracing = tracing
        self._review_ttl_us = review_ttl_s * 10**6
        self._permit_ttl_us = permit_ttl_s * 10**6

    @property
    def registry(self) -> Registry:
        """The tools of the bundle in force, its own and the built-in ones."""
        return self.engine.registry

    def enforce(self, engine: Engine, bundle: Bundle) -> None:
        """Judge by this engine from the next call on. Nobody asks the one before any more: no evaluation awaits."""
        self.engine, self.bundle = engine, bundle

    def in_force(self, revision: str) -> bool:
        """Whether what judges calls answers for `revision`: the canary's question, on the way that calls take."""
        call = msgspec.structs.replace(_NO_CALL, arguments={"revision": revision})
        asked = PolicyInput(
            id=new_id("dec"), kind="call", call=call, principal=Principal(name="canary"), session=SessionInput(id="")
        )
        decision = self._evaluate(CANARY_ENTRYPOINT, asked)
        return decision.action is Action.ALLOW and decision.data_version == revision

    async def judge(self, ask: Ask) -> Judged:
        """Decide, and return when the record is on disk. Raises AuditError: then nothing may come of it."""
        return await self.settled(self.decide(ask), ask.arrived_ns)

    async def settled(self, judged: Judged, arrived_ns: int) -> Judged:
        """The same, when its record is on disk. Raises AuditError."""
        await self._log.sync(judged.written)
        taken = time.monotonic_ns() - arrived_ns
        return msgspec.structs.replace(judged, verdict=msgspec.structs.replace(judged.verdict, decision_ns=taken))

    def decide(self, ask: Ask) -> Judged:
        """Decide and write the record. Nothing of the verdict may reach anybody but the warden before `settled`.

        The warden, too, starts nothing before the record is on disk. Raises AuditError.
        """
        bundle = self.bundle
        decision_id = new_id("dec")
        entrypoint = self._entrypoint(ask)
        with self._tracing.child(semconv.SPAN_POLICY, **{semconv.ENTRYPOINT: entrypoint}) as span:
            question, left = self._question(ask, decision_id)
            begun = time.perf_counter_ns()
            decision = self._evaluate(entrypoint, question)
            evaluation_ns = time.perf_counter_ns() - begun
            decision, launch, subject = self._authorise(ask, decision)
            if launch is not None and ask.call is not None:
                self._history.written.learn((ask.session.session_id, ask.call.call_id), decision_id, left)
            describe_decision(span, decision, decision_id, bundle.revision)
            ids = Ids(span)
            now = now_us()
            parked = ask.purpose in ("call", "permit") and decision.action is Action.REVIEW and ask.approval is None
            permitted = ask.purpose == "permit" and decision.action is Action.ALLOW
            review_id = new_id("rev") if parked else ""
            permit = new_id("permit") if permitted else ""
            lifetime = self._review_ttl_us if parked else self._permit_ttl_us if permitted else 0
            record = DecisionRecord(
                time_us=now,
                decision_id=decision_id,
                purpose=ask.purpose,
                principal=ask.principal.name,
                session_id=ask.session.session_id,
                call_id=ask.call.call_id if ask.call else "",
                sandbox_id=question.sandbox.id,
                exec_id=launch.exec_id if launch else "",
                bundles={"opensafe": bundle},
                path=f"opensafe/{entrypoint}",
                input=question,
                result=decision,
                subject=subject,
                metrics={"timer_rego_query_eval_ns": evaluation_ns},
                trace_id=ids.trace_id,
                span_id=ids.span_id,
                review_id=review_id,
                permit=permit,
                expires_us=now + lifetime if lifetime else 0,
                effects=effects_of(question.call),
            )
            written = self._log.write(record)
        return Judged(
            verdict=Verdict(
                decision_id=decision_id,
                decision=decision,
                revision=bundle.revision,
                review_id=review_id,
                trace_id=ids.trace_id,
                evaluation_ns=evaluation_ns,
            ),
            written=written,
            launch=launch,
            permit=permit,
            expires_us=now + lifetime if lifetime else 0,
        )

    def _entrypoint(self, ask: Ask) -> str:
        return self.registry.entrypoint(ask.call.tool) if ask.call else SANDBOX_ENTRYPOINT

    def ended(self, key: tuple[str, str], outcome: Outcome | None) -> None:
        """A call that may have been allowed ended. What it wrote holds where its program said so."""
        well = outcome is not None and outcome.kind is OutcomeKind.EXITED and outcome.exit_code == 0
        self._history.written.ended(key, well=well)

    def _question(self, ask: Ask, decision_id: str) -> tuple[PolicyInput, Left]:
        call, sandbox = ask.call, ask.sandbox
        if ask.spec is not None:
            sandbox = msgspec.structs.replace(
                sandbox,
                id=ask.spec.sandbox_id,
                template=ask.spec.template,
                image_digest=ask.spec.image_digest,
                network=ask.spec.network,
                limits=ask.spec.limits,
            )
        asked, left = self._call(call, ask) if call else (_NO_CALL, NOTHING_LEFT)
        session, budget = self._history.of(ask.session, ask.sandbox.id, (host.name for host in asked.hosts))
        question = PolicyInput(
            id=decision_id,
            kind="call" if call else "sandbox",
            call=asked,
            principal=ask.principal,
            session=session,
            budget=budget,
            sandbox=sandbox,
            approval=ask.approval,
        )
        return question, left

    def _call(self, call: ToolCall, ask: Ask) -> tuple[CallInput, Left]:
        before = self._history.written.of(ask.session.session_id)
        facts, left = self.registry.read(call, self.engine.tables, ask.user, before)
        asked = call_input(
            call,
            facts,
            self.registry.spec(call.tool),
            stdin=ask.stdin,
            asked=ask.asked,
            user=ask.user,
            description_digest=ask.description_digest,
            pinned_digest=ask.pinned_digest,
        )
        return asked, left

    def _evaluate(self, entrypoint: str, question: PolicyInput) -> Decision:
        try:
            return self.engine.evaluate(entrypoint, question)
        except PolicyError as error:
            return blocked(question.id, f"policy reached no verdict: {error}")

    def _authorise(self, ask: Ask, decision: Decision) -> tuple[Decision, Launch | None, str]:
        if decision.action is not Action.ALLOW:
            return decision, None, ""
        if ask.spec is not None:
            return decision, None, ask.spec.subject_digest()
        if ask.purpose != "call" or ask.call is None:
            return decision, None, ""
        try:
            launch = build_launch(
                self.registry, ask.call, decision.grant, ask.sandbox.id, new_id("exec"), ask.asked, ask.user
            )
        except (RequestError, ValueError) as error:
            return blocked(decision.id, f"the grant does not cover the call: {error}"), None, ""
        return decision, launch, launch.subject_digest()


def check_digests(*stated: str) -> None:
    """Digests as a client states them. Raises InvalidArgument."""
    for digest in stated:
        if not _DIGEST.fullmatch(digest):
            raise InvalidArgument(
                "a digest of a description is not well formed",
                value=digest[:80],
                limit="128 letters, digits and signs of base64",
            )


def blocked(question_id: str, why: str) -> Decision:
    """The verdict where there is none."""
    hit = RuleHit(
        id=FAILED_RULE,
        severity=Severity.HIGH,
        action=Action.BLOCK,
        reason=why,
        remedy="Send the call again; if it happens again, tell the operator: the daemon's log has the cause.",
    )
    return Decision(action=Action.BLOCK, rules=(hit,), grant=Grant(), id=question_id, data_version="")


_NO_CALL: Final = CallInput(id="", tool="", arguments={}, digest="")
