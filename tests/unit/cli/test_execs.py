"""`exec` and calls that are left running: what is sent, what is said, and the status."""

import json

import pytest

from opensafe._proto.v1 import exec_pb2
from opensafe.cli.execs import signal_number
from opensafe.cli.exits import Exit
from opensafe.errors import InvalidArgument

SESSION = "ses-00000000000000000001"
SANDBOX = "sb-00000000000000000001"


async def test_a_detached_call_prints_its_id_and_keeps_its_place(opensafe, daemon):
    ended = await opensafe("run", "--detach", "--tag", "build", "--call-id", "mine", "make")
    assert (ended.status, ended.stdout) == (0, b"mine\n")
    (start,) = daemon.started
    assert (start.tag, start.background, start.on_disconnect) == ("build", True, exec_pb2.ON_DISCONNECT_KEEP)
    assert daemon.closed == []
    assert SANDBOX in ended.stderr


async def test_a_call_that_is_not_detached_is_not_kept(opensafe, daemon):
    await opensafe("run", "make")
    (start,) = daemon.started
    assert (start.tag, start.background, start.on_disconnect) == ("", False, exec_pb2.ON_DISCONNECT_KILL)


async def test_a_detached_call_that_does_not_start_says_why_and_leaves_nothing(opensafe, daemon):
    ended = await opensafe("call", "--detach", "End", '{"kind": "BLOCKED"}')
    assert (ended.status, ended.stdout) == (Exit.DENIED, b"")
    assert "egress.domain.allowlist" in ended.stderr
    assert daemon.closed == [SESSION]


async def test_a_detached_call_reports_itself(opensafe, daemon):
    ended = await opensafe("run", "--detach", "--json", "--call-id", "mine", "make")
    assert json.loads(ended.stdout)["summary"] == {"call_id": "mine", "session_id": SESSION, "exec_id": "exec-1"}


@pytest.mark.parametrize("options", [["--tty"], ["--tty", "--detach"], ["--tty", "--json"]])
async def test_a_terminal_is_refused_where_there_is_none_or_nobody_would_see_it(opensafe, daemon, options):
    ended = await opensafe("run", *options, "top")
    assert ended.status == Exit.REQUEST
    assert daemon.started == []


async def test_calls_of_all_sandboxes_are_listed_page_by_page(opensafe, daemon):
    ended = await opensafe("exec", "list")
    assert [line.split()[0] for line in ended.stdout.decode().splitlines()] == ["CALL", "c1", "c2", "c3"]
    report = json.loads((await opensafe("exec", "list", "--json", "--limit", "2")).stdout)
    assert report["summary"] == {"calls": 2, "running": 2}
    ended = await opensafe("exec", "list", "--state", "sleeping")
    assert ended.status == Exit.REQUEST
    assert "parked, running, ended" in ended.stderr


async def test_an_attached_call_is_passed_through_with_its_status(opensafe, daemon):
    ended = await opensafe("exec", "attach", "c1", "--offset", "7")
    assert (ended.status, ended.stdout) == (5, b"attached")
    (place,) = daemon.attached
    assert (place.session_id, place.call_id, place.offset) == (SESSION, "c1", 7)
    assert "bytes 7 to 9 of the output are not retained" in ended.stderr
    report = json.loads((await opensafe("exec", "attach", "c1", "--json")).stdout)
    assert report["details"]["missed_bytes"] == 2


async def test_a_call_can_be_attached_to_by_its_tag(opensafe, daemon):
    ended = await opensafe("exec", "attach", "--tag", "t")
    assert (ended.status, daemon.attached[0].call_id) == (5, "c1")


@pytest.mark.parametrize("named", [[], ["c1", "--tag", "t"]])
async def test_what_to_attach_to_is_named_once(opensafe, daemon, named):
    assert (await opensafe("exec", "attach", *named)).status == Exit.REQUEST


async def test_a_signal_is_sent_by_name_or_number(opensafe, daemon):
    await opensafe("exec", "signal", "c1")
    await opensafe("exec", "signal", "c1", "int", "--tree")
    await opensafe("exec", "signal", "c1", "9", "--session", "ses-2")
    assert daemon.signalled == [("c1", 15, False), ("c1", 2, True), ("c1", 9, False)]
    ended = await opensafe("exec", "signal", "none", "9")
    assert ended.status == Exit.REQUEST
    assert "no session of yours has such a call" in ended.stderr


def test_a_signals_name_is_that_of_kill():
    assert [signal_number(name) for name in ("TERM", "SIGTERM", "term", "15")] == [15] * 4
    with pytest.raises(InvalidArgument):
        signal_number("NONE")
