"""A run's file: private, one process at a time, one checkpoint; and damaged files are said to be."""

import pytest

from opensafe.errors import Conflict, InvalidArgument, NotFound, OpenSafeError
from opensafe.planner import Planner, RunFile
from tests.unit.planner.support import QUICK_LIMITS, call, model


def test_a_file_is_private_and_belongs_to_one(tmp_path):
    file = RunFile(tmp_path / "runs", "run-1")
    with file.claimed(new=True) as path:
        path.write_text("x")
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(Conflict, match="another process"), RunFile(tmp_path / "runs", "run-1").claimed(new=False):
            pytest.fail("two had it")
    with file.claimed(new=False) as path:
        assert path.read_text() == "x"


def test_one_of_which_nothing_came_is_gone(tmp_path):
    with RunFile(tmp_path, "run-1").claimed(new=True):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("run_id", ["", "../run-1", "run/1", "run.1", "rün-1"])
def test_an_id_is_no_path(tmp_path, run_id):
    with pytest.raises(InvalidArgument):
        RunFile(tmp_path, run_id)


def test_a_run_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(NotFound), RunFile(tmp_path, "run-1").claimed(new=False):
        pytest.fail("it was there")
    assert list(tmp_path.iterdir()) == []


async def test_a_damaged_file_is_said_to_be(tmp_path, client):
    path = tmp_path / "runs.sqlite"
    path.write_bytes(b"no database, and long enough to be looked at " * 100)
    with pytest.raises(OpenSafeError, match="can't be read or written"):
        async with Planner.open(client, model(), path) as planner:
            await planner.resume("run-1")


async def test_only_the_latest_checkpoint_stays(tmp_path, client):
    async with Planner.open(client, model({"call": call()}), tmp_path / "runs.sqlite", limits=QUICK_LIMITS) as planner:
        run_id = await planner.begin("x", sandbox=("ses-1", "sb-1"))
        assert len([step async for step in planner.steps(run_id)]) > 5
        saver = planner._graph.checkpointer
        async with saver.conn.execute("SELECT count(*) FROM checkpoints") as rows:
            assert await rows.fetchone() == (1,)


async def test_a_database_is_made_for_its_owner_alone_and_where_it_can_be(tmp_path, client):
    path = tmp_path / "runs.sqlite"
    async with Planner.open(client, model({"answer": ""}), path) as planner:
        await planner.begin("x", sandbox=("ses-1", "sb-1"))
        assert {one.stat().st_mode & 0o777 for one in tmp_path.glob("runs.sqlite*")} == {0o600}
    with pytest.raises(InvalidArgument, match="can't be made"):
        async with Planner.open(client, model(), tmp_path / "no" / "runs.sqlite"):
            pytest.fail("it was made")
