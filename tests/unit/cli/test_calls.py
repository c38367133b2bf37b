"""`run` and `call`: the streams and the exit status are the command's own, everything else is said on stderr."""

import asyncio
import json
import signal

import pytest

from opensafe.cli.exits import MEANINGS, Exit


async def test_run_passes_streams_and_status_through(opensafe, daemon):
    ended = await opensafe("run", "--", "ls", "-la")
    assert (ended.status, ended.stdout) == (3, b"ls -la")
    assert json.loads(daemon.started[0].arguments_json) == {"argv": ["ls", "-la"]}


async def test_run_takes_the_programs_options_as_the_programs(opensafe, daemon):
    await opensafe("run", "--timeout", "1.5", "--cwd", "/tmp", "ls", "--json", "--timeout", "9")
    (start,) = daemon.started
    assert json.loads(start.arguments_json) == {
        "argv": ["ls", "--json", "--timeout", "9"],
        "timeout_ms": 1500,
        "cwd": "/tmp",
    }


async def test_r22_r24_output_is_bytes(opensafe, daemon):
    ended = await opensafe("call", "Echo", "{}", stdin=b"")
    assert (ended.status, ended.stdout) == (0, b"")
    ended = await opensafe("call", "Flood", '{"chunks": 64}')
    assert len(ended.stdout) == 64 * 65536


async def test_r19_piped_input_reaches_the_program(start, daemon):
    """`run` always asks for Exec, so what is checked is that it announces its input."""
    process = await start("run", "cat", stdin=asyncio.subprocess.PIPE)
    await process.communicate(b"\x00\xff" * 100_000)
    assert daemon.started[0].stdin is True


async def test_r17_without_input_stdin_is_closed(opensafe, daemon):
    await opensafe("run", "cat")
    assert daemon.started[0].stdin is False


async def test_a_place_made_for_one_call_ends_with_it(opensafe, daemon):
    await opensafe("run", "true")
    assert daemon.closed == ["ses-00000000000000000001"]


async def test_a_kept_sandbox_stays_and_is_named(opensafe, daemon):
    ended = await opensafe("run", "--keep", "true")
    assert daemon.closed == []
    assert "sb-00000000000000000001" in ended.stderr


async def test_a_named_sandbox_is_used_with_its_session(opensafe, daemon):
    await opensafe("run", "--sandbox", "sb-00000000000000000001", "--call-id", "mine", "true")
    (start,) = daemon.started
    assert (start.session_id, start.call_id) == ("ses-00000000000000000001", "mine")
    assert (daemon.opened, daemon.closed) == ([], [])


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ({"kind": "EXITED", "exit_code": 0}, 0),
        ({"kind": "EXITED", "exit_code": 125}, 125),
        ({"kind": "SIGNALLED", "signal": 9}, 137),
        ({"kind": "NOT_STARTED", "detail": "execve: ENOENT"}, Exit.NOT_STARTED),
        ({"kind": "DEADLINE"}, Exit.LIMIT),
        ({"kind": "OUTPUT_LIMIT"}, Exit.LIMIT),
        ({"kind": "CANCELLED"}, Exit.INTERRUPTED),
        ({"kind": "BLOCKED"}, Exit.DENIED),
        ({"kind": "REVIEW_PENDING"}, Exit.REVIEW),
        ({"kind": "REVIEW_REJECTED", "detail": "no"}, Exit.DENIED),
        ({"kind": "REVIEW_EXPIRED"}, Exit.DENIED),
        ({"kind": "LOST", "detail": "sentry died"}, Exit.LOST),
    ],
    ids=lambda value: value["kind"].lower() if isinstance(value, dict) else str(int(value)),
)
async def test_each_outcome_has_its_status(opensafe, daemon, outcome, status):
    ended = await opensafe("call", "End", json.dumps(outcome))
    assert ended.status == status
    assert ended.stdout == b""
    assert bool(ended.stderr) == (outcome["kind"] != "EXITED")
    assert outcome.get("detail", "") in ended.stderr


async def test_g63_a_denial_teaches(opensafe, daemon):
    ended = await opensafe("call", "End", '{"kind": "BLOCKED"}')
    for part in (
        "blocked by policy",
        "egress.domain.allowlist (high): evil.example.com is not on the list",
        "remedy: Use a listed domain.",
        "No reviewer can allow a blocked call",
        "decision dec-1, bundle 7, trace " + "ab" * 16,
    ):
        assert part in ended.stderr


