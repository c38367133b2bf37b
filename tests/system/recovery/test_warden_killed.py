"""The warden is killed at every step of what it does; its next start leaves nothing, and every call ends once."""

import asyncio

import pytest

from opensafe import errors
from opensafe.client import Stdout
from opensafe.model.outcome import OutcomeKind
from tests.system.recovery.conftest import place
from tests.system.recovery.support import fresh

pytestmark = [pytest.mark.root, pytest.mark.runsc]

_BOX = "opensafe.warden.sandbox"
_WARDEN = "opensafe.warden.warden:Warden"
CREATE = [
    "after opensafe.warden.decisions:Decisions.check",
    "after opensafe.warden.ledger:Ledger.append",
    "after opensafe.warden.ledger:Ledger.durable",
    f"after {_BOX}.state:State.intend",
    f"before {_BOX}.limits:_settings",
    f"after {_BOX}.limits:Cgroup.create",
    "after opensafe.warden.kernel:unshare_network",
    "after opensafe.warden.kernel:bind_mount",
    "after opensafe.warden.network.namespaces:create",
    f"before {_BOX}.spec:oci_spec",
    f"after {_BOX}.lifecycle:Lifecycle._write_bundle",
    "after opensafe.warden.process:spawn",
    f"before {_BOX}.reports:_accept",
    f"after {_BOX}.reports:_accept",
    f"after {_BOX}.runsc:Runsc.create",
    f"after {_BOX}.monitor:Monitor.watch",
    f"after {_BOX}.control:ControlDriver.start",
    f"after {_BOX}.lifecycle:Lifecycle.create",
    f"after {_WARDEN}.answer",
    f"before {_BOX}.control:ControlDriver.execute",  # of the runner that waits
    f"after {_BOX}.control:ControlDriver.execute",
]
EXEC = [
    "before opensafe.warden.decisions:Decisions.settled",
    "after opensafe.warden.decisions:Decisions.check",
    "after opensafe.warden.ledger:Ledger.append",
    "after opensafe.warden.ledger:Ledger.durable",
    f"after {_BOX}.monitor:Monitor.expect",
    f"before {_BOX}.ahead:Waiting.run",
    f"after {_BOX}.ahead:Waiting.run",
    f"after {_BOX}.programs:Programs.start",
    f"after {_WARDEN}.answer",
    f"before {_BOX}.programs:_decode",
    f"before {_WARDEN}._record_end",
    f"after {_WARDEN}._record_end",
]
KILL = [
    f"before {_BOX}.control:ControlDriver.signal",
    f"before {_BOX}.control:_processes",
    f"after {_BOX}.control:_processes",
    f"after {_BOX}.control:_signal",
    f"after {_BOX}.control:ControlDriver.signal",
]
PAUSE = [f"before {_BOX}.control:ControlDriver.pause", f"after {_BOX}.control:ControlDriver.pause"]
RESUME = [f"before {_BOX}.control:ControlDriver.resume", f"after {_BOX}.control:ControlDriver.resume"]
DELETE = [
    f"before {_BOX}.lifecycle:Lifecycle.delete",
    f"before {_BOX}.limits:Cgroup.kill",
    f"after {_BOX}.limits:Cgroup.kill",
    f"after {_BOX}.limits:Cgroup.remove",
    "before opensafe.warden.network.namespaces:remove",
    "after opensafe.warden.network.namespaces:remove",
    f"after {_BOX}.lifecycle:remove",
    f"before {_BOX}.state:State.forget",
    f"after {_BOX}.state:State.forget",
    f"after {_WARDEN}.answer",
]
#: Before there is anything to be left.
EARLY = CREATE[:4]


@pytest.fixture
async def watched_neighbour(neighbour):
    """A sandbox of another daemon with a program in it, which is there afterwards as it was."""
    async with neighbour.client() as client:
        session = await client.create_session("neighbour")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        call = client.call(session, sandbox, "stays", "Bash", {"command": "echo up; cat"}, interactive=True)
        await _output(call, b"up\n")
        yield
        await call.send(b"still here\n")
        await _output(call, b"still here\n")
        await call.close_stdin()
        assert [event async for event in call][-1].outcome.exit_code == 0
        await client.close_session(session)


