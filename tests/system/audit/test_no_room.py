"""A disk that is full, and a checkpoint that can't be written: nothing executes, health says so, and it all goes on."""

import contextlib
import subprocess

import pytest

from opensafe import errors
from opensafe.audit.verify import verify_state
from opensafe.model.outcome import OutcomeKind
from tests.harness.daemon import Daemon
from tests.system.exec.support import eventually

pytestmark = [pytest.mark.root, pytest.mark.runsc]

AUDIT = "checkpoint_s = 1\ncheckpoint_records = 1"


@pytest.fixture
def small():
    """A daemon on a disk of its own, which holds little."""
    daemon = Daemon(audit=AUDIT)
    daemon.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", daemon.state], check=True)
    try:
        yield daemon.start()
        assert daemon.stop() == 0
    finally:
        daemon.kill()
        if daemon.leftovers():
            daemon.start()
            daemon.stop()
        left = daemon.leftovers()
        subprocess.run(["umount", daemon.state], check=True)
        daemon.remove()
    assert left == []


async def not_healthy(client):
    await eventually(client.health, lambda healthy: not healthy)


def filled(path):
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 20))


async def decide_on(client, session):
    while True:
        await client.decide(session, "Bash", {"command": "echo " + "a" * 3000})


async def test_rs_19_a_full_disk_executes_nothing_and_with_room_a_restart_goes_on(small):
    async with small.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        done = await client.run_call(session, sandbox, "before", "Bash", {"command": "echo 1"})
        assert done.outcome.exit_code == 0
        started = small.starts()
        filler = small.state / "filler"
        filled(filler)
        with pytest.raises(errors.AuditError, match="can't be written"):
            await decide_on(client, session)  # what is left of a page holds some records
        await not_healthy(client)
        with pytest.raises(errors.AuditError):
            await client.run_call(session, sandbox, "full", "Bash", {"command": "echo 1"})
        assert small.starts() == started
        filler.unlink()
        with pytest.raises(errors.AuditError):  # not before a restart has looked at what there is
            await client.run_call(session, sandbox, "room", "Bash", {"command": "echo 1"})
    small.stop()
    small.start()
    async with small.client() as client:
        assert await client.health()
        assert (await client.get_call(session, "before")).outcome.kind is OutcomeKind.EXITED
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        done = await client.run_call(session, sandbox, "after", "Bash", {"command": "echo 1"})
        assert done.outcome.exit_code == 0
    found = verify_state(small.state)
    assert found.ok, found.findings


async def test_a_checkpoint_that_can_not_be_written_stops_starts_and_heals_by_itself(own_daemon):
    daemon = own_daemon(audit=AUDIT)
    in_the_way = daemon.state / "audit/.checkpoint.new"
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        in_the_way.mkdir()
        await client.decide(session, "Bash", {"command": "echo 1"})
        status = await eventually(client.status, lambda status: status.checkpoint_failure)
        assert "a checkpoint can't be written" in status.checkpoint_failure
        started = daemon.starts()
        refused = await client.run_call(session, sandbox, "refused", "Bash", {"command": "echo 1"})
        assert refused.outcome.kind is OutcomeKind.NOT_STARTED
        assert "a checkpoint can't be written" in refused.outcome.detail
        assert daemon.starts() == started
        await not_healthy(client)
        in_the_way.rmdir()
        await eventually(client.health, bool)
        assert (await client.status()).checkpoint_failure == ""
        done = await client.run_call(session, sandbox, "well", "Bash", {"command": "echo 1"})
        assert done.outcome.exit_code == 0
    found = verify_state(daemon.state)
    assert found.ok, found.findings
