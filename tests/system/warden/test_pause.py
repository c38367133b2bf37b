"""A paused sandbox stands still, keeps what it has, and takes no call; what must end in it ends all the same."""

import asyncio
import os
import signal
import time

import pytest

from opensafe.errors import DriverError, NotFound, SandboxLost, SandboxPaused
from opensafe.model.ids import new_id
from opensafe.warden.sandbox.control import ControlDriver
from tests.system.warden.support import Caller
from tests.system.warden.test_lost import members, state_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = "i=0; while :; do i=$((i + 1)); echo $i; sleep 0.01; done"


async def standing(running):
    """Whether nothing more is written."""
    before = len(running.out)
    await asyncio.sleep(0.2)
    return len(running.out) == before


async def test_r60_a_paused_guest_stands_still_and_goes_on_with_its_files(client, box):
    await box.sh("head -c 1M /dev/urandom > /workspace/a; sha256sum /workspace/a > /tmp/sum")
    running = await box.start(box.launch("bash", "-c", COUNT))
    await running.said(b"2\n")
    await client.pause_sandbox(box.spec.sandbox_id)
    await asyncio.sleep(0.05)  # what was written before the pause is read
    assert await standing(running)
    assert await state_of(client, box) == ("paused", "")
    await client.resume_sandbox(box.spec.sandbox_id)
    assert not await standing(running)  # the control
    await running.kill()
    await running.end()
    assert (await box.sh("sha256sum -c /tmp/sum")).ended.value == 0


async def test_a_call_in_a_paused_sandbox_is_refused_with_the_remedy(client, box):
    await client.pause_sandbox(box.spec.sandbox_id)
    with pytest.raises(SandboxPaused, match="Resume it"):
        await box.sh("true")
    await client.resume_sandbox(box.spec.sandbox_id)
    assert (await box.sh("true")).ended.value == 0


async def test_pausing_and_resuming_twice_are_once(client, box):
    """Pauses nest in the sentry, and a resume too many ends it."""
    for _ in range(2):
        await client.pause_sandbox(box.spec.sandbox_id)
    for _ in range(3):
        await client.resume_sandbox(box.spec.sandbox_id)
    assert (await box.sh("echo on")).text == "on\n"


async def test_pauses_and_resumes_at_once_end_in_one_of_the_two(client, box):
    await asyncio.gather(
        *(turn(box.spec.sandbox_id) for _ in range(20) for turn in (client.pause_sandbox, client.resume_sandbox))
    )
    await client.resume_sandbox(box.spec.sandbox_id)
    assert (await box.sh("echo on")).text == "on\n"


async def test_a_call_of_a_paused_sandbox_can_be_killed_and_the_others_stay_paused(client, box):
    counting = await box.start(box.launch("bash", "-c", COUNT))
    doomed = await box.start(box.launch("bash", "-c", "trap '' TERM; (sleep 1000 & sleep 1000) & echo up; wait"))
    await doomed.said(b"up")
    await client.pause_sandbox(box.spec.sandbox_id)
    await doomed.kill()
    assert (await doomed.end()).ended.kind == "signalled"
    await asyncio.sleep(0.05)
    assert await standing(counting)
    await client.resume_sandbox(box.spec.sandbox_id)
    await counting.kill()
    await counting.end()
    left = (await box.sh("cat /proc/[0-9]*/comm 2>/dev/null; true")).text.split()
    assert {name.partition(":")[0] for name in left} <= {"init", "run", "bash", "cat"}
    assert left.count("bash") == 1  # the one that asks


async def test_r59_the_guests_clock_is_the_hosts_after_a_pause(client, box):
    await client.pause_sandbox(box.spec.sandbox_id)
    await asyncio.sleep(15)
    await client.resume_sandbox(box.spec.sandbox_id)
    before = time.time()
    guest = float((await box.run("date", "+%s.%N")).text)
    assert before - 0.05 < guest < time.time() + 0.05


async def test_a_paused_sandbox_can_be_deleted_and_its_death_is_seen(client, front, host):
    first, second = await asyncio.gather(Caller(client, front).create(), Caller(client, front).create())
    for caller in (first, second):
        await client.pause_sandbox(caller.spec.sandbox_id)
    await first.delete()
    os.kill(members(host, second)["runsc-sandbox"], signal.SIGKILL)
    [loss] = await client.await_lost(0)
    assert (loss.sandbox_id, loss.cause) == (second.spec.sandbox_id, "killed")
    with pytest.raises(SandboxLost):
        await client.resume_sandbox(second.spec.sandbox_id)
    await second.delete()


async def test_a_pause_that_fails_ends_the_sandbox_with_that_cause(client, front, monkeypatch):
    """Whether it counts in the sentry is then unknown."""
    caller = await Caller(client, front).create()

    async def fails(*_):
        raise DriverError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(ControlDriver, "pause", fails)
        with pytest.raises(SandboxLost, match="pause failed"):
            await client.pause_sandbox(caller.spec.sandbox_id)
    assert await state_of(client, caller) == ("lost", "pause failed")
    await caller.delete()


async def test_an_unknown_sandbox_is_not_found(client, warden):
    for operation in (client.pause_sandbox, client.resume_sandbox):
        with pytest.raises(NotFound):
            await operation(new_id("sb"))


async def test_r49_losses_are_told_once_each_until_their_sandbox_is_deleted(client, front, host):
    waiting = asyncio.create_task(client.await_lost(0))
    callers = [await Caller(client, front).create() for _ in range(2)]
    os.kill(members(host, callers[0])["runsc-gofer"], signal.SIGKILL)
    async with asyncio.timeout(10):
        [first] = await waiting
    assert (first.sandbox_id, first.cause) == (callers[0].spec.sandbox_id, "killed")
    os.kill(members(host, callers[1])["runsc-sandbox"], signal.SIGKILL)
    async with asyncio.timeout(10):
        [second] = await client.await_lost(first.number)
    assert second.sandbox_id == callers[1].spec.sandbox_id
    assert {loss.sandbox_id for loss in await client.await_lost(0)} == {one.spec.sandbox_id for one in callers}
    for caller in callers:
        await caller.delete()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await client.await_lost(0)
