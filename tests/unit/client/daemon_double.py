"""A gRPC server on a unix socket that behaves as the tool's name asks: what client and command line are held to.

It is a double because the real daemon can't be made to answer wrongly. The real one is used in tests/system.
"""

import asyncio
import json
import urllib.parse
from contextlib import asynccontextmanager

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from opensafe import errors
from opensafe._proto.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    audit_pb2,
    audit_pb2_grpc,
    common_pb2,
    egress_pb2,
    egress_pb2_grpc,
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
from opensafe.api.status import to_status

SANDBOX = "sb-00000000000000000001"
SESSION = "ses-00000000000000000001"
REVIEW = "rev-00000000000000000001"
DIGEST = "d" * 64
EVERY_BYTE = bytes(range(256))


async def fail(context, error):
    """End the RPC as the daemon does for one of our exceptions."""
    await context.abort_with_status(rpc_status.to_status(to_status(error)))


def decision(action=common_pb2.ACTION_ALLOW, **rule):
    rules = [common_pb2.Rule(**{"severity": "high", "action": action, **rule})] if rule else []
    return common_pb2.Decision(
        decision_id="dec-1",
        action=action,
        rules=rules,
        bundle_revision="7",
        evaluation_ns=300_000,
        decision_ns=900_000,
        trace_id="ab" * 16,
        review_id=REVIEW if action == common_pb2.ACTION_REVIEW else "",
    )


BLOCKED = decision(
    common_pb2.ACTION_BLOCK,
    id="egress.domain.allowlist",
    reason="evil.example.com is not on the list",
    value="evil.example.com",
    remedy="Use a listed domain.",
)
PARKED = decision(common_pb2.ACTION_REVIEW, id="tool.exec.package.install.review", reason="npm installs packages")


def outcome(kind="EXITED", **fields):
    return common_pb2.Outcome(kind=common_pb2.OutcomeKind.Value(f"OUTCOME_KIND_{kind}"), **fields)


async def _nothing():
    """No requests."""
    return
    yield


class Sessions(session_pb2_grpc.SessionServiceServicer):
    def __init__(self, double):
        self.double = double

    async def CreateSession(self, request, context):  # noqa: N802 - the method's name in the proto
        if request.agent == "greedy":
            await fail(context, errors.LimitExceeded("too many sessions", value=65, limit="64 sessions"))
        self.double.opened.append(request.agent)
        return session_pb2.CreateSessionResponse(session_id=SESSION)

    async def CloseSession(self, request, context):  # noqa: N802 - the method's name in the proto
        self.double.closed.append(request.session_id)
        return session_pb2.CloseSessionResponse()

    async def ReportUsage(self, request, context):  # noqa: N802 - the method's name in the proto
        return session_pb2.ReportUsageResponse(tokens=request.tokens, cost_microusd=request.cost_microusd)


class Sandboxes(sandbox_pb2_grpc.SandboxServiceServicer):
    sandbox = sandbox_pb2.Sandbox(
        sandbox_id=SANDBOX, session_id=SESSION, template="base", state="running", created_unix_ns=10**18
    )

    def __init__(self, double):
        self.double = double
        self.alive = True

    async def CreateSandbox(self, request, context):  # noqa: N802 - the method's name in the proto
        if request.template == "forbidden":
            await fail(context, errors.NotPermitted("template not allowed", value="forbidden", remedy="Use base."))
        self.double.asked_size = request.limits
        return sandbox_pb2.CreateSandboxResponse(sandbox=self.sandbox, decision=decision(), create_ns=5_000_000)

    async def GetSandbox(self, request, context):  # noqa: N802 - the method's name in the proto
        if request.sandbox_id != SANDBOX:
            await fail(context, errors.NotFound("no such sandbox", value=request.sandbox_id))
        return sandbox_pb2.GetSandboxResponse(sandbox=self.sandbox)

    async def ListSandboxes(self, request, context):  # noqa: N802 - the method's name in the proto
        return sandbox_pb2.ListSandboxesResponse(sandboxes=[self.sandbox] if self.alive else [])

    async def DeleteSandbox(self, request, context):  # noqa: N802 - the method's name in the proto
        self.alive = False
        return sandbox_pb2.DeleteSandboxResponse()

    async def RenewSandbox(self, request, context):  # noqa: N802 - the method's name in the proto
        return sandbox_pb2.RenewSandboxResponse(sandbox=self.sandbox)

    async def PauseSandbox(self, request, context):  # noqa: N802 - the method's name in the proto
        return sandbox_pb2.PauseSandboxResponse(sandbox=self.sandbox)

    async def ResumeSandbox(self, request, context):  # noqa: N802 - the method's name in the proto
        return sandbox_pb2.ResumeSandboxResponse(sandbox=self.sandbox)

    async def WatchSandboxes(self, request, context):  # noqa: N802 - the method's name in the proto
        yield sandbox_pb2.WatchSandboxesResponse(sandbox=self.sandbox)