async def test_g63_a_parked_call_says_how_to_ask(opensafe, daemon):
    arguments = ("End", '{"kind": "REVIEW_PENDING"}')
    once = await opensafe("call", *arguments)
    assert "opensafe review show rev-00000000000000000001" in once.stderr
    assert "--wait" in once.stderr
    staying = await opensafe("call", *arguments, "--sandbox", "sb-00000000000000000001", "--call-id", "mine")
    assert "--call-id mine" in staying.stderr


async def test_r26_output_that_was_cut_is_said(opensafe, daemon):
    outcome = {"kind": "EXITED", "exit_code": 0, "truncated": True, "stdout_bytes": 99}
    ended = await opensafe("call", "End", json.dumps(outcome))
    assert "output was cut; written were 99 + 0 bytes" in ended.stderr


async def test_r9_a_lost_stream_is_no_success(opensafe, daemon):
    ended = await opensafe("call", "Vanish", "{}")
    assert (ended.status, ended.stdout) == (Exit.UNAVAILABLE, b"half")
    assert "without an outcome" in ended.stderr


async def test_json_reports_the_call_and_keeps_the_status(opensafe, daemon):
    ended = await opensafe("call", "--json", "Exec", '{"argv": ["x"]}')
    report = json.loads(ended.stdout)
    assert ended.status == 3
    assert list(report) == ["schema", "version", "environment", "summary", "details"]
    assert report["schema"] == "opensafe.call/1"
    assert report["summary"] == {
        "action": "allow",
        "outcome": "exited",
        "exit_code": 3,
        "decision_ms": 0.9,
        "run_ms": 2.0,
    }
    assert report["details"]["stdout"] == {"text": "x"}
    assert list(report["details"]["stderr"]) == ["base64"]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, Exit.TERMINATED)], ids=["INT", "TERM"]
)
async def test_g51_a_signal_cancels_the_call_and_cleans_up(start, daemon, number, status):
    process = await start("call", "Hang", "{}")
    await daemon.hanging.wait()
    process.send_signal(number)
    assert await process.wait() == status
    await daemon.cancelled.wait()
    assert daemon.closed == ["ses-00000000000000000001"]


async def test_a_reader_that_goes_away_ends_the_call(start, daemon):
    process = await start("call", "Flood", '{"chunks": 1024}')
    await process.stdout.readexactly(1)
    process._transport.get_pipe_transport(1).close()
    assert await process.wait() == Exit.OUTPUT_CLOSED
    assert daemon.closed == ["ses-00000000000000000001"]


@pytest.mark.parametrize("text", ["[]", "{", "1", "\ud800", "{} {}"])
async def test_arguments_that_are_no_object_send_nothing(opensafe, daemon, text):
    ended = await opensafe("call", "Bash", text.encode("utf-8", "surrogatepass"))
    assert ended.status == Exit.REQUEST
    assert "no JSON object" in ended.stderr
    assert daemon.opened == []


async def test_arguments_can_come_from_stdin(opensafe, daemon):
    await opensafe("call", "Exec", "-", stdin=b'{"argv": ["from-stdin"]}')
    assert json.loads(daemon.started[0].arguments_json) == {"argv": ["from-stdin"]}


async def test_an_unknown_tool_is_the_requests_fault(opensafe, daemon):
    ended = await opensafe("call", "Unregistered", "{}")
    assert ended.status == Exit.REQUEST
    assert "no such tool; got Unregistered. Use Bash." in ended.stderr


async def test_no_daemon_is_said_with_the_socket_and_what_to_do(opensafe, tmp_path):
    ended = await opensafe("run", "true")
    assert ended.status == Exit.UNAVAILABLE
    assert str(tmp_path / "opensafe.sock") in ended.stderr
    assert "opensafe up" in ended.stderr


def test_our_statuses_are_no_commands():
    taken = {0, 1, 2, *range(64, 79), 120, *range(123, 128), *range(129, 193), *range(200, 246), 255}
    # Neither a report nor `up` passes a command's status through, and 126 means in a shell what it means here.
    own = set(MEANINGS) - {Exit.GOAL_MISSED, Exit.REFUSES_TO_SERVE, Exit.NOT_STARTED}
    assert own.isdisjoint(taken)