async def _output(call, wanted):
    async with asyncio.timeout(30):
        async for event in call:
            if isinstance(event, Stdout) and wanted in event.data:
                return
    raise AssertionError(f"the call ended without {wanted!r}")


async def after(mortal, control=True):
    """The daemon is dead: what it left, and that its next life removes that."""
    if control:
        assert mortal.leftovers() != []
    await asyncio.to_thread(mortal.start)
    assert await asyncio.to_thread(mortal.left) == []
    async with mortal.client() as client:
        assert {row.state for row in await client.list_sandboxes()} <= {"lost", "deleted"}
    decided_without_end = mortal.verified()
    assert decided_without_end == set()


@pytest.mark.parametrize("step", CREATE)
async def test_r45_of_a_creation_nothing_is_left(mortal, watched_neighbour, step):
    async with mortal.client() as client:
        session = await client.create_session("tester")
        done = await mortal.dies("warden", step, client.create_sandbox(session))
        assert isinstance(done, errors.OpenSafeError) or "execute" in step or "answer" in step
    await after(mortal, control=step not in EARLY)


@pytest.mark.parametrize("step", EXEC)
async def test_a_call_ends_once_and_as_lost(mortal, step):
    async with place(mortal) as here:
        call_id = fresh("call")
        if "ahead" in step:
            await mortal.runner_waits(here.sandbox)
        await mortal.dies("warden", step, here.mark(call_id))
    await after(mortal)
    async with mortal.client() as client:
        known = await client.get_call(here.session, call_id)
        assert known.outcome.kind in (OutcomeKind.LOST, OutcomeKind.EXITED)
        if known.outcome.kind is OutcomeKind.LOST:
            assert "daemon" in known.outcome.detail or "warden" in known.outcome.detail
        # Only what was over before may be known as over.
        assert known.outcome.kind is OutcomeKind.LOST or "_record_end" in step
        again = await client.run_call(
            here.session, here.sandbox, call_id, "Bash", {"command": f"echo {call_id} >> runs.txt"}
        )
        assert again.outcome == known.outcome
    assert sum(entry["kind"] == "start" and entry["sandbox_id"] == here.sandbox for entry in mortal.entries()) <= 1


@pytest.mark.parametrize("step", KILL)
async def test_a_call_that_is_being_killed_ends_once(mortal, step):
    async with place(mortal) as here:
        call_id = fresh("late")
        await mortal.dies("warden", step, here.sh(call_id, "sleep 1000", timeout_ms=200))
    await after(mortal)
    async with mortal.client() as client:
        assert (await client.get_call(here.session, call_id)).outcome.kind is OutcomeKind.LOST


@pytest.mark.parametrize(("turn", "step"), [("pause", step) for step in PAUSE] + [("resume", step) for step in RESUME])
async def test_a_sandbox_that_is_paused_or_resumed_is_lost(mortal, turn, step):
    async with place(mortal) as here:
        if turn == "resume":
            await here.client.pause_sandbox(here.sandbox)
        work = here.client.pause_sandbox if turn == "pause" else here.client.resume_sandbox
        assert isinstance(await mortal.dies("warden", step, work(here.sandbox)), errors.OpenSafeError)
    await after(mortal)
    async with mortal.client() as client:
        assert (await client.get_sandbox(here.sandbox)).state == "lost"


@pytest.mark.parametrize("step", DELETE)
async def test_a_sandbox_that_is_being_deleted_is_deleted(mortal, step):
    async with place(mortal) as here:
        await mortal.dies("warden", step, here.client.delete_sandbox(here.sandbox))
    await after(mortal, control=False)
    async with mortal.client() as client:
        with pytest.raises(errors.NotFound, match="deleted"):
            await client.get_sandbox(here.sandbox)
