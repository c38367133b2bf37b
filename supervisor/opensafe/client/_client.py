"""The client itself: one connection to one principal's socket, one method an operation of the daemon.

Every method raises what `opensafe.errors` names: RequestError where the request can't be served, Unavailable
where the daemon is not there or goes away, and the platform's own failures. Nothing is sent twice: only the caller
knows whether a call_id was used.
"""

import os
import pathlib
import urllib.parse
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self

import grpc

from opensafe._proto.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    audit_pb2,
    audit_pb2_grpc,
    exec_pb2,
    exec_pb2_grpc,
    policy_pb2,
    policy_pb2_grpc,
    review_pb2,
    review_pb2_grpc,
    sandbox_pb2,
    sandbox_pb2_grpc,
    session_pb2,
    session_pb2_grpc,
)
from opensafe.errors import InvalidArgument
from opensafe.model.explanation import Explanation
from opensafe.model.outcome import Outcome
from opensafe.model.sandbox import Terminal
from opensafe.model.shadow import Candidate, ShadowReport
from opensafe.model.usage import Limits, Usage

from . import _exec_wire, _policy, _sandboxes, _wire
from ._calls import Call, Link, Stdin, encode_arguments
from ._collect import collect
from ._discovery import MAX_PATH_BYTES
from ._events import CallResult
from ._failures import Answer, ask, stream
from ._files import Files
from ._types import (
    AuditRecord,
    Ban,
    BanEffect,
    BundleSettled,
    CallInfo,
    CallPage,
    CreatedSandbox,
    DaemonStatus,
    Lease,
    Permit,
    Review,
    RunLimits,
    Sandbox,
    SandboxPage,
    SandboxSize,
    Verdict,
)

