"""The client against a server that answers rightly, wrongly, late or not at all."""

import asyncio
import socket
from contextlib import aclosing

import pytest

from opensafe import errors
from opensafe.client import Client, Decided, Ended, SandboxSize, Started, Stderr, Stdout, Usage
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind

PLACE = ("ses-00000000000000000001", "sb-00000000000000000001", "call-1")


async def test_events_of_a_call_come_in_order_and_end_with_the_outcome(client):
    events = [event async for event in client.call(*PLACE, "Exec", {"argv": ["ls"]})]
    assert [type(event) for event in events] == [Decided, Started, Stdout, Stderr, Ended]
    assert events[0].verdict.action is Action.ALLOW
    assert events[-1].outcome == Outcome(
        kind=OutcomeKind.EXITED, exit_code=3, run_ns=2_000_000, stdout_bytes=4, stderr_bytes=256
    )


async def test_r22_every_byte_value_arrives_unchanged(client):
    result = await client.run_call(*PLACE, "Exec", {"argv": ["ls"]})
    assert result.stderr == bytes(range(256))


async def test_r17_stdin_is_closed_unless_asked_for(client, daemon):
    await client.run_call(*PLACE, "Exec", {"argv": ["cat"]})
    assert daemon.started[-1].stdin is False


@pytest.mark.parametrize("data", [b"", b"\x00\x01\x02\xff", b"\xe2\x89\xa4" * 300_000], ids=["eof", "binary", "large"])
async def test_r19_r20_stdin_arrives_whole_and_its_end_too(client, daemon, data):
    result = await client.run_call(*PLACE, "Echo", {}, stdin=data)
    assert result.stdout == data
    assert daemon.started[-1].stdin is True
    assert daemon.largest <= 256 * 1024


async def test_stdin_can_be_a_stream(client):
    async def pieces():
        for piece in (b"\xe2", b"\x89", b"\xa4"):
            yield piece

    assert (await client.run_call(*PLACE, "Echo", {}, stdin=pieces())).stdout == "≤".encode()


async def test_a_program_that_ends_without_reading_stdin_ends_the_call(client):
    async def endless():
        while True:
            yield b"y\n"

    for _ in range(20):  # a write that meets the end of the stream is a race
        assert (await client.run_call(*PLACE, "Deaf", {}, stdin=endless())).outcome.exit_code == 0


async def test_an_input_that_breaks_off_is_not_sent_as_a_whole_one(client):
    async def broken():
        yield b"rm -rf /tmp/"
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await client.run_call(*PLACE, "Echo", {}, stdin=broken())


async def test_r25_r26_a_collected_call_keeps_a_bounded_head_and_counts_the_rest(client):
    result = await client.run_call(*PLACE, "Flood", {"chunks": 64}, keep=100_000)
    assert len(result.stdout) == 100_000
    assert result.stdout_dropped == 64 * 65536 - 100_000
    assert result.stderr_dropped == 0


async def test_r9_a_stream_that_ends_without_outcome_is_no_success(client):
    with pytest.raises(errors.Unavailable, match=r"without an outcome.*same call_id"):
        await client.run_call(*PLACE, "Vanish", {})


async def test_g51_leaving_a_call_early_cancels_it(client, daemon):
    async with aclosing(client.call(*PLACE, "Hang", {})) as events:
        await anext(events)
    await asyncio.wait_for(daemon.cancelled.wait(), 10)


async def test_an_action_that_is_none_of_ours_is_refused(client):
    with pytest.raises(errors.OpenSafeError, match="unknown action"):
        await client.run_call(*PLACE, "Undecided", {})


@pytest.mark.parametrize("kind", [kind for kind in OutcomeKind if kind is not OutcomeKind.EXITED])
async def test_r9_no_outcome_but_exited_carries_an_exit_code(client, kind):
    outcome = (await client.run_call(*PLACE, "End", {"kind": kind.name})).outcome
    assert outcome.kind is kind
    assert outcome.exit_code is None
    assert (outcome.signal is None) == (kind is not OutcomeKind.SIGNALLED)


async def test_g63_a_denial_carries_rule_value_and_remedy(client):
    (rule,) = (await client.run_call(*PLACE, "End", {"kind": "BLOCKED"})).verdict.deciding()
    assert rule.id == "egress.domain.allowlist"
    assert rule.value == "evil.example.com"
    assert rule.remedy == "Use a listed domain."


@pytest.mark.parametrize("arguments", [{"x": "\ud800"}, {"x": object()}], ids=["surrogate", "object"])
async def test_arguments_that_are_no_json_never_leave_the_client(client, daemon, arguments):
    with pytest.raises(errors.InvalidArgument):
        await client.run_call(*PLACE, "Exec", arguments)
    assert daemon.started == []


