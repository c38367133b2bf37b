"""A call runs at most once, whatever is repeated, killed or restarted."""

import asyncio
import contextlib

import pytest

from opensafe import errors
from opensafe.client import Ended, Started, Stdout
from opensafe.model.outcome import OutcomeKind
from tests.harness.daemon import signal_process

MARK = {"command": "echo ran >> runs.txt; cat runs.txt"}
RUNS = {"path": "/workspace/runs.txt"}


async def test_a_repeated_call_id_answers_twice_and_runs_once(agent, session, sandbox):
    first = await agent.run_call(session, sandbox, "once", "Bash", MARK)
    again = await agent.run_call(session, sandbox, "once", "Bash", MARK)
    assert first.stdout == again.stdout == b"ran\n"
    assert first.outcome == again.outcome
    assert (await agent.run_call(session, sandbox, "look", "Read", RUNS)).stdout == b"ran\n"


async def test_another_call_id_runs_again(agent, session, sandbox):
    for number, expected in ((1, b"ran\n"), (2, b"ran\nran\n")):
        assert (await agent.run_call(session, sandbox, f"call-{number}", "Bash", MARK)).stdout == expected


async def test_a_call_id_used_for_another_request_is_refused(agent, session, sandbox, daemon):
    await agent.run_call(session, sandbox, "taken", "Bash", MARK)
    before = daemon.starts()
    with pytest.raises(errors.Conflict, match="another request"):
        await agent.run_call(session, sandbox, "taken", "Bash", {"command": "echo other"})
    assert daemon.starts() == before


async def test_a_repeat_while_the_call_runs_attaches_to_it(daemon, agent, session, sandbox):
    arguments = {"command": "echo first; cat; echo last"}
    release = asyncio.Event()

    async def stdin():
        await release.wait()
        yield b"middle\n"

    started = asyncio.Event()

    async def first():
        output, ended = b"", None
        async for event in agent.call(session, sandbox, "shared", "Bash", arguments, stdin=stdin()):
            output += event.data if isinstance(event, Stdout) else b""
            ended = event
            if isinstance(event, Started):
                started.set()
        return output, ended

    before = daemon.starts()
    running = asyncio.create_task(first())
    await started.wait()
    seen = b""
    async with daemon.client() as second:
        async for event in second.call(session, sandbox, "shared", "Bash", arguments):
            seen += event.data if isinstance(event, Stdout) else b""
            if seen == b"first\n":
                release.set()
    output, ended = await running
    assert seen == output == b"first\nmiddle\nlast\n"
    assert ended.outcome.exit_code == 0
    assert daemon.starts() == before + 1


async def test_after_a_clean_restart_the_outcome_is_answered_and_nothing_runs(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        first = await client.run_call(session, sandbox, "once", "Bash", MARK)
    assert daemon.stop() == 0
    daemon.start()
    async with daemon.client() as client:
        again = await client.run_call(session, sandbox, "once", "Bash", MARK)
    assert again.outcome.exit_code == first.outcome.exit_code == 0
    assert again.outcome.truncated  # the output itself was not kept
    assert daemon.starts() == 1


async def test_kill_of_the_front_ends_the_running_call_as_lost_and_keeps_the_sandbox(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        await client.run_call(session, sandbox, "before", "Bash", MARK)
        hit = {"command": "echo ran >> runs.txt; sleep 1000 & echo up; wait"}
        running = client.call(session, sandbox, "hit", "Bash", hit)
        async for event in running:
            if isinstance(event, Stdout):
                break
        assert len(daemon.guest_processes(sandbox)) > 2
        front = daemon.child("front")
        signal_process(front)
        with pytest.raises(errors.Unavailable):
            async for _ in running:
                pass
    async with daemon.client() as client:
        again = await _until_served(client, session, sandbox, "hit", hit)
        assert again.outcome.kind is OutcomeKind.LOST
        runs = await client.run_call(session, sandbox, "after", "Read", RUNS)
        assert runs.stdout == b"ran\nran\n"
        assert daemon.guest_processes(sandbox) == ["init"]
    assert daemon.child("front") != front


async def test_kill_of_the_warden_leaves_nothing_after_the_next_start(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        running = client.call(session, sandbox, "hit", "Bash", {"command": "sleep 1000"})
        async for event in running:
            if isinstance(event, Started):
                break
        daemon.kill()
        # The front dies with the warden. Where it still finds the time to say something, it is that the call is lost.
        with contextlib.suppress(errors.Unavailable):
            async for event in running:
                assert isinstance(event, Ended)
                assert event.outcome.kind is OutcomeKind.LOST
    assert any("runsc" in line for line in daemon.leftovers())  # the control: a kill does leave something
    daemon.start()
    async with daemon.client() as client:
        again = await client.run_call(session, sandbox, "hit", "Bash", {"command": "sleep 1000"})
        assert again.outcome.kind is OutcomeKind.LOST
        [gone] = await client.list_sandboxes()
        assert (gone.state, gone.cause) == ("lost", "ended while the daemon was away")
        assert (await client.status()).removed_at_start
    assert daemon.stop() == 0
    assert daemon.leftovers() == []


async def _until_served(client, session, sandbox, call_id, arguments):
    """The daemon starts its front again with a delay; the client's way through it is to repeat."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await client.run_call(session, sandbox, call_id, "Bash", arguments)
            except errors.Unavailable:
                await asyncio.sleep(0.2)
