"""The helper is killed at every step of reading reports; what runs waits for the next one and goes on as it was."""

import pytest

from opensafe import errors
from opensafe.model.outcome import OutcomeKind
from tests.system.recovery.conftest import place
from tests.system.recovery.support import fresh

pytestmark = [pytest.mark.root, pytest.mark.runsc]

_WATCHER = "opensafe.monitor.watcher:Watcher"
STEPS = [
    f"before {_WATCHER}.turn",
    f"before {_WATCHER}._hear",
    f"before {_WATCHER}._take",
    f"after {_WATCHER}._take",
    f"before {_WATCHER}._say",
    f"after {_WATCHER}._say",
]
#: Reached only where a guest reports.
OF_REPORTS = [
    f"before {_WATCHER}._read",
    f"before {_WATCHER}._consider",
    f"after {_WATCHER}._consider",
    f"3 after {_WATCHER}._consider",
    f"after {_WATCHER}._read",
]


@pytest.fixture
async def here(mortal):
    async with place(mortal) as made:
        yield made
        await made.client.close_session(made.session)


@pytest.mark.parametrize("step", STEPS)
async def test_a_creation_is_whole_or_refused(mortal, step):
    async with mortal.client() as client:
        session = await client.create_session("tester")
        done = await mortal.dies("helper", step, client.create_sandbox(session))
        rows = [row for row in await client.list_sandboxes() if row.session_id == session]
        assert len(rows) == (0 if isinstance(done, errors.OpenSafeError) else 1)
        await client.close_session(session)
    assert mortal.left() == []


@pytest.mark.parametrize("step", STEPS + OF_REPORTS)
async def test_a_call_waits_and_runs_once(mortal, here, step):
    call_id = fresh("call")
    done = await mortal.dies(
        "helper", step, here.sh(call_id, f"/bin/echo {call_id} >> runs.txt; /bin/true; cat runs.txt")
    )
    if isinstance(done, errors.OpenSafeError):
        raise done
    assert (done.outcome.kind, done.stdout.decode()) == (OutcomeKind.EXITED, f"{call_id}\n")
    assert await here.marks() == [call_id]


@pytest.mark.parametrize("step", [f"after {_WATCHER}._take", f"before {_WATCHER}._forget", f"after {_WATCHER}._forget"])
async def test_a_deletion_is_carried_out(mortal, here, step):
    await mortal.dies("helper", step, here.client.delete_sandbox(here.sandbox))
    with pytest.raises(errors.NotFound):
        await here.client.get_sandbox(here.sandbox)
    assert mortal.left() == []


@pytest.mark.parametrize("step", STEPS[:1])
async def test_a_pause_outlives_it(mortal, here, step):
    await mortal.dies("helper", step, here.client.pause_sandbox(here.sandbox))
    assert (await here.client.get_sandbox(here.sandbox)).state == "paused"
    await here.client.resume_sandbox(here.sandbox)
    assert (await here.sh(fresh("well"), "echo well")).stdout == b"well\n"
