"""One call's run seen from the client: streams, deadline, output limit, cancellation, loss, drain."""

import asyncio
import contextlib
import pathlib

import pytest

from opensafe import errors
from opensafe.client import Ended, Started, Stdout
from opensafe.model.outcome import OutcomeKind
from opensafe.proof.planting import plant
from tests.harness.daemon import signal_process


async def test_R17_stdin_is_closed_unless_asked_for(agent, session, sandbox):
    result = await agent.run_call(session, sandbox, "cat", "Bash", {"command": "cat; echo end"})
    assert (result.stdout, result.outcome.exit_code) == (b"end\n", 0)


async def test_R19_R22_bytes_pass_through_unchanged(agent, session, sandbox):
    data = bytes(range(256)) * 1000
    result = await agent.run_call(session, sandbox, "bytes", "Bash", {"command": "cat; cat /dev/null"}, stdin=data)
    assert result.stdout == data


async def test_the_commands_own_status_is_the_outcome(agent, session, sandbox):
    for code in (0, 3, 255):
        result = await agent.run_call(session, sandbox, f"exit-{code}", "Bash", {"command": f"exit {code}"})
        assert (result.outcome.kind, result.outcome.exit_code) == (OutcomeKind.EXITED, code)
    result = await agent.run_call(session, sandbox, "signal", "Bash", {"command": "kill -TERM $$"})
    assert (result.outcome.kind, result.outcome.signal) == (OutcomeKind.SIGNALLED, 15)


async def test_R1_R2_the_deadline_kills_the_whole_tree_and_a_neighbour_lives(daemon, agent, session, sandbox):
    neighbour = agent.call(session, sandbox, "neighbour", "Bash", {"command": "echo up; cat; true"}, stdin=_open())
    async for event in neighbour:
        if isinstance(event, Stdout):
            break
    # From a file: a shell text that leaves something in the background is a reviewer's business.
    await plant(agent.files(session, sandbox), "/workspace/tree.sh", b"sleep 1001 &\n(setsid sleep 1002 &)\nwait\n")
    result = await agent.run_call(session, sandbox, "tree", "Bash", {"command": "bash tree.sh", "timeout_ms": 300})
    assert result.outcome.kind is OutcomeKind.DEADLINE
    assert "300 ms" in result.outcome.detail
    assert daemon.guest_processes(sandbox) == ["bash", "cat", "init", "run"]
    await neighbour.aclose()


async def test_R4_what_a_call_leaves_in_the_background_ends_with_it(daemon, agent, session, sandbox):
    await plant(agent.files(session, sandbox), "/workspace/leave.sh", b"sleep 1003 > /dev/null 2>&1 &\n")
    result = await agent.run_call(session, sandbox, "daemon", "Bash", {"command": "bash leave.sh"})
    assert result.outcome.exit_code == 0
    assert daemon.guest_processes(sandbox) == ["init"]


async def test_R25_R26_endless_output_ends_at_the_limit_and_says_so(agent, session, sandbox):
    result = await agent.run_call(session, sandbox, "yes", "Bash", {"command": "yes", "timeout_ms": 60_000})
    assert result.outcome.kind in (OutcomeKind.OUTPUT_LIMIT, OutcomeKind.DEADLINE)
    assert result.outcome.truncated
    assert result.outcome.stdout_bytes >= len(result.stdout)


async def test_G51_a_client_that_goes_away_ends_its_call(daemon, agent, session, sandbox):
    arguments = {"command": "sleep 1004 & echo up; wait"}
    call = agent.call(session, sandbox, "gone", "Bash", arguments)
    async for event in call:
        if isinstance(event, Stdout):
            break
    assert len(daemon.guest_processes(sandbox)) > 2
    await call.aclose()
    result = await agent.run_call(session, sandbox, "gone", "Bash", arguments)
    assert result.outcome.kind is OutcomeKind.CANCELLED
    assert not {"bash", "sleep"} & set(daemon.guest_processes(sandbox))


async def test_R15_a_call_after_a_timeout_works(agent, session, sandbox):
    await agent.run_call(session, sandbox, "stuck", "Bash", {"command": "sleep 1005", "timeout_ms": 100})
    assert (await agent.run_call(session, sandbox, "next", "Bash", {"command": "echo ok"})).stdout == b"ok\n"


async def test_R5_R49_a_sandbox_that_dies_under_a_call_is_lost_and_no_other(daemon, agent, session, sandbox):
    other = (await agent.create_sandbox(session)).sandbox.sandbox_id
    call = agent.call(session, sandbox, "hit", "Bash", {"command": "sleep 1006"})
    ended = None
    async for event in call:
        if isinstance(event, Started):
            signal_process(_sentry(sandbox))
        if isinstance(event, Ended):
            ended = event
    assert ended.outcome.kind is OutcomeKind.LOST
    assert ended.outcome.detail
    assert (await agent.run_call(session, other, "well", "Bash", {"command": "echo ok"})).stdout == b"ok\n"
    states = {row.sandbox_id: row.state for row in await agent.list_sandboxes()}
    assert (states[sandbox], states[other]) == ("lost", "running")


async def test_G50_a_program_has_no_capabilities_and_a_filter(agent, session, sandbox):
    status = (await agent.run_call(session, sandbox, "status", "Bash", {"command": "cat /proc/self/status"})).stdout
    fields = dict(line.split(b":\t", 1) for line in status.splitlines() if b":\t" in line)
    assert fields[b"CapEff"].strip() == b"0000000000000000"
    assert fields[b"Seccomp"].strip() == b"2"
    assert fields[b"Uid"].split()[0] == b"1000"


async def test_SIGTERM_drains_and_records(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
        call = agent.call(session, sandbox, "short", "Bash", {"command": "echo begun; sleep 1; echo done"})
        async for event in call:
            if isinstance(event, Stdout):
                break
        stopping = asyncio.create_task(asyncio.to_thread(daemon.stop))
        rest = [event async for event in call]
        assert rest[-1].outcome.exit_code == 0  # it was let to end
        with contextlib.suppress(errors.OpenSafeError):
            await agent.run_call(session, sandbox, "late", "Bash", {"command": "echo late"})
            pytest.fail("a call was taken while draining")
        assert await stopping == 0
    assert daemon.leftovers() == []
    assert '"state":"stopped"' in (daemon.state / "audit" / "segment-000000.jsonl").read_text().splitlines()[-1]


async def _open():
    """Standard input that stays open."""
    await asyncio.Event().wait()
    yield b""


def _sentry(sandbox):
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0].startswith(b"runsc-sandbox") and sandbox.encode() in words:
                return int(entry.name)
    raise AssertionError(f"no sentry of {sandbox}")