class Exec(exec_pb2_grpc.ExecServiceServicer):
    """The tool's name is what happens."""

    def __init__(self, double):
        self.double = double

    async def Exec(self, requests, context):  # noqa: N802 - the method's name in the proto
        first = await anext(aiter(requests))
        if first.HasField("attach"):
            self.double.attached.append(first.attach)
            yield exec_pb2.ExecResponse(decided=decision())
            yield exec_pb2.ExecResponse(gap=exec_pb2.Gap(from_offset=7, to_offset=9))
            yield exec_pb2.ExecResponse(stdout=b"attached", offset=9)
            yield exec_pb2.ExecResponse(outcome=outcome(exit_code=5))
            return
        start = first.start
        self.double.started.append(start)
        arguments = json.loads(start.arguments_json)
        async for message in getattr(self, start.tool.lower())(start, arguments, requests, context):
            if isinstance(message, common_pb2.Decision):
                yield exec_pb2.ExecResponse(decided=message)
            elif isinstance(message, common_pb2.Outcome):
                yield exec_pb2.ExecResponse(outcome=message)
            else:
                yield message

    async def ListCalls(self, request, context):  # noqa: N802 - the method's name in the proto
        """Three calls, one a page."""
        number = int(request.cursor or 1)
        call = exec_pb2.Call(
            session_id=request.session_id,
            call_id=f"c{number}",
            state=request.state or exec_pb2.CALL_STATE_RUNNING,
            tag="t",
        )
        return exec_pb2.ListCallsResponse(calls=[call], next_cursor=str(number + 1) if number < 3 else "")

    async def GetCall(self, request, context):  # noqa: N802 - the method's name in the proto
        if request.call_id != "c1":
            await fail(context, errors.NotFound("no such call", value=request.call_id))
        call = exec_pb2.Call(
            session_id=request.session_id,
            call_id="c1",
            tool="Bash",
            state=exec_pb2.CALL_STATE_ENDED,
            outcome=outcome(exit_code=0),
            retained_to=4,
        )
        return exec_pb2.GetCallResponse(call=call)

    async def SignalCall(self, request, context):  # noqa: N802 - the method's name in the proto
        self.double.signalled.append((request.call_id, request.signal, request.whole_tree))
        return exec_pb2.SignalCallResponse()

    async def exec(self, start, arguments, requests, context):
        """Print argv on stdout and every byte value on stderr, then exit with 3."""
        yield decision()
        yield exec_pb2.ExecResponse(started=exec_pb2.StartedCall(exec_id="exec-1"))
        yield exec_pb2.ExecResponse(stdout=" ".join(arguments["argv"]).encode())
        yield exec_pb2.ExecResponse(stderr=EVERY_BYTE)
        yield outcome(exit_code=3, run_ns=2_000_000, stdout_bytes=4, stderr_bytes=256)

    async def end(self, start, arguments, requests, context):
        """End with the outcome that the arguments describe."""
        yield {"BLOCKED": BLOCKED, "REVIEW_PENDING": PARKED}.get(arguments["kind"], decision())
        yield outcome(**arguments)

    async def echo(self, start, arguments, requests, context):
        """cat: standard input back, until it is closed."""
        yield decision()
        total = 0
        async for message in requests if start.stdin else _nothing():
            if message.WhichOneof("message") == "close_stdin":
                break
            total += len(message.stdin)
            self.double.largest = max(self.double.largest, len(message.stdin))
            yield exec_pb2.ExecResponse(stdout=message.stdin)
        yield outcome(exit_code=0, stdout_bytes=total)

    async def cat(self, start, arguments, requests, context):
        """echo, which says first that it runs."""
        yield exec_pb2.ExecResponse(started=exec_pb2.StartedCall(exec_id="exec-1"))
        async for message in self.echo(start, arguments, requests, context):
            yield message

    async def flood(self, start, arguments, requests, context):
        yield decision()
        for _ in range(arguments["chunks"]):
            yield exec_pb2.ExecResponse(stdout=b"x" * 65536)
        yield outcome(exit_code=0, stdout_bytes=65536 * arguments["chunks"])

    async def deaf(self, start, arguments, requests, context):
        """End without reading standard input."""
        yield decision()
        yield outcome(exit_code=0)

    async def vanish(self, start, arguments, requests, context):
        yield decision()
        yield exec_pb2.ExecResponse(stdout=b"half")

    async def hang(self, start, arguments, requests, context):
        yield decision()
        yield exec_pb2.ExecResponse(started=exec_pb2.StartedCall(exec_id="exec-1"))
        self.double.hanging.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.double.cancelled.set()

    async def refuse(self, start, arguments, requests, context):
        """Not take the call as often as the test says, then run it."""
        if self.double.refusals:
            self.double.refusals -= 1
            await fail(context, errors.Unavailable("the daemon drains"))
        yield decision()
        yield exec_pb2.ExecResponse(stdout=b"at last")
        yield outcome(exit_code=0)

    async def park(self, start, arguments, requests, context):
        """Wait for the reviewer, where the client does."""
        yield PARKED
        if not start.wait_for_review:
            yield outcome("REVIEW_PENDING")
            return
        await self.double.reviewed.wait()
        again = decision()
        again.decision_id = "dec-2"
        yield again
        yield exec_pb2.ExecResponse(stdout=b"approved")
        yield outcome(exit_code=0)

    async def bytes(self, start, arguments, requests, context):
        """Write a text byte by byte, and end within a character."""
        yield decision()
        for byte in "né€".encode() + b"\xe2\x82":
            yield exec_pb2.ExecResponse(stdout=bytes((byte,)))
        yield outcome(exit_code=0)

    async def undecided(self, start, arguments, requests, context):
        yield decision(common_pb2.ACTION_UNSPECIFIED)

    async def unregistered(self, start, arguments, requests, context):
        await fail(context, errors.UnknownTool("no such tool", value="Unregistered", remedy="Use Bash."))
        yield


