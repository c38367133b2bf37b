"""The front is killed at every step: warden and sandboxes live on, and the next front takes over all or none."""

import asyncio
import json
import pathlib
import sqlite3
import subprocess

import pytest

from opensafe import errors
from opensafe.model.outcome import OutcomeKind
from tests.harness.daemon import signal_process
from tests.system.exec.support import eventually
from tests.system.recovery.conftest import place
from tests.system.recovery.support import PATIENCE_S, Place, fresh

pytestmark = [pytest.mark.root, pytest.mark.runsc]

_JUDGE = "opensafe.control.judge:Judge"
_CHANGES = "opensafe.control.changes:Changes"
_CLIENT = "opensafe.warden.client:WardenClient"
_GATE = "opensafe.gate:Gate"
_PUT = "opensafe.audit.log:AuditLog._put"
CREATE = [
    f"after {_CLIENT}.find_image",
    f"before {_JUDGE}.judge",
    f"before {_PUT}",
    f"after {_PUT}",
    f"after {_JUDGE}.judge",
    f"before {_CLIENT}.create_sandbox",
    f"after {_CLIENT}.create_sandbox",
    f"before {_CHANGES}.write",
    f"2 before {_PUT}",
    f"2 after {_PUT}",
    f"after {_CHANGES}.write",
]
CREATED = CREATE[-2:]  # where it is on record
EXEC = [
    f"before {_GATE}.submit",
    f"before {_JUDGE}.decide",
    f"before {_PUT}",
    f"after {_PUT}",
    f"before {_GATE}._execute",
    f"before {_CLIENT}.start",
    f"after {_CLIENT}.start",
    f"before {_CLIENT}.wait",
    f"after {_CLIENT}.wait",
    f"before {_GATE}._write_outcome",
    f"2 before {_PUT}",
    f"2 after {_PUT}",
    f"after {_GATE}._write_outcome",
    f"after {_GATE}._conclude",
]
KILL = [f"before {_CLIENT}.kill", f"after {_CLIENT}.kill"]
PAUSE = [f"before {_CLIENT}.pause_sandbox", f"after {_CLIENT}.pause_sandbox", f"after {_CHANGES}.record"]
RESUME = [f"before {_CLIENT}.resume_sandbox", f"after {_CLIENT}.resume_sandbox", f"after {_CHANGES}.record"]
DELETE = [
    f"before {_CHANGES}.record",
    f"after {_CHANGES}.record",
    f"before {_CLIENT}.delete_sandbox",
    f"after {_CLIENT}.delete_sandbox",
    f"2 before {_CHANGES}.record",
    f"2 before {_PUT}",
    f"2 after {_CHANGES}.record",
]


@pytest.fixture
async def here(mortal):
    """A sandbox that lives through the front's death."""
    async with place(mortal) as made:
        yield made
        await made.client.close_session(made.session)


def on_record(daemon):
    """Sandboxes that the warden has begun and not removed."""
    with sqlite3.connect(f"file:{daemon.state}/warden.db?mode=ro", uri=True) as database:
        return {name for (name,) in database.execute("SELECT sandbox_id FROM sandboxes")}


async def agree(daemon):
    """A front answers again; what it shows alive is what the warden has, and nothing besides is left."""
    await served(daemon)
    async with daemon.client() as client:
        await eventually(client.list_sandboxes, lambda rows: not any(row.state == "deleting" for row in rows))
        rows = await client.list_sandboxes()
    live = {row.sandbox_id for row in rows if row.state in ("running", "paused")}
    assert await eventually(lambda: asyncio.to_thread(on_record, daemon), lambda found: found == live) == live
    assert await asyncio.to_thread(daemon.left) == []
    assert daemon.verified() == set()
    return {row.sandbox_id: row for row in rows}


@pytest.mark.parametrize("step", CREATE)
async def test_r46_a_creation_is_whole_or_gone(mortal, step):
    async with mortal.client() as client:
        session = await client.create_session("tester")
        await mortal.dies("front", step, client.create_sandbox(session))
        found = await agree(mortal)
        mine = [row for row in found.values() if row.session_id == session]
        assert len(mine) == (step in CREATED)
        for row in mine:
            assert (await Place(client, session, row.sandbox_id).sh("well", "echo well")).stdout == b"well\n"
        await client.close_session(session)


@pytest.mark.parametrize("step", EXEC)
async def test_a_call_ends_once_and_ran_at_most_once(mortal, here, step):
    call_id = fresh("call")
    await mortal.dies("front", step, here.mark(call_id))
    await agree(mortal)
    ran = await here.marks()
    assert ran.count(call_id) <= 1
    again = await here.mark(call_id)
    if step in EXEC[:3]:  # it was never decided, so it is a first time
        assert (again.outcome.exit_code, ran) == (0, [])
    elif step in EXEC[-3:]:
        assert again.outcome.exit_code == 0
    else:
        assert (again.outcome.kind, again.outcome.detail) == (
            OutcomeKind.LOST,
            "the daemon ended while the call was under way",
        )
    assert (await here.marks()).count(call_id) == (1 if step in EXEC[:3] else len(ran))
    await idle(mortal, here.sandbox)


async def idle(daemon, sandbox):
    """Until nothing runs in it any more."""
    await eventually(lambda: asyncio.to_thread(daemon.guest_processes, sandbox), lambda found: found == ["init"])


