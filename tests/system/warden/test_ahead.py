"""Runners that wait: used by the next call, out of reach for the others, replaced, and gone with their sandbox."""

import asyncio
import os

import pytest

from opensafe.warden.sandbox.control import ControlDriver
from tests.system.warden.support import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def waiting(warden, box):
    """Process ids of the runner that waits in a sandbox, and of its child."""
    driver = ControlDriver(warden._layout)
    while True:
        processes = await driver.processes(box.spec.sandbox_id)
        below = {one.ppid: one.pid for one in processes if one.name == "run" and one.ppid}
        for one in processes:
            if one.name == "run" and one.ppid == 0 and one.pid in below:
                return one.pid, below[one.pid]
        await asyncio.sleep(0.002)


async def test_the_first_call_and_each_later_one_find_a_runner(warden, box):
    for _ in range(3):
        runner, program = await waiting(warden, box)
        done = await box.sh("echo $PPID $$")
        assert done.text.split() == [str(runner), str(program)]


async def test_a_call_that_does_not_fit_gets_a_runner_of_its_own(warden, box):
    runner, _ = await waiting(warden, box)
    done = await box.run("sh", "-c", "echo $PPID", "x" * 100_000)
    assert done.text.split() != [str(runner)]
    assert (await box.sh("echo $PPID")).text.split() == [str(runner)]  # which still waited


async def test_calls_at_once_do_not_share_one(warden, box):
    await waiting(warden, box)
    done = await asyncio.gather(*(box.sh("echo $PPID") for _ in range(8)))
    assert len({one.text for one in done}) == 8


async def test_what_waits_cannot_be_opened_or_traced_by_a_call(warden, box):
    looking = await box.start(box.launch("bash", "-c", "echo up; read pid; cat /proc/$pid/{mem,environ,maps,fd/{4,5}}"))
    await looking.said(b"up")
    await box.sh("true")  # at its end the next one starts to wait
    _, program = await waiting(warden, box)
    await looking.feed(f"{program}\n".encode())
    looking.end_input()
    done = await looking.end()
    assert done.out == b"up\n"
    assert done.err.count(b"Permission denied") == 5
    own = await box.sh("cat /proc/$$/{environ,maps}")  # the control: its own it may
    assert b"PATH" in own.out
    assert own.err == b""


async def test_r15_one_that_a_call_killed_is_replaced_after_the_next_call(warden, box):
    killer = await box.start(box.launch("bash", "-c", "echo up; read pid; kill -9 $pid; echo $?"))
    await killer.said(b"up")
    await box.sh("true")  # at its end the next one starts to wait
    runner, program = await waiting(warden, box)
    await killer.feed(f"{program}\n".encode())
    killer.end_input()
    assert (await killer.end()).text == "up\n0\n"
    done = await box.sh("echo $PPID; exit 3")
    assert (done.ended.kind, done.ended.value) == ("exited", 3)
    assert done.text.split() != [str(runner)]
    again, _ = await waiting(warden, box)
    assert (await box.sh("echo $PPID")).text.split() == [str(again)]


async def test_r10_descriptors_and_tasks_are_as_many_as_before(client, front, warden, box):
    await waiting(warden, box)
    before = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
    for _ in range(3):
        other = await Caller(client, front).create()
        await waiting(warden, other)
        await other.sh("true")
        await other.delete()
    await waiting(warden, box)
    for _ in range(1000):  # tasks end a few steps later
        await asyncio.sleep(0)
    assert (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())) <= before