CANDIDATE = policy_pb2.Candidate(
    revision="8-0123456789ab", key="k", evaluated=2, same=1, differed=1, transitions={"allow>block": 1}, rules={"x": 1}
)
SAMPLE = policy_pb2.ShadowSample(
    decision_id="dec-1",
    tool="Bash",
    enforced=common_pb2.ACTION_ALLOW,
    candidate=common_pb2.ACTION_BLOCK,
    rules=BLOCKED.rules,
)


class Policy(policy_pb2_grpc.PolicyServiceServicer):
    def __init__(self, double):
        self.double = double

    async def Decide(self, request, context):  # noqa: N802 - the method's name in the proto
        return policy_pb2.DecideResponse(decision=BLOCKED)

    async def Begin(self, request, context):  # noqa: N802 - the method's name in the proto
        return policy_pb2.BeginResponse(decision=decision(), permit="permit-1", expires_unix_ns=7)

    async def Finish(self, request, context):  # noqa: N802 - the method's name in the proto
        self.double.finished = request
        return policy_pb2.FinishResponse()

    async def WatchBundle(self, request, context):  # noqa: N802 - the method's name in the proto
        yield policy_pb2.WatchBundleResponse(sequence=1, activated=True, digest="d", number=7, revision="7-abc")
        yield policy_pb2.WatchBundleResponse(sequence=2, digest="e", reason="hash: a member", took_ms=3)

    async def GetStatus(self, request, context):  # noqa: N802 - the method's name in the proto
        return policy_pb2.GetStatusResponse(
            bundle_revision="7",
            runsc_version="release-1",
            runsc_platform="systrap",
            checks=[policy_pb2.SelfTestCheck(name="syscall", refused=self.double.holds, control_succeeded=True)],
            version="0.1.0",
            append_only=True,
        )

    async def Explain(self, request, context):  # noqa: N802 - the method's name in the proto
        if request.decision_id == "dec-none":
            await fail(context, errors.NotFound("no such decision", value=request.decision_id))
        call = {"id": "c1", "tool": "Bash", "arguments": {"command": "curl \x1b[2J\u202e"}, "digest": DIGEST}
        caller = {"name": "default", "roles": ["developer"]}
        question = {"id": "dec-1", "kind": "call", "call": call, "principal": caller, "session": {"id": "s"}}
        note = {"title": "t", "description": "d", "threat": "none"}
        rule = BLOCKED.rules[0]
        return policy_pb2.ExplainResponse(
            decision=BLOCKED,
            entrypoint="gate/bash",
            question_json=json.dumps(question).encode(),
            notes=[policy_pb2.RuleNote(id=rule.id, file="x.rego", line=7, severity=rule.severity, **note)],
            nearest=[policy_pb2.Nearest(kind="host", value="evil\x1b[2J", allowed=["docs.python.org"])],
        )

    async def ListRules(self, request, context):  # noqa: N802 - the method's name in the proto
        part = {"description": "d", "threat": "T1"}
        one = policy_pb2.RuleNote(
            id="egress.domain.allowlist", file="x.rego", line=3, severity="high", title="\x1b[2JX", **part
        )
        other = policy_pb2.RuleNote(
            id="egress.domain.allowlist", file="y.rego", line=1, severity="low", title="Y", **part
        )
        return policy_pb2.ListRulesResponse(revision="7-abc", notes=[one, other])

    async def StartShadow(self, request_iterator, context):  # noqa: N802 - the method's name in the proto
        self.double.candidate = b"".join([piece.content async for piece in request_iterator])
        return policy_pb2.StartShadowResponse(candidate=CANDIDATE)

    async def StopShadow(self, request, context):  # noqa: N802 - the method's name in the proto
        return policy_pb2.StopShadowResponse(candidate=CANDIDATE)

    async def GetShadow(self, request, context):  # noqa: N802 - the method's name in the proto
        rule = policy_pb2.ShadowRule(
            id="tool.x.deny", hits=2, would_change=1, last_reason="\x1b[2J", last_decision_id="d"
        )
        return policy_pb2.GetShadowResponse(decisions=2, candidate=CANDIDATE, samples=[SAMPLE], rules=[rule])


