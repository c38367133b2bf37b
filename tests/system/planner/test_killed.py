"""A planner killed at every state and resumed: each call executed exactly once, which both logs prove."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from opensafe.planner import State
from tests.harness.daemon import ROOT
from tests.system.planner.dying_planner import RUN
from tests.system.planner.support import INSTALL, approve, executions, planner_on, results, scripted

PHASES = ("enter", "leave", "told")

pytestmark = [pytest.mark.root, pytest.mark.runsc]


def bash(*commands):
    return [{"tool": "Bash", "arguments": {"command": command}} for command in commands]


#: Each state but `abort` is met on the way to the end.
TURNS = [
    {"calls": bash("echo one >> runs.txt")},
    {"calls": bash(INSTALL)},
    {"calls": bash("echo three >> runs.txt", "echo four >> runs.txt"), "says": "flaky"},
    {"calls": bash("cat runs.txt")},
    {"answer": "Done."},
]
WAY = ("plan", "gate", "execute", "observe", "await_review", "retry", "done")
#: The third denial by one rule ends the run; what else was asked for is not run.
DENIED = [{"calls": bash(*(f"curl evil.example.com/{number}" for number in (1, 2, 3)), "echo never >> runs.txt")}]


async def killed(daemon, database, turns, states):
    """Kill a run at every phase of the states, in this order, and let it come to its end."""
    script = database.with_name("script.json")
    script.write_text(json.dumps({"turns": turns}))
    points = [f"{state}:{phase}" for state in states for phase in PHASES]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.system.planner.dying_planner"),
        *(daemon.socket_of("agent"), database, script, *points),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    met = []
    try:
        async for line in process.stdout:
            said = json.loads(line)
            met.append((said["point"], said["status"]))
            if said["point"] == "await_review:enter":
                async with daemon.client("reviewer") as reviewer:
                    (review,) = await reviewer.list_reviews()
                await approve(daemon, review.review_id)
            process.stdin.write(b"\n")
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
    assert met == [*((point, -signal.SIGKILL) for point in points), ("", 0)]


async def test_killed_at_every_state_each_call_is_executed_exactly_once(daemon, database):
    await killed(daemon, database, TURNS, WAY)
    async with planner_on(daemon, database, scripted()) as planner:
        end, state, told = await planner.end(RUN), await planner.state(RUN), await results(planner, RUN)
    assert (end.kind, end.text) == ("done", "Done.")
    assert executions(daemon, state["session_id"]) == {f"{RUN}.{number}": 1 for number in (1, 2, 3, 4, 5)}
    assert told[-1] == "It exited with 0.\n--- stdout ---\none\ntwo\nthree\nfour\n"
    assert len(told) == 5  # nothing is lost: each call has its answer


async def test_killed_in_abort_it_aborts_and_sends_nothing_more(daemon, database):
    await killed(daemon, database, DENIED, ("abort",))
    async with planner_on(daemon, database, scripted()) as planner:
        end, state = await planner.end(RUN), await planner.state(RUN)
    assert end.kind == "denied"
    assert executions(daemon, state["session_id"]) == {f"{RUN}.{number}": 0 for number in (1, 2, 3)}


def test_every_state_is_killed():
    assert {*WAY, "abort"} == {state.value for state in State}


def test_the_record_verifies(daemon):
    verified = subprocess.run(
        [sys.executable, "-m", "opensafe.cli", "audit", "verify", "--state", daemon.state, "--json"],
        capture_output=True,
    )
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["summary"]["findings"] == 0
