"""What can't be served: a typed error that names value and limit, nothing executed, a record of the refusal."""

import json

import grpc
import pytest
from google.rpc import code_pb2  # type: ignore[import-untyped]  # ships no types

from opensafe import errors
from opensafe._proto.v1 import exec_pb2, exec_pb2_grpc
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind

MIB = 1 << 20

# case, tool, arguments as sent, error, gRPC status, text of the message
CASES = [
    ("unknown-tool", "Shell", b"{}", errors.UnknownTool, code_pb2.INVALID_ARGUMENT, "Shell"),
    ("PE-15-tool-name-in-other-case", "bash", b'{"command":"true"}', errors.UnknownTool, code_pb2.INVALID_ARGUMENT, ""),
    ("G34-field-missing", "Bash", b"{}", errors.InvalidArgument, code_pb2.INVALID_ARGUMENT, "command"),
    ("PE-19-unknown-field", "Bash", b'{"command":"true","sandbox":false}', errors.InvalidArgument, 3, "sandbox"),
    ("wrong-type", "Bash", b'{"command":1}', errors.InvalidArgument, 3, "command"),
    ("B45-not-an-object", "Bash", b'"true"', errors.InvalidArgument, 3, ""),
    ("PE-14-not-json", "Bash", b"{", errors.InvalidArgument, 3, ""),
    ("PE-14-duplicate-key", "Bash", b'{"command":"true","command":"id"}', errors.InvalidArgument, 3, "command"),
    ("PE-14-lone-surrogate", "Bash", b'{"command":"\\ud800"}', errors.InvalidArgument, 3, ""),
    ("PE-14-nan", "Read", b'{"path":"/workspace/x","offset":NaN}', errors.InvalidArgument, 3, ""),
    ("PE-14-2^53+1", "Read", b'{"path":"/workspace/x","offset":9007199254740993}', errors.InvalidArgument, 3, ""),
    ("invalid-utf8", "Bash", b'{"command":"\xff"}', errors.InvalidArgument, 3, ""),
    ("NUL", "Exec", b'{"argv":["echo","a\\u0000b"]}', errors.InvalidArgument, 3, "NUL"),
    ("R32-env-name", "Bash", b'{"command":"true","env":{"A=B":"c"}}', errors.InvalidArgument, 3, ""),
    ("deep", "Bash", b'{"command":' + b"[" * 100 + b"]" * 100 + b"}", errors.LimitExceeded, 8, "64"),
    (
        "R30-4-MiB-and-1-byte",
        "Bash",
        json.dumps({"command": "#" * (4 * MIB)}).encode()[: 4 * MIB + 1],
        errors.LimitExceeded,
        code_pb2.RESOURCE_EXHAUSTED,
        str(4 * MIB),
    ),
    (
        "R31-one-argument-of-128-KiB",
        "Exec",
        json.dumps({"argv": ["true", "x" * 128 * 1024]}).encode(),
        errors.LimitExceeded,
        code_pb2.RESOURCE_EXHAUSTED,
        "131071",
    ),
]


@pytest.fixture
async def raw(daemon):
    """A stub that sends bytes as they are."""
    async with grpc.aio.insecure_channel(
        f"unix:{daemon.run}/principals/agent/opensafe.sock", options=[("grpc.max_send_message_length", 64 * MIB)]
    ) as channel:
        yield exec_pb2_grpc.ExecServiceStub(channel)


async def send(raw, session, sandbox, tool, arguments, call_id="bad"):
    start = exec_pb2.StartCall(
        session_id=session, sandbox_id=sandbox, call_id=call_id, tool=tool, arguments_json=arguments
    )
    call = raw.Exec(iter([exec_pb2.ExecRequest(start=start)]))
    return [response async for response in call]


