"""What a call leaves in the trace: its structure tells its fate, and nothing of its content is in it."""

import json

from tests.harness.daemon import Daemon


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

        tools = {attributes(span)["gen_ai.tool.call.id"]: span for span in spans if span["name"] == "execute_tool Bash"}
        assert all(span["parentSpanId"] == root["spanId"] for span in tools.values())

        def children(call_id):
            return sorted(span["name"] for span in spans if span.get("parentSpanId") == tools[call_id]["spanId"])

        assert children("a") == children("d") == ["policy.evaluate", "sandbox.exec"]
        assert children("b") == ["policy.evaluate"]
        assert children("c") == ["policy.evaluate", "review.park"]

        errors = {call_id: attributes(span).get("error.type") for call_id, span in tools.items()}
        assert errors == {"a": None, "b": "policy_denied", "c": None, "d": "exited"}
        assert all(attributes(span) for span in spans)

        # Content capture is off: neither arguments nor output.
        assert "secret-text" not in (daemon.state / "front" / "traces.jsonl").read_text()
    finally:
        assert daemon.remove() == []


async def test_a_clients_own_context_is_the_parent(agent, session, sandbox, daemon):
    import grpc

    from opensafe._proto.v1 import exec_pb2, exec_pb2_grpc

    trace_id = "0af7651916cd43dd8448eb211c80319c"
    start = exec_pb2.StartCall(
        session_id=session, sandbox_id=sandbox, call_id="own", tool="Bash", arguments_json=b'{"command":"ls"}'
    )
    async with grpc.aio.insecure_channel(f"unix:{daemon.run}/principals/agent/opensafe.sock") as channel:
        call = exec_pb2_grpc.ExecServiceStub(channel).Exec(
            iter([exec_pb2.ExecRequest(start=start)]),
            metadata=(("traceparent", f"00-{trace_id}-b7ad6b7169203331-01"),),
        )
        (decided, *_) = [response async for response in call]
    assert decided.decided.trace_id == trace_id
