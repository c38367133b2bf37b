"""How calls end: on time, as a whole tree, counted, and reported as what they were."""

import asyncio
import json
import subprocess
import sys

import pytest

from opensafe import errors
from opensafe.client import Ended, RunLimits, Started, Terminal, collect
from opensafe.model.outcome import OutcomeKind
from tests.system.exec.support import Place, eventually, held, until_output


async def test_R2_after_the_deadline_nothing_writes_any_more(place):
    script = await place.script(
        "late.sh", "(setsid bash -c 'while true; do echo x >> late.txt; done' &)\nsleep 300 &\nwait\n"
    )
    result = await place.run("late", ["bash", script], timeout_ms=500)
    assert result.outcome.kind is OutcomeKind.DEADLINE
    assert {"bash", "sleep"}.isdisjoint(place.processes())
    sizes = [(await place.run(f"size-{number}", "wc -c late.txt")).stdout for number in range(2)]
    assert sizes[0] == sizes[1]
    assert int(sizes[0].split()[0]) > 0


@pytest.mark.parametrize("wall_ms", [50, 400])
async def test_R6_a_deadline_is_held_and_a_call_within_it_is_not_touched(place, wall_ms):
    result = await place.run("over", "sleep 1000", limits=RunLimits(wall_ms=wall_ms))
    assert (result.outcome.kind, result.outcome.detail) == (OutcomeKind.DEADLINE, f"limit {wall_ms} ms")
    assert result.outcome.run_ns >= wall_ms * 900_000
    assert (await place.run("within", "true", limits=RunLimits(wall_ms=30_000))).outcome.exit_code == 0


async def test_R6_of_granted_argument_and_asked_the_smallest_deadline_holds(place):
    for call_id, timeout_ms, wall_ms, holds in (("argument", 200, 9000, 200), ("asked", 9000, 300, 300)):
        limits = RunLimits(wall_ms=wall_ms)
        result = await place.run(call_id, "sleep 1000", timeout_ms=timeout_ms, limits=limits)
        assert result.outcome.detail == f"limit {holds} ms"


async def test_R7_a_call_that_asks_for_none_has_a_deadline_and_one_that_asks_for_more_gets_no_more(daemon, place):
    await place.run("default", "true")
    await place.run("most", "true", limits=RunLimits(wall_ms=3_600_000, output_bytes=1 << 30))
    records = [json.loads(line) for line in (daemon.state / "audit" / "segment-000000.jsonl").read_text().splitlines()]
    granted = {
        record["call_id"]: record["result"]["grant"]["limits"]["wall_ms"]
        for record in records
        if record["kind"] == "decision" and record["session_id"] == place.session and record["call_id"]
    }
    assert 0 < granted["default"] <= 3_600_000
    assert granted["most"] == granted["default"]
    asked = {r["call_id"]: r["input"]["call"]["asked"] for r in records if r["kind"] == "decision" and r["call_id"]}
    assert asked["most"]["wall_ms"] == 3_600_000


@pytest.mark.parametrize("value", [-1, 1, 49, 1 << 53, (1 << 63) - 1, 1 << 63])
@pytest.mark.parametrize("field", ["wall_ms", "output_bytes"])
async def test_R34_limits_out_of_bounds_are_refused_and_none_means_none(daemon, place, field, value):
    before = daemon.starts()
    if field == "output_bytes" and 0 < value < 100:
        result = await place.run("bytes", "seq 1000", limits=RunLimits(output_bytes=value))
        assert (result.outcome.kind, len(result.stdout)) == (OutcomeKind.OUTPUT_LIMIT, value)
        return
    with pytest.raises(errors.InvalidArgument):
        await place.run("bad", "true", limits=RunLimits(**{field: value}))
    assert daemon.starts() == before
    assert (await place.run("none", "true", limits=RunLimits(**{field: 0}))).outcome.exit_code == 0


async def test_R9_no_end_is_told_while_the_program_runs(place):
    script = await place.script("up.sh", "echo up; read line; exit 7")
    call = place.call("runs", ["bash", script], interactive=True)
    await until_output(call, b"up")
    assert (await place.client.get_call(place.session, "runs")).outcome is None
    await call.send(b"\n")
    events = [event async for event in call]
    assert [type(event) for event in events] == [Ended]
    assert events[0].outcome.exit_code == 7