@pytest.mark.parametrize(
    ("tool", "arguments", "error", "code", "text"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
async def test_refused_with_a_typed_error_and_recorded(
    daemon, agent, raw, session, sandbox, tool, arguments, error, code, text
):
    before = daemon.starts()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await send(raw, session, sandbox, tool, arguments)
    assert caught.value.code().value[0] == code
    assert text in (caught.value.details() or "")
    assert daemon.starts() == before
    last = [json.loads(record.line) async for record in agent.tail_audit(1)][-1]
    assert (last["kind"], last["reason"], last["session_id"]) == ("refusal", error.reason, session)


async def test_R30_4_MiB_of_arguments_are_taken(raw, session, sandbox):
    frame = len(json.dumps({"path": "/workspace/big", "content": ""}))
    arguments = json.dumps({"path": "/workspace/big", "content": "x" * (4 * MIB - frame)}).encode()
    assert len(arguments) == 4 * MIB
    responses = await send(raw, session, sandbox, "Write", arguments, "big")
    assert responses[-1].outcome.exit_code == 0


async def test_a_message_larger_than_any_call_is_refused_by_the_transport(raw, session, sandbox):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await send(raw, session, sandbox, "Bash", b"x" * (5 * MIB))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("call_id", ["", "a b", "x" * 129, "../up", "-dash", "é", "a\nb"])
async def test_a_call_id_out_of_form_is_refused(agent, session, sandbox, call_id):
    with pytest.raises(errors.InvalidArgument, match="call_id"):
        await agent.run_call(session, sandbox, call_id, "Bash", {"command": "true"})


@pytest.mark.parametrize("call_id", ["a", "x" * 128, "toolu_01:A-b.c"])
async def test_a_call_id_in_form_is_taken(agent, session, sandbox, call_id):
    assert (await agent.run_call(session, sandbox, call_id, "Bash", {"command": "true"})).outcome.exit_code == 0


@pytest.mark.parametrize("text", ["if true; then", "echo 'open", "echo $((", "a() {", "echo ${x"])
async def test_a_shell_text_that_does_not_parse_never_runs_unseen(daemon, agent, session, sandbox, text):
    before = daemon.starts()
    result = await agent.run_call(session, sandbox, "unparsable", "Bash", {"command": text})
    assert result.verdict.action is not Action.ALLOW
    assert result.outcome.kind in (OutcomeKind.REVIEW_PENDING, OutcomeKind.BLOCKED)
    assert daemon.starts() == before


async def test_the_first_message_must_start_a_call(raw):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in raw.Exec(iter([exec_pb2.ExecRequest(stdin=b"x")])):
            pass
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_CP_03_session_and_sandbox_of_another_principal_are_not_found(daemon, session, sandbox):
    async with daemon.client("other") as other:
        own = await other.create_session("intruder")
        for theirs in ((session, sandbox), (own, sandbox)):
            with pytest.raises(errors.NotFound):
                await other.run_call(*theirs, "foreign", "Bash", {"command": "true"})
        with pytest.raises(errors.NotFound):
            await other.delete_sandbox(sandbox)
        with pytest.raises(errors.NotFound):
            await other.close_session(session)
        assert await other.list_sandboxes() == ()
        await other.close_session(own)


async def test_a_program_that_does_not_exist_was_not_started(agent, session, sandbox):
    result = await agent.run_call(session, sandbox, "missing", "Exec", {"argv": ["no-such-program"]})
    if result.verdict.action is Action.ALLOW:
        assert result.outcome.kind is OutcomeKind.NOT_STARTED
        assert "no-such-program" in result.outcome.detail
    else:
        assert result.outcome.kind is OutcomeKind.BLOCKED


async def test_a_program_that_the_image_lacks_is_told_as_such(agent, session, sandbox):
    result = await agent.run_call(session, sandbox, "lacking", "Exec", {"argv": ["node", "--version"]})
    assert result.outcome.kind is OutcomeKind.NOT_STARTED
    assert result.outcome.detail == "node: exec: No such file or directory"


async def test_a_client_that_breaks_the_protocol_is_told_so_and_ends_its_call(agent, raw, session, sandbox):
    start = exec_pb2.StartCall(
        session_id=session,
        sandbox_id=sandbox,
        call_id="broken",
        tool="Bash",
        arguments_json=b'{"command":"sleep 1000"}',
    )
    call = raw.Exec()
    await call.write(exec_pb2.ExecRequest(start=start))
    await call.read()
    await call.write(exec_pb2.ExecRequest(start=start))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _drain(call)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    async for _ in agent.attach(session, "broken"):
        pass
    assert (await agent.get_call(session, "broken")).outcome.kind is OutcomeKind.CANCELLED


async def _drain(call):
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_the_caps_on_sessions_and_sandboxes_name_themselves(own_daemon):
    daemon = own_daemon(caps="sessions_per_principal = 2\nsandboxes = 1")
    async with daemon.client() as agent:
        session = await agent.create_session("one")
        await agent.create_session("two")
        with pytest.raises(errors.LimitExceeded, match="sessions_per_principal = 2"):
            await agent.create_session("three")
        await agent.create_sandbox(session)
        with pytest.raises(errors.LimitExceeded, match="sandboxes = 1"):
            await agent.create_sandbox(session)
