"""A terminal through the whole of the warden: made by gVisor, sized from outside, killed like any call."""

import asyncio
import os
import pathlib

import msgspec
import pytest

from opensafe.errors import InvalidArgument, NotFound
from opensafe.model.ids import new_id
from opensafe.model.sandbox import Terminal
from tests.system.warden.guest_programs import COUNT

pytestmark = pytest.mark.asyncio(loop_scope="module")

SMALL = Terminal(columns=80, rows=24)
#: From asm-generic/ioctls.h: types into somebody's terminal; pastes into the console.
TIOCSTI, TIOCLINUX = 0x5412, 0x541C


async def on_terminal(box, *argv, **options):
    launch = msgspec.structs.replace(box.launch(*argv, **options), terminal=SMALL)
    return await box.start(launch)


async def finished(running):
    running.end_input()
    return await running.end()


def host_terminals():
    """Pseudo-terminals of this host that are open anywhere."""
    return sorted(path.name for path in pathlib.Path("/dev/pts").iterdir())


async def test_streams_are_a_terminal_of_the_guest_and_none_of_the_host(box):
    before = host_terminals()
    running = await on_terminal(box, "bash", "-c", "tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all >&2; read x")
    await running.said(b"all")
    assert host_terminals() == before
    done = await finished(running)
    assert done.out.split(b"\r\n")[1:3] == [b"24 80", b"all"]
    assert done.err == b""
    assert (done.ended.kind, done.ended.cut) == ("exited", False)


async def test_there_is_no_terminal_unless_asked_for(box):
    assert (await box.sh("tty; test -t 1 || echo none; : 2>/dev/null </dev/tty || echo none")).text.count("none") == 2


async def test_terminal_is_the_user_s_own(box):
    done = await finished(await on_terminal(box, "bash", "-c", "exec 3<>$(tty) && echo opened; stat -c %u:%a $(tty)"))
    assert done.out.split() == [b"opened", b"1000:600"]


async def test_resize_is_signalled(box, client):
    running = await on_terminal(
        box, "bash", "-c", "trap 'stty size' WINCH; echo up; while [ ! -e /tmp/end ]; do sleep 0.01; done"
    )
    await running.said(b"up")
    await client.resize(running.launch.exec_id, Terminal(columns=132, rows=50))
    await running.said(b"50 132")
    await box.sh("touch /tmp/end")
    assert (await finished(running)).ended.kind == "exited"


async def test_resize_of_what_has_no_terminal_has_ended_or_never_was(box, client):
    running = await box.start(box.launch("cat"))
    with pytest.raises(InvalidArgument, match="no terminal"):
        await client.resize(running.launch.exec_id, SMALL)
    await finished(running)
    for exec_id in (running.launch.exec_id, new_id("exec")):
        with pytest.raises(NotFound):
            await client.resize(exec_id, SMALL)


async def test_job_control(box):
    shell = await on_terminal(box, "bash", "--norc", "-i", env={"PATH": "/usr/bin:/bin", "TERM": "dumb"})
    await shell.said(b"$ ")
    await shell.feed(b"echo up; cat\n")
    await shell.said(b"\nup\r\n")
    await shell.feed(b"one\n")
    await shell.said(b"one\r\none\r\n")
    await shell.feed(b"\x1a")
    await shell.said(b"Stopped")
    await shell.feed(b"fg\n")
    await shell.said(b"\ncat\r\n")
    await shell.feed(b"two\n")
    await shell.said(b"two\r\ntwo\r\n")
    await shell.feed(b"\x03")
    await shell.feed(b"echo status $?; exit 7\n")
    await shell.said(b"status 130")
    done = await finished(shell)
    assert (done.ended.kind, done.ended.value) == ("exited", 7)


@pytest.mark.parametrize(("typed", "came"), [(b"", b""), (b"line\n", b"line\n"), (b"half", b"half")])
async def test_r20_end_of_input(box, typed, came):
    running = await on_terminal(box, "bash", "-c", "stty -echo; echo up; cat")
    await running.said(b"up\r\n")
    if typed:
        await running.feed(typed)
    done = await finished(running)
    assert done.out.replace(b"\r\n", b"\n").removeprefix(b"up\n") == came


async def test_r22_all_byte_values_pass_in_both_directions(box):
    data = bytes(range(256)) * 16
    echo = f"import os, tty; tty.setraw(0); os.write(1, b'!'); n = {len(data)}\n"
    echo += "while n: d = os.read(0, n); os.write(1, d); n -= len(d)"
    running = await on_terminal(box, "python3", "-c", echo)
    await running.said(b"!")
    await running.feed(data)
    assert (await finished(running)).out == b"!" + data


async def test_r24_a_flood_arrives_whole(box):
    done = await finished(await on_terminal(box, "bash", "-c", "stty raw; yes | head -c 20000000"))
    assert done.out.replace(b"\r\n", b"\n") == b"y\n" * 10_000_000  # the first line may come before it is raw


async def test_kill_takes_the_whole_tree_and_leaves_no_terminal(box):
    running = await on_terminal(box, "bash", "-c", "setsid sleep 1000 & sleep 1000 & echo up; yes > /dev/tty")
    await running.said(b"up")
    await running.kill()
    done = await finished(running)
    assert (done.ended.kind, done.ended.value) == ("signalled", 9)
    assert (await box.run("python3", "-c", COUNT)).text.startswith("0 ")
    assert (await box.sh("ls /dev/pts")).text == "ptmx\n"


async def test_r2_what_the_program_leaves_on_its_terminal_is_gone(box):
    done = await finished(await on_terminal(box, "bash", "-c", "(trap '' HUP; sleep 1000) & echo bye; exit 3"))
    assert (done.ended.kind, done.ended.value, done.out) == ("exited", 3, b"bye\r\n")
    assert (await box.run("python3", "-c", COUNT)).text.startswith("0 ")


async def test_r26_what_nobody_reads_is_told(box, client):
    """The pipe is full and its reader asleep: the end is known, and that something is missing."""
    launch = msgspec.structs.replace(box.launch("bash", "-c", "stty raw; head -c 150000 /dev/zero"), terminal=SMALL)
    ends = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
    (stdin, stdin_end), (output, output_end), (error, error_end) = ends
    try:
        await client.start(launch, box.front.decide(launch), stdin, output_end, error_end)
        ended = await client.wait(launch.exec_id)
    finally:
        for one in (stdin, stdin_end, output, output_end, error, error_end):
            os.close(one)
    assert (ended.kind, ended.value, ended.cut) == ("exited", 0, True)


async def test_nothing_types_for_somebody_else(box):
    tries = f"""
import errno, fcntl
for request in ({TIOCSTI}, {TIOCLINUX}):
    try:
        fcntl.ioctl(0, request, b"x")
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])
print(len(fcntl.ioctl(0, 0x5401, bytes(60))))  # TCGETS, which a terminal needs
"""
    done = await finished(await on_terminal(box, "python3", "-c", tries))
    assert done.out.split() == [b"EXDEV", b"EXDEV", b"60"]


async def test_terminals_side_by_side_have_nothing_of_each_other(box):
    first, second = await asyncio.gather(*(on_terminal(box, "bash", "-c", "stty -echo; cat") for _ in range(2)))
    await second.feed(b"two\n")
    await first.feed(b"one\n")
    await first.said(b"one")
    await second.said(b"two")
    assert b"two" not in (await finished(first)).out
    assert b"one" not in (await finished(second)).out


@pytest.mark.parametrize("value", [0, -1, 10_001, 2**53, 2**63])
async def test_r34_sizes_are_bounded(value):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"columns": value, "rows": 24}, Terminal)
