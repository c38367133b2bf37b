"""A call's whole tree is killed, nothing else is, and what ends leaves nothing behind."""

import asyncio

import pytest

from opensafe.errors import NotFound
from opensafe.model.ids import new_id
from opensafe.warden.sandbox.control import ControlDriver
from tests.system.warden.guest_programs import COUNT, DAEMONS, ORPHANS, RACERS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def others(box) -> tuple[int, int]:
    """How many processes there are in the guest besides PID 1 and runners, and how many of them are zombies."""
    done = await box.run("python3", "-c", COUNT)
    count, zombies = done.text.split()[:2]
    return int(count), int(zombies)


@pytest.mark.parametrize("count", [5, 20])
async def test_r1_g51_double_forked_daemons_are_killed(box, count):
    running = await box.start(box.launch("python3", "-c", DAEMONS, str(count)))
    await running.said(b"ready")
    assert (await others(box))[0] == count + 1  # the control: they are there
    await running.kill()
    done = await running.end()
    assert (done.ended.kind, done.ended.value) == ("signalled", 9)
    assert await others(box) == (0, 0)


@pytest.mark.parametrize("count", [3, 10])
async def test_r1_fork_racers_are_killed(box, count):
    running = await box.start(box.launch("python3", "-c", RACERS, str(count)))
    await running.said(b"ready")
    await running.kill()
    assert (await running.end()).ended.kind == "signalled"
    assert await others(box) == (0, 0)


async def test_r2_what_a_program_leaves_behind_is_gone_when_it_has_ended(box):
    done = await box.sh("sleep 300 & (setsid sleep 300 &) ; echo started; exit 5")
    assert (done.ended.kind, done.ended.value, done.text) == ("exited", 5, "started\n")
    assert await others(box) == (0, 0)


async def test_g51_sleeping_background_and_foreground(box):
    running = await box.start(box.launch("bash", "-c", "echo up; sleep 999 & sleep 999"))
    await running.said(b"up")
    await running.kill()
    await running.end()
    assert await others(box) == (0, 0)


async def test_a_neighbour_in_the_same_sandbox_is_left_alone(box):
    """Two families with daemons and racers side by side: one is killed, the other lives and ends by itself."""
    neighbour = await box.start(
        box.launch("bash", "-c", "setsid sleep 300 & echo up; read line; echo got $line; exit 7")
    )
    await neighbour.said(b"up")
    victim = await box.start(box.launch("python3", "-c", RACERS, "3"))
    daemons = await box.start(box.launch("python3", "-c", DAEMONS, "3"))
    await victim.said(b"ready")
    await daemons.said(b"ready")
    await asyncio.gather(victim.kill(), daemons.kill())
    await asyncio.gather(victim.end(), daemons.end())
    assert (await others(box))[0] == 2  # bash and its sleep
    await neighbour.feed(b"word\n")
    done = await neighbour.end()
    assert (done.ended.kind, done.ended.value, done.text) == ("exited", 7, "up\ngot word\n")
    assert await others(box) == (0, 0)


async def test_a_program_that_is_only_just_started_is_killed(box):
    for _ in range(10):
        running = await box.start(box.launch("sleep", "1000"))
        await running.kill()
        assert (await running.end()).ended.kind == "signalled"
    assert await others(box) == (0, 0)


async def test_r12_orphans_leave_no_zombies(box):
    done = await box.run("python3", "-c", ORPHANS, "200", "0", processes=400)
    assert (done.ended.kind, done.ended.value) == ("exited", 0)
    assert await others(box) == (0, 0)


async def test_a_tree_that_cannot_be_signalled_from_inside_is_killed_from_outside(box):
    running = await box.start(box.launch("bash", "-c", "trap '' TERM INT HUP; echo up; while :; do sleep 1; done"))
    await running.said(b"up")
    await running.kill()
    assert (await running.end()).ended.value == 9


async def test_the_program_can_neither_kill_nor_trace_its_runner_nor_pid_1(box):
    done = await box.sh("kill -9 $PPID; echo $?; kill -9 1; echo $?; cat /proc/$PPID/mem; echo $?; kill -0 $$; echo $?")
    # The last is the control: the same call on itself is granted.
    assert done.text.split() == ["1", "1", "1", "0"]
    assert done.err.count(b"not permitted") == 2


async def test_r15_the_sandbox_is_of_use_after_a_kill(box):
    running = await box.start(box.launch("sleep", "1000"))
    await running.kill()
    await running.end()
    assert (await box.sh("echo fine")).text == "fine\n"


async def test_killing_what_has_ended_is_no_error(box, client):
    running = await box.start(box.launch("true"))
    await running.end()
    await client.kill(running.launch.exec_id)


async def test_killing_what_never_was_is_an_error(client):
    with pytest.raises(NotFound):
        await client.kill(new_id("exec"))


async def test_kill_answers_when_the_tree_is_empty(box, warden):
    running = await box.start(box.launch("python3", "-c", DAEMONS, "20"))
    await running.said(b"ready")
    await running.kill()
    below = [one for one in await ControlDriver(warden._layout).processes(box.spec.sandbox_id) if one.ppid > 1]
    # The next call's, which waits below its own runner, has not become a program yet.
    assert [one for one in below if one.name != "run"] == []
    await running.end()
