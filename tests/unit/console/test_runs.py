"""Runs that people start: one at a time, their report kept, and none outlives its owner."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys

import pytest

from opensafe.console import runs
from opensafe.console.runs import Kind, Runner
from opensafe.errors import Conflict, HostUnsuitable, InvalidArgument

#: Ends at once with a report; and one that takes its time.
QUICK = Kind(id="quick", words=("fuzz", "list"), root=False, keeps="fuzz-list")
LONG = Kind(id="long", words=("redteam", "run", "--set", "policy"), root=False)
BAD = Kind(id="bad", words=("fuzz", "nothing"), root=False, keeps="bad")


@pytest.fixture(autouse=True)
def kinds(monkeypatch):
    for kind in (QUICK, LONG, BAD):
        monkeypatch.setitem(runs.KINDS, kind.id, kind)


@pytest.fixture
async def runner(tmp_path):
    runner = Runner(tmp_path)
    yield runner
    await runner.close()
    assert not runner.going


async def ended(runner):
    async with asyncio.timeout(60):
        await runner._watching


async def test_a_run_keeps_its_report(runner, tmp_path):
    await runner.start("quick", "alice")
    assert (runner.going, runner.current.by) == (True, "alice")
    await ended(runner)
    assert (runner.going, runner.current.status) == (False, 0)
    (kept,) = tmp_path.iterdir()
    assert kept.name.startswith("fuzz-list-")
    assert json.loads(kept.read_text())["schema"] == "opensafe.fuzz-list/1"


async def test_a_run_without_a_report_keeps_nothing_but_what_it_said(runner, tmp_path):
    await runner.start("bad", "alice")
    await ended(runner)
    assert runner.current.status not in (None, 0, 1)
    assert any("nothing" in line for line in runner.current.lines)
    assert list(tmp_path.iterdir()) == []


async def test_one_at_a_time_and_it_can_be_stopped(runner, tmp_path):
    await runner.start("long", "alice")
    with pytest.raises(Conflict):
        await runner.start("quick", "bob")
    runner.stop("bob")
    await ended(runner)
    assert runner.current.stopped_by == "bob"
    assert runner.current.status not in (None, 0, 1)
    assert list(tmp_path.iterdir()) == []
    await runner.start("quick", "bob")
    await ended(runner)
    assert runner.current.status == 0


async def test_what_is_unknown_or_can_not_be_is_refused(runner, tmp_path):
    with pytest.raises(InvalidArgument):
        await runner.start("nothing", "alice")
    with pytest.raises(HostUnsuitable):
        await Runner(None).start("quick", "alice")
    with pytest.raises(HostUnsuitable):
        await Runner(tmp_path / "none").start("quick", "alice")
    assert not runner.going


OWNER = """
import asyncio, pathlib, sys
from opensafe.console.runs import Runner
async def own():
    runner = Runner(pathlib.Path(sys.argv[1]))
    await runner.start("policy", "alice")
    while not runner.current.lines:  # it is at work
        await asyncio.sleep(0.01)
    print(runner._process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(own())
"""


def test_a_run_ends_when_its_owner_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", OWNER, tmp_path], stdout=subprocess.PIPE) as owner:
        child = os.pidfd_open(int(owner.stdout.readline()))
        owner.send_signal(signal.SIGKILL)
    try:
        select.select([child], [], [])
    finally:
        os.close(child)
    assert list(tmp_path.glob("*.json")) == [], "it went on to its end"
