"""Both drivers of runsc do the same: the control socket, and the command line behind it."""

import asyncio
import os

import pytest
import pytest_asyncio

from opensafe.errors import DriverError
from opensafe.model.ids import new_id
from opensafe.warden.sandbox.driver import GuestProgram
from tests.system.warden.guest_programs import COUNT, DAEMONS
from tests.system.warden.support import Caller, Direct, Host, NoFront

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["socket", "command line"])
async def direct(request, native):
    host = Host(native)
    direct = Direct(host, request.param)
    yield direct
    await direct.close()
    left = host.leftovers()
    host.remove()
    assert left == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(direct):
    return await Caller(direct, NoFront()).create()


@pytest.mark.parametrize("code", [0, 3, 255])
async def test_exit_codes(box, code):
    done = await box.sh(f"exit {code}")
    assert (done.ended.kind, done.ended.value) == ("exited", code)


async def test_a_signal(box):
    done = await box.sh("kill -SEGV $$")
    assert (done.ended.kind, done.ended.value) == ("signalled", 11)


async def test_a_missing_program(box):
    done = await box.run("no-such-program")
    assert (done.ended.kind, done.ended.value, done.ended.detail) == ("not_started", 2, "exec")


async def test_end_of_input(box):
    assert (await box.run("cat", stdin=b"in")).out == b"in"
    assert (await box.run("cat")).out == b""


async def test_r22_all_byte_values(box):
    script = "import sys; d = sys.stdin.buffer.read(); [s.buffer.write(d) for s in (sys.stdout, sys.stderr)]"
    done = await box.run("python3", "-c", script, stdin=bytes(range(256)))
    assert (done.out, done.err) == (bytes(range(256)), bytes(range(256)))


@pytest.mark.parametrize("argument", ["detach", "--detach", "a\nb", "", "é☃", "$(id)", "--", "-x"])
async def test_r14_arguments(box, argument):
    assert (await box.run("printf", "%s", argument)).out == argument.encode()


async def test_environment_and_directory(box):
    done = await box.run("/bin/sh", "-c", "env; pwd", env={"A": "b=c", "HOME": "/"}, cwd="/tmp")
    assert sorted(done.text.split()) == ["/tmp", "A=b=c", "HOME=/", "PWD=/tmp"]


async def test_no_descriptor_is_left_to_the_program(box):
    done = await box.run("python3", "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
    assert done.text == "[0, 1, 2, 3]\n"


async def test_loopback(box):
    script = (
        "import socket as s; l = s.create_server(('127.0.0.1', 0)); s.create_connection(l.getsockname()); print('ok')"
    )
    assert (await box.run("python3", "-c", script)).text == "ok\n"


async def test_a_tree_is_killed_and_its_neighbour_is_not(box):
    neighbour = await box.start(box.launch("cat"))
    victim = await box.start(box.launch("python3", "-c", DAEMONS, "5"))
    await victim.said(b"ready")
    await victim.kill()
    assert (await victim.end()).ended.value == 9
    assert (await box.run("python3", "-c", COUNT)).text.split()[0] == "1"
    await neighbour.feed(b"still here")
    neighbour.end_input()
    assert (await neighbour.end()).out == b"still here"


async def test_only_what_is_below_the_runner_is_killed(box, direct):
    sandbox_id = box.spec.sandbox_id
    # One program that stays itself: a shell becomes the last one that it runs.
    running = await box.start(box.launch("python3", "-c", "print('up', flush=True); import time; time.sleep(1000)"))
    await running.said(b"up")
    processes = await direct.driver.processes(sandbox_id)
    [runner] = [one.pid for one in processes if one.ppid == 0 and one.pid != 1]
    [leader] = [one.pid for one in processes if one.ppid == runner]
    for not_a_runner in (leader, 99999):
        assert await direct.driver.signal(sandbox_id, not_a_runner, 9, whole_tree=True) == 0
    assert await direct.driver.processes(sandbox_id) == processes
    assert await direct.driver.signal(sandbox_id, runner, 9, whole_tree=True) == 1
    assert (await running.end()).ended.value == 9


async def test_an_unknown_sandbox_is_a_driver_error(direct):
    unknown = new_id("sb")
    with pytest.raises(DriverError):
        await direct.driver.processes(unknown)


async def test_a_program_that_the_sentry_cannot_start_is_a_driver_error(box, direct):
    null = os.open("/dev/null", os.O_RDWR)
    try:
        program = GuestProgram(
            argv=("/nope",), env=(), cwd="/", capabilities=(), descriptors={0: null, 1: null, 2: null}
        )
        with pytest.raises(DriverError):
            await direct.driver.execute(box.spec.sandbox_id, program)
    finally:
        os.close(null)


async def test_a_pause_stops_the_guest_and_a_resume_lets_it_go_on(direct, box):
    running = await box.start(box.launch("cat"))
    await direct.lifecycle.pause(box.spec.sandbox_id)
    await running.feed(b"in")
    await asyncio.sleep(0.1)
    assert not running.out
    await direct.lifecycle.resume(box.spec.sandbox_id)
    await running.said(b"in")
    running.end_input()
    assert (await running.end()).ended.kind == "exited"
