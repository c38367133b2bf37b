"""No sandbox runs unwatched: not without a session, not without a reader, not with reports lost."""

import asyncio
import contextlib

import pytest

from opensafe.errors import SandboxStartFailed, Unavailable
from opensafe.warden import feed
from opensafe.warden.sandbox import lifecycle
from opensafe.warden.sandbox import monitor as module
from opensafe.warden.sandbox import reports as reports_module
from tests.system.monitor.test_rules import FATAL, marked


@pytest.fixture
def hasty(monkeypatch):
    """A warden that gives a reader up at once."""
    monkeypatch.setattr(module, "_BEAT_S", 0.05)
    monkeypatch.setattr(module, "_SILENCE_S", 0.5)


async def cause_of_death(watched, caller):
    sandbox = watched.lifecycle.get(caller.spec.sandbox_id)
    return await asyncio.wait_for(asyncio.shield(sandbox.death), 30)


async def test_what_runs_stands_still_without_a_reader_and_goes_on_with_the_next(make):
    watched = make()
    caller = await watched.caller()
    running = await caller.start(caller.launch("bash", "-c", "while read line; do /bin/echo $line; done"))
    await running.feed(b"one\n")
    await running.said(b"one\n")
    await watched.depart()
    await running.feed(b"two\n")
    with pytest.raises(TimeoutError):  # it has its line, and does not run
        await asyncio.wait_for(running.said(b"two\n"), 0.5)
    watched.attend()
    await running.said(b"two\n")
    running.end_input()
    assert (await running.end()).ended.kind == "exited"
    await watched.settled()
    assert watched.judge.breaches == []
    assert [path for _, path in watched.judge.executed] == ["/usr/bin/bash", "/usr/bin/echo", "/usr/bin/echo"]


async def test_a_breach_before_a_reader_that_died_is_found_by_the_next(make, hasty):
    """The reader stops, the program breaks a rule and goes on: it does not get far."""
    watched = make()
    caller = await watched.caller()
    await watched.settled()
    await watched.freeze()
    running = await caller.start(caller.launch("python3", "-c", FATAL, "165", "20"))
    await asyncio.wait_for(watched.gone(), 30)
    assert watched.silences > 0
    watched.watcher.close()
    watched.attend()
    running.end_input()
    done = await asyncio.wait_for(running.end(), 30)
    assert done.ended.kind == "violation"
    assert not await marked(caller)


async def test_a_daemons_tree_is_known_to_the_next_reader(make):
    watched = make()
    caller = await watched.caller()
    await caller.sh("mkfifo /workspace/go")
    watched.granted = ("bash", "sh", "setsid", "sleep")
    script = "(setsid sh -c 'echo up; read line < /workspace/go; git --version' &); sleep 20"
    running = await caller.start(caller.launch("bash", "-c", script))
    await running.said(b"up\n")
    await watched.depart()
    watched.attend()
    await watched.settled()
    watched.granted = "any"
    await caller.sh("echo > /workspace/go")
    done = await asyncio.wait_for(running.end(), 30)
    assert (done.ended.kind, len(watched.judge.breaches)) == ("violation", 1)


async def test_without_a_next_reader_the_sandbox_ends(make, monkeypatch):
    watched = make()
    caller = await watched.caller()
    monkeypatch.setattr(module, "_AWAY_S", 0.2)
    await watched.depart()
    assert await cause_of_death(watched, caller) == "monitor: nobody read the reports for 0 s"


async def test_a_start_without_a_reader_is_refused(make, monkeypatch):
    watched = make()
    caller = await watched.caller()
    await watched.depart()
    monkeypatch.setattr(module, "_AWAY_S", 0.2)
    with pytest.raises(Unavailable):
        await caller.run("true")
    with pytest.raises(SandboxStartFailed, match="nobody reads"):
        await watched.caller()


async def test_lost_reports_end_the_sandbox(make, monkeypatch, hasty):
    """A buffer that holds little, and nobody who empties it."""
    monkeypatch.setattr(feed, "REPORT_BUFFER", 4096)
    watched = make()
    caller = await watched.caller()
    await watched.settled()
    await watched.freeze()
    with contextlib.suppress(Unavailable):
        await caller.start(caller.launch("bash", "-c", "while true; do /bin/true; done"))
    await asyncio.wait_for(watched.gone(), 30)
    watched.watcher.close()
    watched.attend()
    cause = await cause_of_death(watched, caller)
    assert cause.startswith("monitor: ")
    assert cause.endswith("reports were lost")


async def test_without_a_listener_there_is_no_sandbox(make, monkeypatch):
    watched = make()
    listening = reports_module.listening

    @contextlib.asynccontextmanager
    async def deaf(bundle):
        async with listening(bundle) as reports:
            (bundle / "reports").unlink()
            yield reports

    monkeypatch.setattr(lifecycle, "listening", deaf)
    with pytest.raises(SandboxStartFailed, match="reports"):
        await watched.caller()


async def test_a_session_that_the_sentry_can_not_set_up_is_no_session(make, monkeypatch):
    """It connects, fails, says so in a log that nobody reads, and would run on without a session."""
    monkeypatch.setattr(reports_module, "_CONTEXT", ("no_such_field",))
    with pytest.raises(SandboxStartFailed, match="no report session"):
        await make().caller()


async def test_a_sandbox_that_dies_keeps_its_own_cause(make):
    watched = make()
    caller = await watched.caller()
    watched.lifecycle.get(caller.spec.sandbox_id).cgroup.kill()
    assert await cause_of_death(watched, caller) == "killed"


async def test_a_deleted_sandbox_leaves_no_socket(make):
    watched = make()
    for _ in range(3):
        caller = await watched.caller()
        await caller.sh("true")
        await caller.delete()
    await watched.settled()
    assert (watched.monitor._watched, watched.watcher._by_id) == ({}, {})
