"""The spine: the way of a call, from a request to a recorded outcome.

    submit ─► validate ─► judge ──► allow  ─► execute ─► outcome
                            │   ├─► review ─► park ─── desk: approve ─► judge again
                            │   └─► block
                            └─ the decision is durable before anything else happens

Every way out is an outcome or a typed error, and every failure ends in *not executed*. A call that was judged once
is never run twice: a repeat attaches to the first (`control/live.py`), and after a restart the log knows it.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

import structlog

from opensafe.audit.log import AuditLog, Written
from opensafe.config import Caps
from opensafe.control.calls import Calls
from opensafe.control.history import used_by
from opensafe.control.judge import Ask, Judge, Judged, Verdict, check_digests
from opensafe.control.live import LiveCall, LiveCalls, Submission
from opensafe.control.refusals import Flow, Refusals
from opensafe.control.reviews import VOIDED, Reviews, wait_of
from opensafe.control.sandboxes import Sandboxes
from opensafe.control.sessions import Sessions
from opensafe.errors import (
    AuditError,
    Conflict,
    InvalidArgument,
    LimitExceeded,
    OpenSafeError,
    SandboxLost,
    Unavailable,
)
from opensafe.execution.journal import Journal
from opensafe.execution.run import Execution, Stdin
from opensafe.model.calls import Principal, ToolCall
from opensafe.model.decision import Action
from opensafe.model.ids import CALL_ID_MAX, is_call_id, now_us
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.policy_input import ApprovalInput, SandboxInput
from opensafe.model.records import OutcomeRecord
from opensafe.model.sandbox import Asked, User
from opensafe.normalize.file_tools import FILE_HELPER
from opensafe.normalize.site_tools import elsewhere
from opensafe.state.rows import CallRow, ReviewRow
from opensafe.state.store import Store
from opensafe.telemetry import semconv
from opensafe.telemetry.content import READ, describe_content
from opensafe.telemetry.spans import Ids, Tracing, Waited, describe_outcome
from opensafe.warden.client import WardenClient

#: Arguments of all open calls together, in bytes.
_ARGUMENTS_UNDER_WAY: Final = 256 << 20

_log = structlog.get_logger()


class Gate:
    """Carries calls through. Owns the tasks of calls under way; `drain` ends them all."""

    def __init__(
        self,
        judge: Judge,
        log: AuditLog,
        store: Store,
        sessions: Sessions,
        sandboxes: Sandboxes,
        reviews: Reviews,
        refusals: Refusals,
        warden: WardenClient,
        tracing: Tracing,
        caps: Caps,
        principals: Mapping[str, Principal],
        flow: Flow,
    ) -> None:
        self._judge = judge
        self._log = log
        self._store = store
        self._sessions = sessions
        self._sandboxes = sandboxes
        self._reviews = reviews
        self._refusals = refusals
        self._warden = warden
        self._tracing = tracing
        self._caps = caps
        self._principals = principals
        self._flow = flow
        self.live = LiveCalls(caps.retained_output_s)
        self.calls = Calls(sessions, store, self.live)
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False

    # ── the way of a call ────────────────────────────────────────────────────────────────────────────────────────

    def noted(
        self, principal: Principal, *, session_id: str = "", call_id: str = "", tool: str = "", request: str = ""
    ) -> AbstractAsyncContextManager[None]:
        """Around what is refused before it comes to the gate: RequestError raised within is on record."""
        return self._refusals.noted(principal.name, session_id=session_id, call_id=call_id, tool=tool, request=request)

    async def submit(self, submission: Submission) -> LiveCall:
        """Take a call in, or attach to the one already known under its id. Raises RequestError, Unavailable."""
        if self._draining:
            raise Unavailable("the daemon is stopping", remedy="Repeat with the same call_id once it is back.")
        async with self._noted_call(submission):
            session = self._sessions.require(submission.principal, submission.session_id)
            call = self._validate(submission)
            known = self._known(submission, call)
            if known is not None:
                return known
            self._sandboxes.require(submission.principal, submission.sandbox_id)
            self._admit(submission, call)
            self._flow.take(submission.principal.name, len(submission.arguments_json))
        live = LiveCall(submission, call, self._stdin(submission, call), self._journal())
        self.live.add(live)
        self._spawn(self._carry(live, session.trace_id), f"call-{call.call_id}")
        return live

    def attach(self, principal: Principal, session_id: str, call_id: str = "", *, tag: str = "") -> LiveCall:
        """A call that was judged, running or not: by its id, or else the open or latest one of a tag.

        Raises NotFound, and Unavailable where its end is not on record.
        """
        self._sessions.require(principal, session_id)
        live = self.live.get((session_id, call_id)) if call_id else self.live.tagged(session_id, tag)
        if live is not None:
            return live
        row = self.calls.find(principal, session_id, call_id, tag=tag)
        review = self._store.review(row.review_id) if row.outcome is None and row.review_id else None
        if review is not None:
            return self.parked(review)
        submission = Submission(
            principal=principal,
            session_id=session_id,
            sandbox_id=row.sandbox_id,
            call_id=row.call_id,
            tool=row.tool,
            arguments_json=b"",
            asked=row.asked,
            arrived_ns=time.monotonic_ns(),
        )
        call = ToolCall(call_id=row.call_id, tool=row.tool, arguments={}, sealed={}, digest=row.digest)
        return self.live.get((session_id, row.call_id)) or self._restore(submission, call, row)

    async def _carry(self, live: LiveCall, trace_id: str, approval: ApprovalInput | None = None) -> None:
        submission, call = live.submission, live.call
        waited = self._waited(approval.id) if approval is not None else None
        with self._tracing.tool(
            call.tool, submission.session_id, trace_id, call.call_id, submission.carrier, waited
        ) as span:
            try:
                user = await self._user(live)
                judged = self._judge.decide(self._ask(live, approval, user))
                outcome = await self._act(live, judged, approval)
                self._judge.ended(live.key, outcome)  # before anybody hears of the end
                describe_outcome(span, outcome)
                if self._tracing.capture_content:
                    describe_content(span, call.sealed, live.journal.head(READ) if outcome.exit_code == 0 else None)
                if outcome.kind is not OutcomeKind.REVIEW_PENDING:
                    await self._conclude(live, judged.verdict, outcome)
            except OpenSafeError as error:
                await self._abandon(live, error)
            except Exception:  # noqa: BLE001 - a fault of ours must end this call and no other
                _log.exception("a call failed inside the daemon", call_id=call.call_id)
                await self._abandon(live, OpenSafeError("the daemon failed on this call", remedy="See its log."))

    async def _act(self, live: LiveCall, judged: Judged, approval: ApprovalInput | None) -> Outcome:
        if judged.action is Action.ALLOW:
            return await self._execute(live, judged)
        if judged.action is Action.REVIEW and approval is None:
            return await self._park(live, judged)
        judged = await self._judge.settled(judged, live.submission.arrived_ns)
        void = approval if judged.action is Action.REVIEW else None
        row = self._store.review(void.id) if void is not None else None
        if void is not None and row is not None:
            await self._reviews.record(row, "void", decided_by=void.approver, reason=VOIDED)
        live.decided(judged.verdict)
        return Outcome(kind=OutcomeKind.BLOCKED, detail=VOIDED if void is not None else "")

    async def _execute(self, live: LiveCall, judged: Judged) -> Outcome:
        if judged.launch is None:
            raise SandboxLost("an allowed call has nothing to run", value=judged.verdict.decision_id)
        execution = Execution(self._warden, judged.launch, judged.record, live.journal)
        live.begin(execution)
        ids = {semconv.SANDBOX_ID: judged.launch.sandbox_id, semconv.EXEC_ID: execution.exec_id}
        with (
            self._tracing.child(_run_name(judged.launch.program.argv), **ids) as span,
            self._tracing.egress.below(execution.exec_id, span),
        ):
            # The warden waits for the disk as well, so the way to it and the disk's own time pass side by side.
            running = asyncio.create_task(execution.run(live.stdin), name=f"run-{execution.exec_id}")
            try:
                live.decided((await self._judge.settled(judged, live.submission.arrived_ns)).verdict)
            except AuditError as error:
                execution.cancel(str(error))
                raise
            finally:
                outcome = await running
            describe_outcome(span, outcome)
        return outcome

    async def _park(self, live: LiveCall, judged: Judged) -> Outcome:
        review_id = judged.verdict.review_id
        with self._tracing.child(semconv.SPAN_REVIEW, **{semconv.REVIEW_ID: review_id}):
            # The index shows the review as soon as it is written: who would decide on it waits until it is parked.
            async with self._reviews.turn(review_id):
                judged = await self._judge.settled(judged, live.submission.arrived_ns)
                self._store.park(review_id, live.submission.arguments_json)
                live.park(judged.verdict)
            self._reviews.changed()
        return Outcome(kind=OutcomeKind.REVIEW_PENDING, detail=review_id)

    async def _conclude(self, live: LiveCall, verdict: Verdict, outcome: Outcome) -> None:
        # A block without detail is complete with its decision record.
        written = None
        if outcome != Outcome(kind=OutcomeKind.BLOCKED):
            written = self._write_outcome(live.key, verdict.decision_id, outcome, verdict.trace_id)
        # Nobody waits for the disk here: a power cut now makes the call lost on record, never one that did not run.
        live.finish(outcome)
        self.live.done(live)
        if written is not None:
            await self._log.sync(written)

    async def _abandon(self, live: LiveCall, error: OpenSafeError) -> None:
        """End a call that can't go on. One that was decided gets an outcome; another may be sent again."""
        self._judge.ended(live.key, None)
        row = self._store.call(*live.key)
        if row is not None and row.outcome is None and self._log.failure is None:
            outcome = Outcome(kind=OutcomeKind.LOST, detail=str(error))
            await self._record_outcome(live.key, row.decision_id, outcome, "")
        self.live.drop(live)
        live.fail(error)

    # ── judging without running ──────────────────────────────────────────────────────────────────────────────────

    async def decide(
        self,
        principal: Principal,
        session_id: str,
        tool: str,
        arguments_json: bytes,
        *,
        description_digest: str = "",
        pinned_digest: str = "",
        carrier: Mapping[str, str] = {},
    ) -> Verdict:
        """What policy would say now. Recorded, runs nothing, consumes nothing. Raises RequestError, as recorded.

        description_digest, pinned_digest: as in permits.Request.
        """
        arrived = time.monotonic_ns()
        async with self.noted(principal, session_id=session_id, tool=tool, request="Decide"):
            session = self._sessions.require(principal, session_id)
            self._flow.take(principal.name, len(arguments_json))
            call = self._judge.registry.validate("query", tool, arguments_json, self._caps.arguments_bytes)
            check_digests(description_digest, pinned_digest)
            named = self._judge.registry.user(call)
            user = await self._warden.find_user(named) if named else None
        with self._tracing.tool(tool, session_id, session.trace_id, "query", carrier):
            judged = await self._judge.judge(
                Ask(
                    purpose="query",
                    principal=principal,
                    session=session,
                    call=call,
                    user=user,
                    description_digest=description_digest,
                    pinned_digest=pinned_digest,
                    arrived_ns=arrived,
                )
            )
        return judged.verdict

    # ── parked calls, for the desk ───────────────────────────────────────────────────────────────────────────────

    def parked(self, row: ReviewRow) -> LiveCall:
        """The parked call of a review, restored where this run has not seen it. Raises Conflict."""
        live = self.live.get((row.session_id, row.call_id))
        if live is not None:
            return live
        arguments, principal = self._store.parked(row.review_id), self._principals.get(row.principal)
        if arguments is None or principal is None:
            raise Conflict(
                "the parked arguments or their principal are gone",
                value=row.review_id,
                remedy="The agent must send the call again.",
            )
        call = self._store.call(row.session_id, row.call_id)
        submission = Submission(
            principal=principal,
            session_id=row.session_id,
            sandbox_id=row.sandbox_id,
            call_id=row.call_id,
            tool=row.tool,
            arguments_json=arguments,
            asked=call.asked if call is not None else Asked(),
            arrived_ns=time.monotonic_ns(),
        )
        return self._restore(submission, self._validate(submission))

    def resume(self, live: LiveCall, approval: ApprovalInput, trace_id: str) -> None:
        """Judge an approved call again, and run it where policy still lets it."""
        live.reconsider()
        self._spawn(self._carry(live, trace_id, approval), f"approved-{live.call.call_id}")

    async def end_parked(self, row: ReviewRow, outcome: Outcome) -> None:
        """End the parked call without running it. Held by whoever has the review's turn."""
        call, session = self._store.call(row.session_id, row.call_id), self._store.session(row.session_id)
        trace_id, waited = session.trace_id if session else "", self._waited(row.review_id)
        known = self.live.get((row.session_id, row.call_id))
        carrier = known.submission.carrier if known is not None else {}
        with self._tracing.tool(row.tool, row.session_id, trace_id, row.call_id, carrier, waited) as span:
            describe_outcome(span, outcome)
            trace_id = Ids(span).trace_id
        await self._record_outcome((row.session_id, row.call_id), call.decision_id if call else "", outcome, trace_id)
        live = self.live.get((row.session_id, row.call_id))
        if live is not None:
            live.finish(outcome)
            self.live.done(live)

    def cancel(self, covers: Callable[[str], bool], why: str) -> list[LiveCall]:
        """Cancel what runs in the sessions that `covers` names; the calls, which end soon."""
        running = [live for live in self.live.running() if covers(live.submission.session_id)]
        for live in running:
            live.cancel(why)
        return running

    # ── start and stop ───────────────────────────────────────────────────────────────────────────────────────────

    async def recover(self) -> int:
        """End calls that an earlier run left without outcome; parked ones and live permits stay. Returns how many."""
        lost = 0
        for row in self._store.unfinished():
            review = self._store.review(row.review_id) if row.review_id else None
            if (review is not None and review.waits) or (row.permit and now_us() < row.expires_us):
                continue
            detail = "the permit expired" if row.permit else "the daemon ended while the call was under way"
            outcome = Outcome(kind=OutcomeKind.LOST, detail=detail)
            await self._record_outcome((row.session_id, row.call_id), row.decision_id, outcome, "")
            lost += 1
        return lost

    async def drain(self, grace_s: float) -> None:
        """Take no more calls, let running ones end for `grace_s` seconds, then cancel them and wait."""
        self._draining = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for live in self.live.running():
            live.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.live.close()

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _validate(self, submission: Submission) -> ToolCall:
        if not is_call_id(submission.call_id):
            raise InvalidArgument(
                "call_id must be letters, digits, '.', '_', ':' or '-'",
                value=submission.call_id,
                limit=f"1 to {CALL_ID_MAX} characters",
            )
        registry = self._judge.registry
        if registry.spec(submission.tool).elsewhere:
            raise elsewhere(submission.tool)
        return registry.validate(
            submission.call_id, submission.tool, submission.arguments_json, self._caps.arguments_bytes
        )

    def _known(self, submission: Submission, call: ToolCall) -> LiveCall | None:
        live = self.live.get((submission.session_id, submission.call_id))
        if live is not None:
            _same_request(live.call.digest, live.submission.sandbox_id, call, submission)
            return live
        row = self._store.call(submission.session_id, submission.call_id)
        if row is None:
            return None
        if row.purpose == "permit":
            raise Conflict("the call_id belongs to a permit", value=submission.call_id)
        _same_request(row.digest, row.sandbox_id, call, submission)
        return self._restore(submission, call, row)

    def _restore(self, submission: Submission, call: ToolCall, row: CallRow | None = None) -> LiveCall:
        row = row or self._store.call(submission.session_id, submission.call_id)
        if row is None:
            raise Conflict("the call is not on record", value=submission.call_id)
        verdict = Verdict(
            decision_id=row.decision_id, decision=row.decision, revision=row.revision, review_id=row.review_id
        )
        if row.outcome is None and not row.review_id:
            raise Unavailable(
                "the call was decided and its end is not on record",
                value=row.call_id,
                remedy="It does not run again; a restart of the daemon records it as lost.",
            )
        if row.outcome is None:
            live = LiveCall(submission, call, Stdin.of(self._judge.registry.stdin(call)), self._journal())
            live.park(verdict)
            self.live.add(live)
        else:
            gone = Journal.gone(row.outcome.stdout_bytes + row.outcome.stderr_bytes)
            live = LiveCall(submission, call, Stdin.of(None), gone)
            live.decided(verdict)
            live.finish(row.outcome)
        return live

    def _admit(self, submission: Submission, call: ToolCall) -> None:
        under_way = len(self.live.running())  # not the tasks: one still lives for a moment when its outcome is out
        if under_way >= self._caps.running_calls:
            raise LimitExceeded(
                "too many calls at once",
                value=under_way,
                limit=f"caps.running_calls = {self._caps.running_calls}",
            )
        tag = submission.asked.tag
        if self.live.tagged(submission.session_id, tag) is not None:
            raise Conflict(
                "the tag belongs to a call that has not ended", value=tag, remedy="Choose another, or attach to it."
            )
        held = self.live.argument_bytes + len(submission.arguments_json)
        if held > _ARGUMENTS_UNDER_WAY:
            raise LimitExceeded(
                "calls under way hold too many bytes of arguments", value=held, limit=_ARGUMENTS_UNDER_WAY
            )
        if submission.stdin and self._judge.registry.stdin(call) is not None:
            raise InvalidArgument(
                "the tool feeds standard input itself", value=call.tool, remedy="Send it without stdin."
            )
        self._reviews.admit(len(submission.arguments_json))

    def _stdin(self, submission: Submission, call: ToolCall) -> Stdin:
        return Stdin() if submission.stdin else Stdin.of(self._judge.registry.stdin(call))

    def _journal(self) -> Journal:
        return Journal(self._caps.retained_output_bytes)

    async def _user(self, live: LiveCall) -> User | None:
        """Who has the name in the sandbox's image that the call asks to run as, if it does. Raises RequestError, as
        recorded.
        """
        named = self._judge.registry.user(live.call)
        if not named:
            return None
        async with self._noted_call(live.submission):
            return await self._warden.find_user(named, live.submission.sandbox_id)

    def _noted_call(self, submission: Submission) -> AbstractAsyncContextManager[None]:
        return self.noted(
            submission.principal, session_id=submission.session_id, call_id=submission.call_id, tool=submission.tool
        )

    def _ask(self, live: LiveCall, approval: ApprovalInput | None, user: User | None) -> Ask:
        submission = live.submission
        session = self._sessions.require(submission.principal, submission.session_id)
        sandbox = self._sandboxes.require(submission.principal, submission.sandbox_id)
        return Ask(
            purpose="call",
            principal=submission.principal,
            session=session,
            call=live.call,
            stdin=submission.stdin,
            asked=submission.asked,
            user=user,
            sandbox=SandboxInput(id=sandbox.sandbox_id, template=sandbox.template),
            approval=approval,
            arrived_ns=submission.arrived_ns,
        )

    async def _record_outcome(self, key: tuple[str, str], decision_id: str, outcome: Outcome, trace_id: str) -> None:
        written = self._write_outcome(key, decision_id, outcome, trace_id)
        if written is not None:
            await self._log.sync(written)

    def _write_outcome(self, key: tuple[str, str], decision_id: str, outcome: Outcome, trace_id: str) -> Written | None:
        row = self._store.call(*key)
        if row is not None and row.outcome is not None and row.outcome.kind is not OutcomeKind.BLOCKED:
            _log.error("a call would end twice", call_id=key[1], had=str(row.outcome.kind), now=str(outcome.kind))
            return None
        return self._log.write(
            OutcomeRecord(
                time_us=now_us(),
                decision_id=decision_id,
                session_id=key[0],
                call_id=key[1],
                outcome=outcome,
                trace_id=trace_id,
                usage=used_by(row, outcome),
            )
        )

    def _waited(self, review_id: str) -> Waited | None:
        row = self._store.review(review_id)
        return wait_of(row) if row is not None else None

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _run_name(program: tuple[str, ...]) -> str:
    return f"{semconv.SPAN_FILE}{program[1]}" if program[0] == FILE_HELPER else semconv.SPAN_SANDBOX_EXEC


def _same_request(digest: str, sandbox_id: str, call: ToolCall, submission: Submission) -> None:
    if digest != call.digest or sandbox_id != submission.sandbox_id:
        raise Conflict(
            "the call_id was used for another request", value=call.call_id, remedy="Choose a fresh call_id for it."
        )
