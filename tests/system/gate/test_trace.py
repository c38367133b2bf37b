"""What a call leaves in the trace: its structure tells its fate, and nothing of its content is in it."""

import json

import grpc

from opensafe._proto.v1 import exec_pb2, exec_pb2_grpc, policy_pb2, policy_pb2_grpc, sandbox_pb2, sandbox_pb2_grpc
from opensafe.model.outcome import OutcomeKind
from tests.harness.daemon import Daemon, running


def spans_of(daemon):
    """All spans that were exported, flat."""
    lines = (daemon.state / "front" / "traces.jsonl").read_text().splitlines()
    return [
        span
        for line in lines
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def attributes(span):
    return {item["key"]: next(iter(item["value"].values())) for item in span["attributes"]}


def children(spans, span):
    """Names of a span's children in the order of their begin."""
    found = [one for one in spans if one.get("parentSpanId") == span["spanId"]]
    return [one["name"] for one in sorted(found, key=lambda one: int(one["startTimeUnixNano"]))]


async def test_the_structure_of_a_trace_tells_what_happened():
    daemon = Daemon().start()
    try:
        async with daemon.client() as agent:
            session = await agent.create_session("tester", "conversation-1")
            sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
            for call_id, command in (("a", "echo secret-text"), ("b", "curl evil.example.com"), ("c", "npm install")):
                await agent.run_call(session, sandbox, call_id, "Bash", {"command": command})
            await agent.run_call(session, sandbox, "d", "Bash", {"command": "exit 3"})
            await agent.close_session(session)
        assert daemon.stop() == 0
        spans = spans_of(daemon)
        assert len({span["traceId"] for span in spans}) == 1  # one session, one trace
        (root,) = [span for span in spans if span["name"] == "invoke_agent tester"]
        assert attributes(root)["gen_ai.conversation.id"] == "conversation-1"

        tools = sorted(
            (span for span in spans if span["name"] == "execute_tool Bash"), key=lambda span: span["endTimeUnixNano"]
        )
        assert all(span["parentSpanId"] == root["spanId"] for span in tools)
        # The session's end ended the parked call as well: that is a span of its own, and lies in the session's.
        assert [
            (attributes(span)["gen_ai.tool.call.id"], children(spans, span), attributes(span).get("error.type"))
            for span in tools
        ] == [
            ("a", ["policy.evaluate", "sandbox.exec"], None),
            ("b", ["policy.evaluate"], "policy_denied"),
            ("c", ["policy.evaluate", "review.park"], None),
            ("d", ["policy.evaluate", "sandbox.exec"], "exited"),
            ("c", ["review.wait"], "cancelled"),
        ]
        assert all(int(span["endTimeUnixNano"]) <= int(root["endTimeUnixNano"]) for span in tools)
        assert all(attributes(span) for span in spans)

        # Content capture is off: neither arguments nor output.
        assert "secret-text" not in (daemon.state / "front" / "traces.jsonl").read_text()
    finally:
        assert daemon.remove() == []


TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_a_clients_own_context_is_the_parent_whatever_it_asks_for(agent, session, sandbox, daemon):
    metadata = (("traceparent", f"00-{TRACE}-b7ad6b7169203331-01"), ("tracestate", "vendor=1"))
    tool, listing = "Bash", b'{"command":"ls"}'
    async with grpc.aio.insecure_channel(f"unix:{daemon.run}/principals/agent/opensafe.sock") as channel:
        policy = policy_pb2_grpc.PolicyServiceStub(channel)
        sandboxes = sandbox_pb2_grpc.SandboxServiceStub(channel)
        exec_ = exec_pb2_grpc.ExecServiceStub(channel)
        start = exec_pb2.StartCall(
            session_id=session, sandbox_id=sandbox, call_id="own", tool=tool, arguments_json=listing
        )
        (decided, *_) = [one async for one in exec_.Exec(iter([exec_pb2.ExecRequest(start=start)]), metadata=metadata)]
        asked = policy_pb2.DecideRequest(session_id=session, tool=tool, arguments_json=listing)
        begin = policy_pb2.BeginRequest(session_id=session, call_id="elsewhere", tool=tool, arguments_json=listing)
        create = sandbox_pb2.CreateSandboxRequest(session_id=session)
        answers = [
            decided.decided,
            (await policy.Decide(asked, metadata=metadata)).decision,
            (await policy.Begin(begin, metadata=metadata)).decision,
            (await sandboxes.CreateSandbox(create, metadata=metadata)).decision,
        ]
        without = (await policy.Decide(asked)).decision
    assert [answer.trace_id for answer in answers] == [TRACE] * 4
    assert without.trace_id not in ("", TRACE)  # the session's own


SECRET = "ghp_" + "a1B2" * 9


async def test_a_session_tells_waits_files_and_usage_and_no_content():
    with running() as daemon:
        async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
            session = await agent.create_session("tester")
            sandbox = (await agent.create_sandbox(session)).sandbox_id
            files = agent.files(session, sandbox)
            await files.write("/workspace/a", b"hello")
            assert [chunk async for chunk in files.read("/workspace/a")] == [b"hello"]
            for call_id in ("approved", "rejected"):
                parked = await agent.run_call(session, sandbox, call_id, "Bash", {"command": "npm install"})
                review = await reviewer.get_review(parked.verdict.review_id)
                if call_id == "approved":
                    await reviewer.approve_review(review.review_id, review.digest)
                    await agent.run_call(session, sandbox, call_id, "Bash", {"command": "npm install"})
                else:
                    await reviewer.reject_review(review.review_id, "no")
            await agent.report_usage(session, tokens=100, output_tokens=30, cost_microusd=250)
            await agent.report_usage(session, tokens=50, cost_microusd=50)
            await agent.report_usage(session, tokens=10, output_tokens=10)
            await agent.close_session(session)
        assert daemon.stop() == 0
        spans = spans_of(daemon)
        daemon.start()

    (root,) = [span for span in spans if span["name"] == "invoke_agent tester"]
    told = attributes(root)
    assert (told["opensafe.usage.tokens"], told["opensafe.usage.cost_microusd"]) == ("160", "300")
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == ("70", "40")

    by_tool = {span["name"]: children(spans, span) for span in spans}
    assert by_tool["execute_tool Write"] == ["policy.evaluate", "file.write"]
    assert by_tool["execute_tool Read"] == ["policy.evaluate", "file.read"]

    calls = [span for span in spans if span["name"] == "execute_tool Bash"]
    found = {(attributes(span)["gen_ai.tool.call.id"], *children(spans, span)): span for span in calls}
    assert set(found) == {
        ("approved", "policy.evaluate", "review.park"),
        ("approved", "review.wait", "policy.evaluate", "sandbox.exec"),
        ("rejected", "policy.evaluate", "review.park"),
        ("rejected", "review.wait"),
    }
    for span in found.values():
        for wait in (one for one in spans if one["name"] == "review.wait"):
            if wait["parentSpanId"] == span["spanId"]:
                assert attributes(wait)["opensafe.review.state"] == attributes(span)["gen_ai.tool.call.id"]
                # It begins with the wait, which covers all that the reviewer took.
                assert wait["startTimeUnixNano"] == span["startTimeUnixNano"]
                parked = found[attributes(span)["gen_ai.tool.call.id"], "policy.evaluate", "review.park"]
                assert int(wait["startTimeUnixNano"]) <= int(parked["endTimeUnixNano"]) <= int(wait["endTimeUnixNano"])


async def test_content_is_captured_where_the_site_asks_for_it_and_masked():
    with running(telemetry="capture_content = true") as daemon:
        async with daemon.client() as agent:
            session = await agent.create_session("tester")
            sandbox = (await agent.create_sandbox(session)).sandbox_id
            command = f"printf 'seen %s' {SECRET[:8]}; printf '%s' {SECRET[8:]}"
            result = await agent.run_call(session, sandbox, "a", "Bash", {"command": command})
            assert (result.outcome.kind, result.stdout.decode()) == (OutcomeKind.EXITED, f"seen {SECRET}")
            await agent.run_call(session, sandbox, "b", "Bash", {"command": f"echo {SECRET}; exit 1"})
            await agent.close_session(session)
        assert daemon.stop() == 0
        spans = spans_of(daemon)
        daemon.start()
    tools = {attributes(span)["gen_ai.tool.call.id"]: attributes(span) for span in spans if "Bash" in span["name"]}
    assert json.loads(tools["a"]["gen_ai.tool.call.arguments"]) == {"command": command}
    assert tools["a"]["gen_ai.tool.call.result"] == "seen [masked:github_token]"
    assert json.loads(tools["b"]["gen_ai.tool.call.arguments"]) == {"command": "echo [masked:github_token]; exit 1"}
    assert "gen_ai.tool.call.result" not in tools["b"]
    assert tools["b"]["opensafe.masked"] == {"values": [{"stringValue": "github_token"}]}