class Reviews(review_pb2_grpc.ReviewServiceServicer):
    def __init__(self, double):
        self.double = double

    async def GetReview(self, request, context):  # noqa: N802 - the method's name in the proto
        if request.review_id != REVIEW:
            await fail(context, errors.NotFound("no such review", value=request.review_id))
        return review_pb2.GetReviewResponse(review=self._review())

    async def ListReviews(self, request, context):  # noqa: N802 - the method's name in the proto
        return review_pb2.ListReviewsResponse(reviews=[self._review()])

    def _review(self):
        return review_pb2.Review(
            review_id=REVIEW,
            state="pending",
            principal="default",
            tool="Bash",
            sealed_arguments_json=json.dumps({"command": "npm install \x1b[2J\u202e"}).encode(),
            digest=DIGEST,
            rules=PARKED.rules,
            expires_unix_ns=2**62,
            elsewhere=self.double.elsewhere,
            description_digest="e" * 64 if self.double.elsewhere else "",
        )

    async def ApproveReview(self, request, context):  # noqa: N802 - the method's name in the proto
        if request.digest != DIGEST:
            await fail(context, errors.Conflict("another call", value=request.digest))
        return review_pb2.ApproveReviewResponse(decision=decision())

    async def WatchReviews(self, request, context):  # noqa: N802 - the method's name in the proto
        yield review_pb2.WatchReviewsResponse(review=self._review())

    async def RejectReview(self, request, context):  # noqa: N802 - the method's name in the proto
        self.double.rejected = request.reason
        return review_pb2.RejectReviewResponse()


class Agents(agent_pb2_grpc.AgentServiceServicer):
    def __init__(self, double):
        self.double = double

    async def Ban(self, request, context):  # noqa: N802 - the method's name in the proto
        self.double.banned.append((request.subject.principal, request.subject.agent, request.reason))
        return agent_pb2.BanResponse(ended_calls=2, voided_reviews=1)

    async def Unban(self, request, context):  # noqa: N802 - the method's name in the proto
        self.double.banned.remove((request.subject.principal, request.subject.agent, "leaks"))
        return agent_pb2.UnbanResponse()

    async def ListBans(self, request, context):  # noqa: N802 - the method's name in the proto
        bans = [
            agent_pb2.Ban(subject=agent_pb2.BanSubject(principal=principal, agent=agent), reason=reason)
            for principal, agent, reason in self.double.banned
        ]
        return agent_pb2.ListBansResponse(bans=bans)