#: Bytes of each stream that `run_call` keeps.
KEPT_OUTPUT: Final = 1 << 20
#: Largest message accepted from the daemon, in bytes: a record holds its call's arguments, which may be 4 MiB.
MAX_MESSAGE: Final = 16 << 20

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class Client:
    """A connection. Use it as an asynchronous context manager; all methods belong to one event loop."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    @classmethod
    def connect(cls, socket_path: str | pathlib.Path) -> Self:
        """A client of the daemon behind `socket_path`. The connection is made by the first request.

        Raises InvalidArgument for a path that no socket can have.
        """
        path = pathlib.Path(socket_path).absolute()
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            raise InvalidArgument("the socket's path is too long", value=path, limit=f"{MAX_PATH_BYTES} bytes")
        return cls(path)

    async def __aenter__(self) -> Self:
        address = urllib.parse.quote(os.fsencode(self._path))  # gRPC reads it as part of a URI
        self._channel = grpc.aio.insecure_channel(f"unix:{address}", options=_OPTIONS)
        self._sessions = session_pb2_grpc.SessionServiceStub(self._channel)
        self._sandboxes = sandbox_pb2_grpc.SandboxServiceStub(self._channel)
        self._exec = exec_pb2_grpc.ExecServiceStub(self._channel)
        self._link = Link(self._channel, self._exec, self._path)
        self._policy = policy_pb2_grpc.PolicyServiceStub(self._channel)
        self._reviews = review_pb2_grpc.ReviewServiceStub(self._channel)
        self._agents = agent_pb2_grpc.AgentServiceStub(self._channel)
        self._audit = audit_pb2_grpc.AuditServiceStub(self._channel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    # Sessions and sandboxes

    async def create_session(
        self,
        agent: str,
        conversation_id: str = "",
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> str:
        """A new session's id. `agent` and `conversation_id` stand in traces and identify nobody.

        limits: ceilings of this session alone; the site's hold as well, so these can only be tighter.
        """
        request = session_pb2.CreateSessionRequest(
            agent=agent, conversation_id=conversation_id, limits=_wire.budget_message(limits)
        )
        return (await self._ask(self._sessions.CreateSession(request))).session_id

    async def close_session(self, session_id: str) -> None:
        """End a session, its running calls and its sandboxes."""
        await self._ask(self._sessions.CloseSession(session_pb2.CloseSessionRequest(session_id=session_id)))

    async def report_usage(
        self, session_id: str, *, tokens: int = 0, cost_microusd: int = 0, output_tokens: int | None = None
    ) -> Usage:
        """Declare what the daemon can't see (cost in millionths of a dollar). Returns the session's totals of both.

        It only ever adds; at most 10^9 of each a report. output_tokens: how many of the tokens the model wrote, for the
        trace. Raises InvalidArgument, LimitExceeded.
        """
        request = session_pb2.ReportUsageRequest(
            session_id=session_id, tokens=tokens, cost_microusd=cost_microusd, output_tokens=output_tokens
        )
        total = await self._ask(self._sessions.ReportUsage(request))
        return Usage(tokens=total.tokens, cost_microusd=total.cost_microusd)

    async def create_sandbox(
        self,
        session_id: str,
        template: str = "",
        size: SandboxSize = SandboxSize(),  # noqa: B008 - frozen
        *,
        labels: Mapping[str, str] = {},
        lease: Lease = Lease(),  # noqa: B008 - frozen
        network: str = "",
        require_warm: bool = False,
    ) -> CreatedSandbox:
        """Make a sandbox of a runner image ("" is `base`). Policy judges the request: NotPermitted is its no.

        labels: at most 16, for lists. network: a profile, of which there is only `none` so far. require_warm: one out
        of the pool or none, which is NoWarmSandbox. Raises LimitExceeded, SandboxStartFailed.
        """
        request = _sandboxes.create_request(
            session_id, template, size, labels, lease, network, require_warm=require_warm
        )
        answer = await self._ask(self._sandboxes.CreateSandbox(request))
        return CreatedSandbox(
            sandbox=_sandboxes.sandbox(answer.sandbox),
            verdict=_wire.verdict(answer.decision),
            create_ns=answer.create_ns,
            warm=answer.warm,
            claim_ns=answer.claim_ns,
        )

    async def get_sandbox(self, sandbox_id: str) -> Sandbox:
        """One sandbox of this principal. Raises NotFound, also for one that is deleted."""
        request = sandbox_pb2.GetSandboxRequest(sandbox_id=sandbox_id)
        return _sandboxes.sandbox((await self._ask(self._sandboxes.GetSandbox(request))).sandbox)

    async def list_sandboxes(
        self, *, labels: Mapping[str, str] | None = None, states: Sequence[str] = (), session_id: str = ""
    ) -> tuple[Sandbox, ...]:
        """This principal's sandboxes, oldest first: with all of the labels, in one of the states (or not deleted)."""
        found: list[Sandbox] = []
        cursor = ""
        while True:
            page = await self.list_sandbox_page(
                labels=labels, states=states, session_id=session_id, page_size=1000, cursor=cursor
            )
            found += page.sandboxes
            cursor = page.next_cursor
            if not cursor:
                return tuple(found)

    async def list_sandbox_page(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        states: Sequence[str] = (),
        session_id: str = "",
        page_size: int = 0,
        cursor: str = "",
    ) -> SandboxPage:
        """One page of such a list, of at most 1000. The cursor holds for the same filter. Raises InvalidArgument."""
        request = _sandboxes.list_request(labels, states, session_id, page_size, cursor)
        return _sandboxes.page(await self._ask(self._sandboxes.ListSandboxes(request)))

    async def renew_sandbox(self, sandbox_id: str, ttl_s: int = 0) -> Sandbox:
        """Let it live `ttl_s` seconds from now; 0: as long as the site allows. Raises NotFound, LimitExceeded."""
        request = sandbox_pb2.RenewSandboxRequest(sandbox_id=sandbox_id, ttl_s=ttl_s)
        return _sandboxes.sandbox((await self._ask(self._sandboxes.RenewSandbox(request))).sandbox)

    async def pause_sandbox(self, sandbox_id: str) -> Sandbox:
        """Stop everything in it. Raises NotFound, Conflict, SandboxLost."""
        request = sandbox_pb2.PauseSandboxRequest(sandbox_id=sandbox_id)
        return _sandboxes.sandbox((await self._ask(self._sandboxes.PauseSandbox(request))).sandbox)

    async def resume_sandbox(self, sandbox_id: str) -> Sandbox:
        """Let it go on. Raises NotFound, Conflict, SandboxLost."""
        request = sandbox_pb2.ResumeSandboxRequest(sandbox_id=sandbox_id)
        return _sandboxes.sandbox((await self._ask(self._sandboxes.ResumeSandbox(request))).sandbox)

    async def delete_sandbox(self, sandbox_id: str, *, wait: bool = True) -> None:
        """End and remove a sandbox. Without `wait` it returns before that is done. Raises NotFound, SandboxError."""
        request = sandbox_pb2.DeleteSandboxRequest(sandbox_id=sandbox_id, wait=wait)
        await self._ask(self._sandboxes.DeleteSandbox(request))

    async def watch_sandboxes(self) -> AsyncIterator[Sandbox]:
        """Those that live, then each at every change. Raises LimitExceeded where one reads too slowly: watch again."""
        with stream(self._sandboxes.WatchSandboxes(sandbox_pb2.WatchSandboxesRequest()), self._path) as messages:
            async for message in messages:
                yield _sandboxes.sandbox(message.sandbox)

    def files(self, session_id: str, sandbox_id: str) -> Files:
        """The files of a sandbox."""
        return Files(self._channel, self._path, session_id, sandbox_id)

    # Calls

    def call(
        self,
        session_id: str,
        sandbox_id: str,
        call_id: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        stdin: Stdin = None,
        interactive: bool = False,
        wait_for_review: bool = False,
        tag: str = "",
        on_disconnect: Literal["kill", "keep"] = "kill",
        background: bool = False,
        terminal: Terminal | None = None,
        limits: RunLimits = RunLimits(),  # noqa: B008 - frozen
    ) -> Call:
        """Run one tool call and iterate over what happens to it; `Ended` comes last.

        call_id is the caller's, unique in the session: repeated, it attaches to the first run or returns its
        outcome, and never runs twice. Without `stdin` the program's standard input is closed; `interactive` leaves it
        open for `Call.send`, from here or from whoever attaches. Leaving the iteration early (close it with
        `contextlib.aclosing`) cancels the call, unless it is kept. Nothing is buffered: a slow reader slows the
        program.

        tag: a name to find it by. on_disconnect: `keep` lets it go on without clients, and lets this one attach again
        by itself where it loses the connection. background: keep, and end the events with Started. terminal: give the
        program one. limits: for this run, beside those granted.

        Raises InvalidArgument, UnknownTool, NotFound, Conflict, LimitExceeded, Unavailable.
        """
        keep = background or on_disconnect == "keep"
        start = _exec_wire.start_call(
            session_id=session_id,
            sandbox_id=sandbox_id,
            call_id=call_id,
            tool=tool,
            arguments_json=encode_arguments(arguments),
            stdin=stdin is not None or interactive,
            wait_for_review=wait_for_review,
            tag=tag,
            background=background,
            on_disconnect=exec_pb2.ON_DISCONNECT_KEEP if keep else exec_pb2.ON_DISCONNECT_KILL,
            terminal=terminal,
            limits=limits,
        )
        return Call(self._link, exec_pb2.ExecRequest(start=start), stdin=stdin, resumes=keep)

    def attach(
        self, session_id: str, call_id: str = "", *, tag: str = "", offset: int = 0, wait_for_review: bool = False
    ) -> Call:
        """The events of a call that somebody started: its verdict and start again, then output from `offset` on.

        By its id, or else by a tag: the call with it that has not ended, or the latest. Where the connection is lost it
        attaches again. Raises NotFound, InvalidArgument, Unavailable.
        """
        place = _exec_wire.attach_call(session_id, call_id, tag, offset, wait_for_review=wait_for_review)
        return Call(self._link, exec_pb2.ExecRequest(attach=place), resumes=True)

    async def run_call(
        self,
        session_id: str,
        sandbox_id: str,
        call_id: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        stdin: Stdin = None,
        wait_for_review: bool = False,
        tag: str = "",
        on_disconnect: Literal["kill", "keep"] = "kill",
        limits: RunLimits = RunLimits(),  # noqa: B008 - frozen
        keep: int = KEPT_OUTPUT,
    ) -> CallResult:
        """`call`, collected: the first `keep` bytes of each stream and the count of what was left out."""
        return await collect(
            self.call(
                session_id,
                sandbox_id,
                call_id,
                tool,
                arguments,
                stdin=stdin,
                wait_for_review=wait_for_review,
                tag=tag,
                on_disconnect=on_disconnect,
                limits=limits,
            ),
            keep,
        )

    async def list_calls(
        self, session_id: str, *, state: str = "", tag: str = "", page_size: int = 0, cursor: str = ""
    ) -> CallPage:
        """Calls of a session, the latest first. state: parked, running, ended or "" for any.

        page_size: at most 1000; 0 is the daemon's default. Raises NotFound, InvalidArgument.
        """
        request = exec_pb2.ListCallsRequest(
            session_id=session_id, state=_exec_wire.call_state(state), tag=tag, page_size=page_size, cursor=cursor
        )
        answer = await self._ask(self._exec.ListCalls(request))
        return CallPage(calls=tuple(_exec_wire.call(call) for call in answer.calls), next_cursor=answer.next_cursor)

    async def get_call(self, session_id: str, call_id: str) -> CallInfo:
        """One call. Raises NotFound."""
        request = exec_pb2.GetCallRequest(session_id=session_id, call_id=call_id)
        return _exec_wire.call((await self._ask(self._exec.GetCall(request))).call)

    async def signal_call(self, session_id: str, call_id: str, signal: int, *, whole_tree: bool = False) -> None:
        """Signal a running call's program, or all of its processes. Raises NotFound, Conflict where it does not run."""
        request = exec_pb2.SignalCallRequest(
            session_id=session_id, call_id=call_id, signal=signal, whole_tree=whole_tree
        )
        await self._ask(self._exec.SignalCall(request))

    async def decide(
        self,
        session_id: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        description_digest: str = "",
        pinned_digest: str = "",
    ) -> Verdict:
        """Judge a call and execute nothing. The digests are as in `begin`."""
        request = policy_pb2.DecideRequest(
            session_id=session_id,
            tool=tool,
            arguments_json=encode_arguments(arguments),
            description_digest=description_digest,
            pinned_digest=pinned_digest,
        )
        return _wire.verdict((await self._ask(self._policy.Decide(request))).decision)

    async def begin(
        self,
        session_id: str,
        call_id: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        description_digest: str = "",
        pinned_digest: str = "",
        wait_for_review: bool = False,
    ) -> Permit:
        """Judge a call that runs elsewhere; with a yes comes a permit for one run. `finish` it before it expires.

        A call that is parked gets its permit, once, when the same is asked again after its approval, or at once with
        `wait_for_review`.

        description_digest, pinned_digest: of the tool's description and schema as you were shown them, and as they
        were approved: policy blocks where they differ (`description_digest` makes them). Where the tool manifest pins
        one, it stands in the place of the second.
        """
        request = policy_pb2.BeginRequest(
            session_id=session_id,
            call_id=call_id,
            tool=tool,
            arguments_json=encode_arguments(arguments),
            description_digest=description_digest,
            pinned_digest=pinned_digest,
            wait_for_review=wait_for_review,
        )
        answer = await self._ask(self._policy.Begin(request))
        return Permit(
            verdict=_wire.verdict(answer.decision),
            permit=answer.permit,
            expires_unix_ns=answer.expires_unix_ns,
            outcome=_wire.outcome(answer.outcome) if answer.HasField("outcome") else None,
        )

    async def finish(self, session_id: str, permit: str, outcome: Outcome) -> None:
        """Use a permit up. outcome: EXITED, SIGNALLED, CANCELLED or LOST. Raises Conflict for a used permit."""
        request = policy_pb2.FinishRequest(session_id=session_id, permit=permit, outcome=_wire.outcome_message(outcome))
        await self._ask(self._policy.Finish(request))

    async def status(self) -> DaemonStatus:
        """Versions, bundle, self-test and sizes of the logs."""
        return _wire.status(await self._ask(self._policy.GetStatus(policy_pb2.GetStatusRequest())))

    async def explain(self, decision_id: str) -> Explanation:
        """Why a recent decision (or the latest of a call_id) is what it is. Raises NotFound for older ones."""
        request = policy_pb2.ExplainRequest(decision_id=decision_id)
        return _policy.explanation(await self._ask(self._policy.Explain(request)))

    async def start_shadow(self, bundle: bytes) -> Candidate:
        """Let a signed bundle judge along, until it is stopped or the daemon ends. It decides nothing.

        Needs the role operator or reviewer, like the two below. Raises Conflict where one runs, NotPermitted with
        the failed check for a bundle that the daemon would not load.
        """
        answer = await self._ask(self._policy.StartShadow(_policy.pieces(bundle)))
        return _policy.candidate(answer.candidate)

    async def stop_shadow(self) -> Candidate:
        """End it; its last counts. Raises Conflict where none runs."""
        answer = await self._ask(self._policy.StopShadow(policy_pb2.StopShadowRequest()))
        return _policy.candidate(answer.candidate)

    async def get_shadow(self) -> ShadowReport:
        """What the candidate would have said so far, and the rules that the site put in shadow."""
        return _policy.shadow(await self._ask(self._policy.GetShadow(policy_pb2.GetShadowRequest())))

    # Reviews

    async def list_reviews(self, *, all: bool = False) -> tuple[Review, ...]:  # noqa: A002 - the request's field
        """Parked calls, oldest first as the daemon gives them; `all` adds the decided and expired ones."""
        answer = await self._ask(self._reviews.ListReviews(review_pb2.ListReviewsRequest(all=all)))
        return tuple(_wire.review(message) for message in answer.reviews)

    async def get_review(self, review_id: str) -> Review:
        """One parked call with its arguments, however large. Raises NotFound."""
        answer = await self._ask(self._reviews.GetReview(review_pb2.GetReviewRequest(review_id=review_id)))
        return _wire.review(answer.review)

    async def approve_review(self, review_id: str, digest: str) -> Verdict | None:
        """Let exactly the call of `digest` run once; the verdict is policy's second, with the approval as a fact.

        None: another reviewer must approve, too.
        """
        request = review_pb2.ApproveReviewRequest(review_id=review_id, digest=digest)
        answer = await self._ask(self._reviews.ApproveReview(request))
        return None if answer.approvals_missing else _wire.verdict(answer.decision)

    async def reject_review(self, review_id: str, reason: str) -> None:
        """Refuse a parked call. The reason reaches the agent."""
        await self._ask(self._reviews.RejectReview(review_pb2.RejectReviewRequest(review_id=review_id, reason=reason)))

    async def watch_reviews(self) -> AsyncIterator[Review]:
        """Each review that waits, then each one that is parked or decided on, as it is then. Ends with the daemon."""
        with stream(self._reviews.WatchReviews(review_pb2.WatchReviewsRequest()), self._path) as messages:
            async for message in messages:
                yield _wire.review(message.review)

    # Bans

    async def ban(self, principal: str, agent: str = "", reason: str = "") -> BanEffect:
        """Ban a principal, or its sessions that carry an agent's name; the reason reaches the agent.

        Needs the role operator or reviewer. Raises NotPermitted, NotFound, Conflict where it is banned already.
        """
        subject = agent_pb2.BanSubject(principal=principal, agent=agent)
        answer = await self._ask(self._agents.Ban(agent_pb2.BanRequest(subject=subject, reason=reason)))
        return BanEffect(ended_calls=answer.ended_calls, voided_reviews=answer.voided_reviews)

    async def unban(self, principal: str, agent: str = "") -> None:
        """Lift a ban. Raises NotPermitted, NotFound."""
        subject = agent_pb2.BanSubject(principal=principal, agent=agent)
        await self._ask(self._agents.Unban(agent_pb2.UnbanRequest(subject=subject)))

    async def list_bans(self) -> tuple[Ban, ...]:
        """Bans in force, oldest first."""
        answer = await self._ask(self._agents.ListBans(agent_pb2.ListBansRequest()))
        return tuple(_wire.ban(message) for message in answer.bans)

    async def watch_bundle(self) -> AsyncIterator[BundleSettled]:
        """How the last bundle put in place ended, at once, and then each further one."""
        with stream(self._policy.WatchBundle(policy_pb2.WatchBundleRequest()), self._path) as messages:
            async for message in messages:
                yield _wire.settled(message)

    # Records and health

    async def tail_audit(self, last: int = 10, *, follow: bool = False) -> AsyncIterator[AuditRecord]:
        """The `last` records (at most 10000) this principal may see, then new ones as they are written."""
        with stream(self._audit.Tail(audit_pb2.TailRequest(last=last, follow=follow)), self._path) as messages:
            async for message in messages:
                yield AuditRecord(index=message.index, leaf=message.leaf, line=message.line)

    async def health(self) -> bool:
        """Whether the daemon serves, by the standard gRPC health check."""
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        stub: Any = health_pb2_grpc.HealthStub(self._channel)  # Check is not in its type stubs
        answer = await self._ask(stub.Check(health_pb2.HealthCheckRequest()))
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    async def _ask(self, call: grpc.aio.UnaryUnaryCall[Any, Answer] | grpc.aio.StreamUnaryCall[Any, Answer]) -> Answer:
        return await ask(call, self._path)
