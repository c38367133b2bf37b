"""Signals from outside: to the program or to its whole tree, never to its runner, its neighbours or PID 1."""

import asyncio
import signal

import pytest

from opensafe.errors import InvalidArgument, NotFound
from opensafe.model.ids import new_id
from opensafe.warden import protocol
from tests.system.warden.guest_programs import COUNT, DAEMONS, RACERS

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Two daemons in sessions of their own, and the program itself: each says what it got.
FAMILY = """
import os, signal, sys, time
def say(text):
    os.write(1, text.encode() + b"\\n")
def listen(name):
    signal.signal(signal.SIGUSR1, lambda *_: say(f"{name} got it"))
    say(f"{name} up")
    while True:
        time.sleep(1)
for number in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            listen(f"daemon {number}")
        os._exit(0)
    os.wait()
listen("program")
"""


async def family(box):
    running = await box.start(box.launch("python3", "-c", FAMILY))
    for name in (b"program", b"daemon 0", b"daemon 1"):
        await running.said(name + b" up")
    return running


async def others(box):
    return int((await box.run("python3", "-c", COUNT)).text.split()[0])


async def test_the_program_alone_gets_it(box, client):
    running = await family(box)
    await client.signal(running.launch.exec_id, signal.SIGUSR1, whole_tree=False)
    await running.said(b"program got it")
    await client.signal(running.launch.exec_id, signal.SIGKILL, whole_tree=False)
    done = await running.end()
    assert (done.ended.kind, done.ended.value) == ("signalled", 9)
    assert b"daemon 0 got it" not in done.out
    assert b"daemon 1 got it" not in done.out
    assert await others(box) == 0


async def test_the_whole_tree_gets_it_daemons_included_and_the_neighbour_does_not(box, client):
    running, neighbour = await family(box), await family(box)
    await client.signal(running.launch.exec_id, signal.SIGUSR1, whole_tree=True)
    for name in (b"program", b"daemon 0", b"daemon 1"):
        await running.said(name + b" got it")
    assert b"got it" not in neighbour.out
    await client.signal(
        neighbour.launch.exec_id, signal.SIGUSR1, whole_tree=False
    )  # the control: it would have said so
    await neighbour.said(b"program got it")
    await asyncio.gather(running.kill(), neighbour.kill())
    await asyncio.gather(running.end(), neighbour.end())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_r4_strays_end_with_one_signal_to_the_tree(box, client, number):
    running = await box.start(box.launch("python3", "-c", DAEMONS, "20"))
    await running.said(b"ready")
    assert await others(box) == 21
    await client.signal(running.launch.exec_id, number, whole_tree=True)
    done = await running.end()
    assert (done.ended.kind, done.ended.value) == ("signalled", number)
    assert await others(box) == 0


async def test_fork_racers_do_not_escape_one_signal(box, client):
    running = await box.start(box.launch("python3", "-c", RACERS, "5"))
    await running.said(b"ready")
    await client.signal(running.launch.exec_id, signal.SIGKILL, whole_tree=True)
    assert (await running.end()).ended.value == 9
    assert await others(box) == 0


async def test_a_stopped_tree_goes_on_when_continued(box, client):
    running = await box.start(box.launch("bash", "-c", "echo up; while read line; do echo got $line; done"))
    await running.said(b"up")
    await client.signal(running.launch.exec_id, signal.SIGSTOP, whole_tree=True)
    await running.feed(b"word\n")
    assert "State:\tT" in (await box.sh("cat /proc/[0-9]*/status")).text
    assert b"got" not in running.out
    await client.signal(running.launch.exec_id, signal.SIGCONT, whole_tree=True)
    await running.said(b"got word")
    running.end_input()
    assert (await running.end()).ended.value == 0


async def test_a_signal_right_after_the_start_arrives(box, client):
    for _ in range(10):
        running = await box.start(box.launch("sleep", "1000"))
        await client.signal(running.launch.exec_id, signal.SIGTERM, whole_tree=False)
        assert (await running.end()).ended.value == signal.SIGTERM


async def test_a_process_that_poses_as_a_runner_is_signalled_as_what_it_is(box, client):
    """Names are the guest's to choose; which process is a runner is not."""
    pose = "import os; open('/proc/self/comm', 'w').write(f'run:{os.getpid()}'); print('up', flush=True); input()"
    poser = await box.start(box.launch("python3", "-c", pose))
    victim = await family(box)
    await client.signal(poser.launch.exec_id, signal.SIGTERM, whole_tree=False)
    assert (await poser.end()).ended.value == signal.SIGTERM
    assert b"got it" not in victim.out
    await victim.kill()
    await victim.end()


@pytest.mark.parametrize("number", [0, -1, signal.SIGSEGV, signal.SIGSYS, signal.SIGCHLD, 32, 64, 65, 2**31])
async def test_what_is_not_for_sending_is_refused(box, client, number):
    running = await box.start(box.launch("cat"))
    with pytest.raises(InvalidArgument, match="15 SIGTERM"):
        await client.signal(running.launch.exec_id, number, whole_tree=True)
    running.end_input()
    assert (await running.end()).ended.kind == "exited"


async def test_what_has_ended_or_never_was_cannot_be_signalled(box, client):
    done = await box.start(box.launch("true"))
    await done.end()
    for exec_id in (done.launch.exec_id, new_id("exec")):
        with pytest.raises(NotFound):
            await client.signal(exec_id, signal.SIGTERM, whole_tree=False)


async def test_the_sandbox_goes_on_after_every_signal(box, client):
    for number in protocol.SIGNALS:
        running = await box.start(box.launch("sleep", "1000"))
        await client.signal(running.launch.exec_id, number, whole_tree=True)
        await running.kill()
        await running.end()
    assert (await box.sh("echo fine")).text == "fine\n"
