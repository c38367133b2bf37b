"""Who gets what out of the pool: the right one, warm, once."""

import asyncio

import pytest

from opensafe.errors import Conflict, NotFound, NoWarmSandbox, WardenRefused
from opensafe.model.calls import Program
from opensafe.model.ids import new_id
from opensafe.model.limits import CallLimits
from opensafe.model.sandbox import Launch
from opensafe.warden.sandbox.driver import GuestProgram
from tests.system.pool.support import PROBE

SMALL = {"memory_bytes": 256 << 20}


async def test_r66_the_answer_says_warm_and_cold_once_the_pool_is_empty(pool):
    tenants = await pool({"ready": 1}, {"principal": "other", "ready": 1})
    await tenants.filled()
    warm, cold = await tenants.create(), await tenants.create()
    assert (warm.warm, cold.warm) == (True, False)
    assert 0 < warm.claim_ns < warm.create_ns
    assert cold.claim_ns == 0
    for made in (warm, cold):
        assert (await tenants.in_(made).run(*PROBE)).ended.value == 0


async def test_r66_a_cold_one_can_be_refused_and_the_decision_is_not_used_up(pool):
    tenants = await pool({"ready": 1, "warm_up": ("/none",)})
    spec = tenants.spec()
    decision = tenants.decide("default", spec)
    with pytest.raises(NoWarmSandbox, match="without require_warm"):
        await tenants.client.create_sandbox(spec, decision, require_warm=True)
    assert tenants.ledger("sandbox") == []
    assert not (await tenants.client.create_sandbox(spec, decision)).warm
    with pytest.raises((WardenRefused, Conflict)):
        await tenants.client.create_sandbox(spec, decision)


@pytest.mark.parametrize(
    "asked",
    [
        {"tenant": "other"},
        {"memory_bytes": 512 << 20},
        {"workspace_bytes": 1 << 20},
        {"pids": 65},
        {"root_overlay_bytes": 1 << 20},
    ],
    ids=lambda asked: next(iter(asked)),
)
async def test_r64_what_differs_in_anything_gets_no_cell(pool, asked):
    tenants = await pool({"ready": 1, "limits": {}})
    await tenants.filled()
    with pytest.raises(NoWarmSandbox):
        await tenants.create(require_warm=True, **asked)
    assert (await tenants.create(require_warm=True)).warm  # the twin: it was there all the time


async def test_r64_a_used_sandbox_never_comes_back(pool):
    tenants = await pool({"ready": 1})
    cells = set()
    for _ in range(3):
        await tenants.filled()
        made = await tenants.create(require_warm=True)
        cells.add(tenants.cell_of(made))
        await tenants.client.delete_sandbox(made.sandbox_id)
        assert not cells & tenants.containers()
    assert len(cells) == 3


async def test_200_claims_at_once_on_20_ready_never_share_one(pool):
    tenants = await pool({"ready": 20, "limits": SMALL}, sandboxes=300)
    await tenants.filled()
    answers = await asyncio.gather(
        *(tenants.create(require_warm=True, **SMALL) for _ in range(200)), return_exceptions=True
    )
    made = [one for one in answers if not isinstance(one, BaseException)]
    assert {type(one) for one in answers if isinstance(one, BaseException)} == {NoWarmSandbox}
    assert len(made) == 20
    assert len({tenants.cell_of(one) for one in made}) == 20
    assert len({one.sandbox_id for one in made}) == 20
    listed = {one.sandbox_id for one in await tenants.client.list_sandboxes()}
    assert listed == {one.sandbox_id for one in made}


async def test_more_claims_than_cells_are_all_served_if_cold_ones_are_welcome(pool):
    tenants = await pool({"ready": 2})
    await tenants.filled()
    made = await asyncio.gather(*(tenants.create() for _ in range(5)))
    assert sorted(one.warm for one in made) == [False, False, False, True, True]
    assert len({one.sandbox_id for one in made}) == 5