async def test_R10_R11_many_short_calls_with_long_deadlines_leave_nothing_and_keep_their_codes(daemon, place):
    async def one(number):
        result = await place.run(f"exit-{number}", f"exit {number % 256}", limits=RunLimits(wall_ms=3_600_000))
        return result.outcome.exit_code

    async def many(start):
        for first in range(start, start + 64, 8):
            codes = await asyncio.gather(*(one(number) for number in range(first, first + 8)))
            assert codes == [number % 256 for number in range(first, first + 8)]

    await many(0)
    before = held(daemon)
    await many(64)
    await many(128)
    after = await eventually(lambda: asyncio.to_thread(held, daemon), lambda now: _flat(before, now))
    assert _flat(before, after)


async def test_R11_calls_that_all_run_at_once_end_each_with_its_own_code_whoever_ends_first(place):
    many = 24
    calls = [
        place.call(f"own-{number}", f"echo up; read line; exit {number + 1}", interactive=True)
        for number in range(many)
    ]
    signalled = place.call("own-signalled", "echo up; exec sleep 1000")
    await asyncio.gather(*(until_output(call, b"up") for call in (*calls, signalled)))

    async def end(call):
        await call.send(b"\n")
        return [event async for event in call][-1].outcome

    ended = await asyncio.gather(*(end(call) for call in reversed(calls)))
    assert [(one.kind, one.exit_code) for one in ended] == [(OutcomeKind.EXITED, n) for n in range(many, 0, -1)]
    await signalled.signal(9)
    outcome = [event async for event in signalled][-1].outcome
    assert (outcome.kind, outcome.signal) == (OutcomeKind.SIGNALLED, 9)


def _flat(before, now):
    return all(new <= old + 2 for old, new in zip(before, now, strict=True))


async def test_R4_a_signal_reaches_the_program_or_its_whole_tree_and_no_neighbour(place):
    script = await place.script("trap.sh", "trap 'echo caught; exit 9' TERM; echo up; while true; do sleep 0.1; done")
    await place.background("neighbour", ["bash", script])
    call = place.call("hit", ["bash", script])
    await until_output(call, b"up")
    await place.client.signal_call(place.session, "hit", 15)
    result = [event async for event in call][-1]
    assert result.outcome.exit_code == 9
    strays = await place.script("strays.sh", "(setsid sleep 1000 &)\nsleep 1000 & sleep 1000 & echo up; wait\n")
    call = place.call("tree", ["bash", strays])
    await until_output(call, b"up")
    await call.signal(9, whole_tree=True)
    assert [event async for event in call][-1].outcome.signal == 9
    assert place.processes().count("bash") == 1
    assert (await place.client.get_call(place.session, "neighbour")).state == "running"


async def test_a_signal_that_cannot_be_sent_is_a_typed_error(place):
    await place.run("ended", "true")
    with pytest.raises(errors.Conflict, match="does not run"):
        await place.client.signal_call(place.session, "ended", 15)
    await place.background("bg", "sleep 1000")
    for number in (0, -1, 65, 1 << 30):
        with pytest.raises(errors.InvalidArgument):
            await place.client.signal_call(place.session, "bg", number)
    await place.client.signal_call(place.session, "bg", 15)
    assert (await collect(place.attach("bg"), 10)).outcome.signal == 15


async def test_G51_cancelling_ends_every_process_of_the_call(place):
    script = await place.script("two.sh", "sleep 999 &\necho up\nsleep 999\n")
    call = place.call("two", ["bash", script])
    await until_output(call, b"up")
    assert len(place.processes()) > 3
    await call.cancel()
    ended = [event async for event in call][-1]
    assert ended.outcome.kind is OutcomeKind.CANCELLED
    assert {"bash", "sleep"}.isdisjoint(place.processes())


async def test_limits_and_terminals_are_recomputed_by_replay(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        place = Place(daemon, agent, session, (await agent.create_sandbox(session)).sandbox_id)
        await _in_a_terminal(place)
    assert daemon.stop() == 0
    command = [sys.executable, "-m", "opensafe.cli", "audit", "verify", "--state", daemon.state, "--replay"]
    verified = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stdout + verified.stderr


async def test_a_call_that_is_blocked_or_parked_is_told_so_in_the_background_too(place):
    for call_id, command, kind in (
        ("blocked", "curl evil.example.com", OutcomeKind.BLOCKED),
        ("parked", "npm install", OutcomeKind.REVIEW_PENDING),
    ):
        events = [event async for event in place.call(call_id, command, background=True)]
        assert not any(isinstance(event, Started) for event in events)
        assert events[-1].outcome.kind is kind


async def _in_a_terminal(place):
    script = await place.script("size.sh", "stty size")
    size, limits = Terminal(columns=91, rows=17), RunLimits(wall_ms=5000, output_bytes=999)
    result = await collect(place.call("tty", ["bash", script], terminal=size, limits=limits), 100)
    assert result.stdout == b"17 91\r\n"
