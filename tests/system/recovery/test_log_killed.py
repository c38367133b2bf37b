"""Killed while the log is signed and turns to its next segment: what was told stays, and nothing happens twice.

Of each kind of step one; tests/unit/audit/test_every_step.py has all of them, without a daemon around.
"""

import asyncio

import pytest

from opensafe.audit.segment import segment_paths
from opensafe.model.outcome import OutcomeKind
from opensafe.proof.private import DaemonFailedError
from tests.system.exec.support import eventually
from tests.system.recovery.conftest import bury, place
from tests.system.recovery.support import Mortal, fresh
from tests.system.recovery.test_front_killed import agree

pytestmark = [pytest.mark.root, pytest.mark.runsc]

#: The smallest segments and the most checkpoints that there can be.
AUDIT = f"segment_bytes = {1 << 20}\ncheckpoint_s = 1\ncheckpoint_records = 1"
LONG = "echo " + "a" * 50_000

_CHECKPOINTS = "opensafe.warden.checkpoints:Checkpoints"
_SEGMENTS = "opensafe.warden.segments:Segments"
_CLIENT = "opensafe.warden.client:WardenClient"
_LOG = "opensafe.audit.log:AuditLog"
SIGN = [
    f"after {_CHECKPOINTS}._put",  # the frontier
    f"after {_CHECKPOINTS}._append",  # the history; the note is next
]
BEGIN = [
    f"after {_SEGMENTS}._open",
    f"after {_SEGMENTS}.begin_next",
    f"after {_SEGMENTS}.end",
]
TURN = [
    f"after {_CLIENT}.next_segment",
    f"after {_LOG}._turn",
]


@pytest.fixture(scope="module")
def mortal():
    daemon = Mortal(audit=AUDIT)
    try:
        yield daemon.start()
        if daemon.process.poll() is not None:
            daemon.start()
        assert daemon.stop() == 0
        daemon.verified()
    finally:
        bury(daemon)


class Filler:
    """Decisions until there is another segment, or the daemon is gone; `told` are those that were answered."""

    def __init__(self, daemon, here):
        self.daemon, self.here = daemon, here
        self.told = []

    async def fill(self):
        before = len(segment_paths(self.daemon.state))
        while len(segment_paths(self.daemon.state)) == before:
            await self.decide()
        while True:  # the step may come after the turn; the daemon's end ends this
            await self.decide()

    async def decide(self):
        verdict = await self.here.client.decide(self.here.session, "Bash", {"command": LONG})
        self.told.append(verdict.decision_id)

    def all_kept(self):
        assert self.told
        recorded = [record["decision_id"] for record in self.daemon.records() if record["kind"] == "decision"]
        assert len(recorded) == len(set(recorded))
        assert set(self.told) <= set(recorded)


@pytest.mark.parametrize("step", SIGN + BEGIN)
async def test_the_warden(mortal, step):
    async with place(mortal) as here:
        call_id = fresh("ran")
        assert (await here.mark(call_id)).outcome.exit_code == 0
        filler = Filler(mortal, here)
        await filler.decide()
        await mortal.dies("warden", step, filler.fill())
    assert await asyncio.to_thread(mortal.start)
    assert mortal.verified() == set()
    filler.all_kept()
    async with mortal.client() as client:
        assert (await client.get_call(here.session, call_id)).outcome.kind is OutcomeKind.EXITED
        await eventually(client.status, lambda status: status.checkpoint_size > 0 and not status.checkpoint_failure)


@pytest.mark.parametrize("step", TURN)
async def test_the_front(mortal, step):
    async with place(mortal) as here:
        call_id = fresh("ran")
        assert (await here.mark(call_id)).outcome.exit_code == 0
        filler = Filler(mortal, here)
        await filler.decide()
        await mortal.dies("front", step, filler.fill())
        await agree(mortal)
        filler.all_kept()
        await filler.decide()
        assert (await here.mark(call_id)).outcome.exit_code == 0
        assert (await here.marks()).count(call_id) == 1
        assert not (await here.client.status()).checkpoint_failure
        await here.client.close_session(here.session)


def test_a_key_that_was_made_before_anything_else_is_kept():
    daemon = Mortal()
    try:
        daemon.state.mkdir()
        daemon.arm("warden", f"after {_CHECKPOINTS}._put")
        with pytest.raises(DaemonFailedError):
            daemon.start()
        key = (daemon.state / "checkpoint.key").read_bytes()
        daemon.start()
        assert (daemon.state / "checkpoint.key").read_bytes() == key
        assert daemon.stop() == 0
        daemon.verified()
    finally:
        bury(daemon)