async def test_nobody_reaches_a_cell_by_its_own_id(pool):
    tenants = await pool({"ready": 1})
    await tenants.filled()
    [cell] = tenants.containers()
    assert await tenants.client.list_sandboxes() == ()
    for ask in (tenants.client.delete_sandbox, tenants.client.pause_sandbox, tenants.client.resume_sandbox):
        with pytest.raises(NotFound):
            await ask(cell)
    launch = Launch(
        sandbox_id=cell,
        exec_id=new_id("exec"),
        program=Program(argv=PROBE, env={}, cwd="/"),
        profile="default",
        limits=CallLimits(),
    )
    caller = tenants.in_(await tenants.create(require_warm=True))
    with pytest.raises(NotFound):
        await caller.start(launch, tenants.decide("default", launch))
    assert (await caller.run(*PROBE)).ended.value == 0  # under the id that it was claimed by


async def test_the_claim_and_what_warmed_the_cell_are_on_record(pool):
    tenants = await pool({"ready": 1})
    await tenants.filled()
    [entry] = tenants.ledger("pool")
    assert entry["exec_id"] in {end["exec_id"] for end in tenants.ledger("end")}
    made = await tenants.create(require_warm=True)
    assert tenants.cell_of(made) == entry["sandbox_id"]
    kinds = [one["kind"] for one in tenants.ledger("sandbox") + tenants.ledger("claim")]
    assert kinds == ["sandbox", "claim"]


async def test_a_claimed_sandbox_is_as_any_other(pool):
    """It can be paused, killed in, found dead and removed under the id that it was claimed by."""
    tenants = await pool({"ready": 1})
    await tenants.filled()
    made = await tenants.create(require_warm=True)
    caller = tenants.in_(made)
    running = await caller.start(caller.launch("/.opensafe/init"))
    await tenants.client.pause_sandbox(made.sandbox_id)
    [listed] = await tenants.client.list_sandboxes()
    assert (listed.sandbox_id, listed.state) == (made.sandbox_id, "paused")
    await tenants.client.resume_sandbox(made.sandbox_id)
    await running.kill()
    assert (await running.end()).ended.kind == "signalled"
    tenants.hierarchies().group(tenants.cell_of(made)).kill()
    [loss] = await tenants.client.await_lost(0)
    assert (loss.sandbox_id, loss.cause) == (made.sandbox_id, "killed")
    await tenants.client.delete_sandbox(made.sandbox_id)
    assert tenants.cell_of(made) not in tenants.containers()


async def test_r67_a_cell_that_died_is_replaced_and_not_handed_out(pool):
    tenants = await pool({"ready": 1})
    await tenants.filled()
    [dead] = tenants.containers()
    tenants.hierarchies().group(dead).kill()
    await tenants.until(lambda _: dead not in tenants.containers())
    await tenants.filled()  # asked only now: one that is being removed is not ready any more
    made = await tenants.create(require_warm=True)
    assert tenants.cell_of(made) != dead
    assert (await tenants.in_(made).run(*PROBE)).ended.value == 0


async def test_r67_a_cell_in_which_something_runs_is_not_handed_out(pool):
    tenants = await pool({"ready": 1})
    await tenants.filled()
    [cell] = tenants.containers()
    intruder = GuestProgram(argv=("/.opensafe/init",), env=(), cwd="/", capabilities=(), descriptors={})
    execution = await tenants.driver.execute(cell, intruder)
    made = await tenants.create()
    await execution.close()
    assert not made.warm
    assert (await tenants.in_(made).run(*PROBE)).ended.value == 0
    await tenants.until(lambda _: cell not in tenants.containers())
    await tenants.filled()


async def test_r67_a_cell_of_an_image_that_was_rebuilt_is_thrown_away(pool, host, rebuild):
    tenants = await pool({"ready": 1})
    await tenants.filled()
    old = tenants.containers()
    rebuild(host, "second")
    made = await tenants.create()
    assert not made.warm
    await tenants.until(lambda states: states[0].ready == 1 and not old & tenants.containers())
    assert (await tenants.create(require_warm=True)).warm


async def test_r67_a_cell_of_another_runtime_is_thrown_away(pool, host):
    tenants = await pool({"ready": 1})
    await tenants.filled()
    old = tenants.containers()
    link = host.root / "runsc"
    target = link.readlink()
    link.unlink()
    link.write_text(f'#!/bin/sh\nexec {target} "$@"\n')
    link.chmod(0o755)
    with pytest.raises(NoWarmSandbox):
        await tenants.create(require_warm=True)
    await tenants.until(lambda _: not old & tenants.containers())