@pytest.mark.parametrize("step", KILL)
async def test_a_call_that_is_being_killed_is_gone_and_lost(mortal, here, step):
    call_id = fresh("late")
    await mortal.dies("front", step, here.sh(call_id, "sleep 1000", timeout_ms=200))
    await agree(mortal)
    assert (await here.client.get_call(here.session, call_id)).outcome.kind is OutcomeKind.LOST
    await idle(mortal, here.sandbox)


@pytest.mark.parametrize(("turn", "step"), [("pause", step) for step in PAUSE] + [("resume", step) for step in RESUME])
async def test_a_sandbox_is_what_its_record_says(mortal, here, turn, step):
    if turn == "resume":
        await here.client.pause_sandbox(here.sandbox)
    work = here.client.pause_sandbox if turn == "pause" else here.client.resume_sandbox
    await mortal.dies("front", step, work(here.sandbox))
    row = (await agree(mortal))[here.sandbox]
    recorded = step.endswith("Changes.record")
    assert row.state == ("paused" if (turn == "pause") is recorded else "running")
    if row.state == "paused":
        with pytest.raises(errors.SandboxPaused):
            await here.sh(fresh("refused"), "true")
        await here.client.resume_sandbox(here.sandbox)
    assert (await here.sh(fresh("well"), "echo well")).stdout == b"well\n"


@pytest.mark.parametrize("step", DELETE)
async def test_a_deletion_that_is_on_record_is_carried_out(mortal, here, step):
    await mortal.dies("front", step, here.client.delete_sandbox(here.sandbox))
    found = await agree(mortal)
    if step == DELETE[0]:
        assert found[here.sandbox].state == "running"
    else:
        assert here.sandbox not in found


async def test_a_front_that_dies_while_it_recovers_is_followed_by_one_that_does(mortal, here):
    call_id = fresh("twice")
    front = mortal.child("front")
    for step in ("before opensafe.control.upkeep:Upkeep.reconcile", "before opensafe.gate:Gate.recover"):
        mortal.arm("front", step)
        doing = asyncio.create_task(here.sh(call_id, "sleep 1000"))
        await eventually(lambda: asyncio.to_thread(mortal.guest_processes, here.sandbox), lambda them: "sleep" in them)
        await asyncio.to_thread(signal_process, mortal.child("front"))
        with pytest.raises(errors.Unavailable):
            await doing
        await agree(mortal)
        assert not mortal.fault("front").exists()  # it did die there
        assert (await here.client.get_call(here.session, call_id)).outcome.kind is OutcomeKind.LOST
        call_id = fresh("twice")
    assert mortal.child("front") != front


async def test_r46_a_front_that_ends_by_an_error_of_its_own_leaves_the_sandboxes_to_the_next(mortal, here):
    step = "failing opensafe.control.upkeep:Upkeep._dues"
    await mortal.dies("front", step, here.client.create_sandbox(here.session))
    assert (await agree(mortal))[here.sandbox].state == "running"
    assert [one["state"] for one in mortal.records() if one["kind"] == "daemon"][-2:] == ["started", "started"]


async def test_r46_of_twenty_live_sandboxes_a_new_front_takes_over_all_and_a_new_warden_none(own_daemon, innocent):
    daemon = own_daemon()
    async with daemon.client() as client:
        session = await client.create_session("tester")
        made = await asyncio.gather(*(client.create_sandbox(session) for _ in range(20)))
        places = [Place(client, session, one.sandbox.sandbox_id) for one in made]
        await asyncio.gather(*(one.sh(f"mark-{one.sandbox}", f"echo {one.sandbox} > mine.txt") for one in places))
        await asyncio.to_thread(signal_process, daemon.child("front"))
        await served(daemon)
        states = {row.sandbox_id: row.state for row in await client.list_sandboxes()}
        assert states == {one.sandbox: "running" for one in places}
        seen = await asyncio.gather(*(one.sh(f"see-{one.sandbox}", "cat mine.txt") for one in places))
        assert [one.stdout.decode().strip() for one in seen] == [one.sandbox for one in places]
    daemon.kill()
    # Numbers go round: what was a sentry's is somebody else's by the next start.
    for path in (daemon.run / "runsc").glob("*.state"):
        path.write_text(innocent.renumber(path.read_text()))
    for path in (daemon.run / "bundles").glob("*/pid"):
        path.write_text(str(innocent.pid))
    await asyncio.to_thread(daemon.start)
    async with daemon.client() as client:
        assert {row.state for row in await client.list_sandboxes()} == {"lost"}
    assert innocent.lives()
    assert on_record(daemon) == set()


async def served(daemon):
    """Until a client is answered again."""
    async with asyncio.timeout(PATIENCE_S), daemon.client() as client:
        while True:
            try:
                return await client.list_sandboxes()
            except errors.Unavailable:
                await asyncio.sleep(0.05)


@pytest.fixture
def innocent():
    """A process that has nothing to do with any of this."""

    class Innocent:
        def __init__(self):
            self.process = subprocess.Popen(["sleep", "1000"])
            self.pid = self.process.pid

        def renumber(self, text):
            state = json.loads(text)
            state["goferPid"] = state["sandbox"]["pid"] = self.pid
            return json.dumps(state)

        def lives(self):
            return self.process.poll() is None and pathlib.Path(f"/proc/{self.pid}").exists()

    made = Innocent()
    yield made
    made.process.kill()
    made.process.wait()
