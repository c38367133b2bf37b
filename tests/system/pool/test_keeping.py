"""How cells are made: no more than there is room for, no faster than they fail, and nothing without a runtime."""

import contextlib
import sqlite3

import pytest

from opensafe.errors import LimitExceeded, SandboxStartFailed
from tests.system.pool.support import PROBE


def intents(host):
    """How many sandboxes are on record to be removed, should the warden die now."""
    with contextlib.closing(sqlite3.connect(host.layout.state / "warden.db")) as database:
        return database.execute("SELECT count(*) FROM sandboxes").fetchone()[0]


async def test_r65_what_fails_is_tried_with_growing_pauses_and_the_reason_shows(pool):
    tenants = await pool({"ready": 4, "warm_up": ("/.opensafe/probe", "read", "/none")}, {"ready": 1, "limits": {}})
    failing, _ = await tenants.until(lambda states: states[0].failures >= 2)
    assert failing.ready == 0
    assert "exited 1" in failing.error
    assert failing.pause_s >= 1
    _, good = await tenants.until(lambda states: states[1].ready == 1)  # the twin, in the same pool
    assert (good.failures, good.error) == (0, "")
    assert len(tenants.ledger("pool")) <= failing.failures + 2  # one at a time


async def test_r65_a_failing_pool_takes_nothing_from_creates(pool):
    tenants = await pool({"ready": 4, "warm_up": ("/none",)})
    [state] = await tenants.until(lambda states: states[0].failures >= 1)
    assert "not_started" in state.error
    made = await tenants.create()
    assert (await tenants.in_(made).run(*PROBE)).ended.value == 0


async def test_r65_cells_count_against_the_cap_and_give_way(pool):
    tenants = await pool({"ready": 2}, sandboxes=3)
    await tenants.filled()
    made = []
    for cold in (True, True, False):  # of another kind: these need the cells' places
        limits = {"pids": 99} if cold else {}
        made.append(await tenants.create(**limits))
        assert len(tenants.containers()) <= 3
    [state] = await tenants.states()
    assert state.ready == 0
    with pytest.raises(LimitExceeded, match=r"caps\.sandboxes"):
        await tenants.create()
    for one in made:
        await tenants.client.delete_sandbox(one.sandbox_id)
    await tenants.filled()
    assert len(tenants.containers()) == 2


async def test_r65_a_create_gets_the_place_of_a_cell_that_is_being_made(pool):
    tenants = await pool({"ready": 1}, sandboxes=1)
    await tenants.until(lambda _: tenants.ledger("pool"))
    made = await tenants.create(pids=99)
    assert not made.warm
    assert tenants.containers() == {made.sandbox_id}
    await tenants.client.delete_sandbox(made.sandbox_id)
    await tenants.filled()


async def test_r66_a_missing_runtime_fails_before_anything_is_made(pool, host):
    tenants = await pool({"ready": 1})
    await tenants.filled()
    link = host.root / "runsc"
    target = link.readlink()
    link.unlink()
    entries = len(tenants.ledger("sandbox") + tenants.ledger("pool"))
    spec = tenants.spec(pids=99)
    decision = tenants.decide("default", spec)
    with pytest.raises(SandboxStartFailed, match="runtime is missing"):
        await tenants.client.create_sandbox(spec, decision)
    [state] = await tenants.until(lambda states: states[0].failures >= 1 and not intents(host))  # the old cell goes
    assert "runtime is missing" in state.error
    assert len(tenants.ledger("sandbox") + tenants.ledger("pool")) == entries
    assert tenants.containers() == set()
    link.symlink_to(target)
    assert (await tenants.client.create_sandbox(spec, decision)).create_ns > 0