class Audit(audit_pb2_grpc.AuditServiceServicer):
    async def Tail(self, request, context):  # noqa: N802 - the method's name in the proto
        first = request.from_index
        for index in range(first, first + (request.last or 2)):
            yield audit_pb2.TailResponse(index=index, leaf="0" * 64, line=b'{"index":%d}' % index)

    async def Search(self, request, context):  # noqa: N802 - the method's name in the proto
        place = (request.before_index or 9) - 1
        line = json.dumps({"asked": f"{request}".replace('"', "'")}).encode()
        record = audit_pb2.TailResponse(index=place, leaf="0" * 64, line=line)
        return audit_pb2.SearchResponse(records=[record], next_before=place)

    async def Prove(self, request, context):  # noqa: N802 - the method's name in the proto
        return audit_pb2.ProveResponse(proof_json=b'{"index":%d}' % request.index)

    async def Verify(self, request, context):  # noqa: N802 - the method's name in the proto
        finding = audit_pb2.AuditFinding(kind="chain_broken", where="audit", index=7, message="m")
        return audit_pb2.VerifyResponse(records=9, findings=[finding], findings_total=2000)

    async def Export(self, request, context):  # noqa: N802 - the method's name in the proto
        for content in (b"a", request.session_id.encode()):
            yield audit_pb2.ExportResponse(content=content)


class Egress(egress_pb2_grpc.EgressServiceServicer):
    async def ExplainEgress(self, request, context):  # noqa: N802 - the method's name in the proto
        if not request.host:
            await fail(context, errors.InvalidArgument("this can't be read as exactly one host"))
        rule = common_pb2.Rule(
            id="egress.domain.allowlist",
            severity="high",
            action=common_pb2.ACTION_BLOCK,
            reason=f"{request.host} \x1b[2Jis not an allowed domain",
            remedy="Use another.",
        )
        return egress_pb2.ExplainEgressResponse(
            name=request.host,
            classes=["private"],
            layers=[
                egress_pb2.EgressLayer(layer="dns", rules=[rule]),
                egress_pb2.EgressLayer(layer="tls", port=443, rules=[rule]),
                egress_pb2.EgressLayer(layer="http", port=80, allowed=True),
            ],
            obstacles=[egress_pb2.EgressObstacle(reason="no call runs", remedy="Ask while one does.")],
            standing=egress_pb2.EgressStanding(address="10.201.0.1") if request.sandbox_id else None,
            bundle_revision="7",
        )

    async def ListConnections(self, request, context):  # noqa: N802 - the method's name in the proto
        row = egress_pb2.EgressConnection(
            sandbox_id=SANDBOX,
            principal="agent",
            call_id="c1",
            layer="tls",
            name="\x1b[2Ja.test",
            port=443,
            since_unix_ns=10**18,
            sent_bytes=5,
            received_bytes=7,
        )
        return egress_pb2.ListConnectionsResponse(connections=[row], more=3)

    async def ListHosts(self, request, context):  # noqa: N802 - the method's name in the proto
        row = egress_pb2.EgressHost(sandbox_id=SANDBOX, principal="agent", allowed=1, refused=2)
        return egress_pb2.ListHostsResponse(hosts=[row], more=0)


class DaemonDouble:
    """What the double was asked, and how it shall answer."""

    def __init__(self, path):
        self.path = path
        self.opened, self.closed, self.banned = [], [], []
        self.started, self.attached, self.signalled = [], [], []
        self.hanging, self.cancelled = asyncio.Event(), asyncio.Event()
        self.reviewed, self.refusals = asyncio.Event(), 0
        self.largest = 0
        self.holds = True
        self.elsewhere = False  # what waits is a permit
        self.finished = self.rejected = self.asked_size = None


@asynccontextmanager
async def running(path):
    """A double that serves on `path`."""
    double = DaemonDouble(path)
    server = grpc.aio.server()
    session_pb2_grpc.add_SessionServiceServicer_to_server(Sessions(double), server)
    sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(Sandboxes(double), server)
    exec_pb2_grpc.add_ExecServiceServicer_to_server(Exec(double), server)
    policy_pb2_grpc.add_PolicyServiceServicer_to_server(Policy(double), server)
    review_pb2_grpc.add_ReviewServiceServicer_to_server(Reviews(double), server)
    agent_pb2_grpc.add_AgentServiceServicer_to_server(Agents(double), server)
    audit_pb2_grpc.add_AuditServiceServicer_to_server(Audit(), server)
    egress_pb2_grpc.add_EgressServiceServicer_to_server(Egress(), server)
    servicer = health.aio.HealthServicer()
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{urllib.parse.quote(str(path))}")
    await server.start()
    try:
        yield double
    finally:
        await server.stop(0)