async def test_the_daemons_error_arrives_as_the_exception_it_was(client):
    with pytest.raises(errors.UnknownTool) as caught:
        await client.run_call(*PLACE, "Unregistered", {})
    assert caught.value.value == "Unregistered"
    assert str(caught.value) == "no such tool; got Unregistered. Use Bash."
    with pytest.raises(errors.LimitExceeded, match="limit 64 sessions"):
        await client.create_session("greedy")
    with pytest.raises(errors.NotPermitted, match="template not allowed"):
        await client.create_sandbox(PLACE[0], "forbidden")
    with pytest.raises(errors.NotFound):
        await client.get_sandbox("sb-none")


async def test_every_operation_returns_what_the_daemon_said(client, daemon):
    assert await client.create_session("agent") == PLACE[0]
    made = await client.create_sandbox(PLACE[0], size=SandboxSize(memory_bytes=1 << 30))
    assert (made.sandbox_id, made.create_ns) == (PLACE[1], 5_000_000)
    assert daemon.asked_size.memory_bytes == 1 << 30
    assert await client.list_sandboxes() == (await client.get_sandbox(PLACE[1]),)
    assert (await client.decide(PLACE[0], "Bash", {"command": "x"})).action is Action.BLOCK
    permit = await client.begin(PLACE[0], "call-2", "Browse", {})
    await client.finish(PLACE[0], permit.permit, Outcome(kind=OutcomeKind.LOST, detail="gone"))
    assert daemon.finished.permit == "permit-1"
    assert (await client.status()).checks[0].refused
    (review,) = await client.list_reviews()
    assert (await client.approve_review(review.review_id, review.digest)).action is Action.ALLOW
    with pytest.raises(errors.OpenSafeError, match="another call"):
        await client.approve_review(review.review_id, "e" * 64)
    await client.reject_review(review.review_id, "no")
    assert daemon.rejected == "no"
    assert [row async for row in client.watch_reviews()] == [review]
    assert await client.report_usage(PLACE[0], tokens=7) == Usage(tokens=7)
    assert (await client.ban("default", "ada", "leaks")).ended_calls == 2
    assert [(row.principal, row.agent) for row in await client.list_bans()] == [("default", "ada")]
    await client.unban("default", "ada")
    assert await client.list_bans() == ()
    assert [record.index async for record in client.tail_audit(3)] == [0, 1, 2]
    found = await client.search_audit(action=Action.BLOCK, kinds={"decision"}, text="curl", before_index=7)
    assert (found.records[0].index, found.next_before) == (6, 6)
    for asked in (b"ACTION_BLOCK", b"kinds: 'decision'", b"text: 'curl'"):
        assert asked in found.records[0].line
    assert await client.prove_record(7) == b'{"index":7}'
    report = await client.verify_audit()
    assert (report.ok, report.records, report.findings[0].kind, report.findings_total) == (
        False,
        9,
        "chain_broken",
        2000,
    )
    assert b"".join([piece async for piece in client.export_evidence(session_id="bc")]) == b"abc"
    assert await client.health()
    await client.delete_sandbox(PLACE[1])
    await client.close_session(PLACE[0])
    assert daemon.closed == [PLACE[0]]


async def test_a_missing_socket_is_named_with_what_to_do(tmp_path):
    async with Client.connect(tmp_path / "none.sock") as client:
        with pytest.raises(errors.Unavailable, match=r"none\.sock is not there.*opensafe up"):
            await client.status()
        with pytest.raises(errors.Unavailable, match=r"none\.sock is not there"):
            await client.run_call(*PLACE, "Exec", {"argv": ["ls"]})


async def test_a_socket_without_daemon_is_named_with_what_to_do(tmp_path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "dead.sock"))
    async with Client.connect(tmp_path / "dead.sock") as client:
        with pytest.raises(errors.Unavailable, match=r"dead\.sock has no daemon behind it"):
            await client.status()


async def test_a_path_no_socket_can_have_is_named_with_the_limit(tmp_path):
    with pytest.raises(errors.InvalidArgument, match=r"too long.*limit 107 bytes"):
        Client.connect(tmp_path / ("x" * 120))


async def test_a_path_with_odd_characters_is_taken_as_it_is(start_double, tmp_path):
    daemon = await start_double(tmp_path / "a %41?#é.sock")
    async with Client.connect(daemon.path) as client:
        assert await client.health()


async def test_another_programs_server_is_no_daemon(tmp_path):
    async def nonsense(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_unix_server(nonsense, tmp_path / "web.sock")
    async with server, Client.connect(tmp_path / "web.sock") as client:
        with pytest.raises(errors.Unavailable):
            await client.status()
