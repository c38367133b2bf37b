"""The command line against a real daemon: a terminal that is lent and given back, calls left and found again."""

import asyncio
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios

import pytest

from opensafe.cli.exits import Exit


class Shell:
    """Runs `opensafe` as a user would, on a terminal of 100 x 30 or without one."""

    def __init__(self, daemon, sandbox):
        self.sandbox = sandbox
        self.environment = {**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of("agent"))}

    async def run(self, *arguments):
        """Status, stdout and stderr."""
        process = await self.start(*arguments)
        stdout, stderr = await process.communicate()
        return process.returncode, stdout, stderr.decode()

    async def start(self, *arguments):
        """A command without a terminal."""
        command = (sys.executable, "-m", "opensafe.cli", *arguments)
        return await asyncio.create_subprocess_exec(
            *command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def on_terminal(self, *arguments):
        """A command on a terminal of its own, and that terminal."""
        ours, theirs = os.openpty()
        resize(ours, 100, 30)
        # The controlling terminal: from another one no SIGWINCH would come.
        command = ("setsid", "--ctty", sys.executable, "-m", "opensafe.cli", *arguments)
        process = subprocess.Popen(command, env=self.environment, stdin=theirs, stdout=theirs, stderr=theirs)
        return process, ours, theirs


def resize(terminal, columns, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def until(terminal, wanted):
    """Read the terminal until it shows `wanted`; everything it showed."""
    seen = b""
    while wanted not in seen:
        try:
            seen += await asyncio.to_thread(os.read, terminal, 4096)
        except OSError:  # EIO: nobody is on the other side any more
            raise AssertionError(f"the command ended after {seen!r}") from None
    return seen


@pytest.fixture
def shell(daemon, sandbox):
    return Shell(daemon, sandbox)


async def test_a_program_has_our_terminal_its_keys_and_its_sizes_and_gives_it_back(shell, place):
    text = "trap 'stty size' WINCH; trap 'echo caught; exit 3' INT; stty size\nwhile true; do sleep 0.1; done"
    script = await place.script("tty.sh", text)
    process, ours, theirs = shell.on_terminal("run", "-t", "--sandbox", shell.sandbox, "bash", script)
    try:
        before = termios.tcgetattr(theirs)
        await until(ours, b"30 100\r\n")
        resize(ours, 80, 24)
        await until(ours, b"24 80\r\n")
        os.write(ours, b"\x03")  # Ctrl-C is the program's
        await until(ours, b"caught\r\n")
        assert await asyncio.to_thread(process.wait) == 3
        assert termios.tcgetattr(theirs) == before
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


async def test_a_detached_call_is_listed_attached_to_and_signalled(shell, place):
    script = await place.script("up.sh", "echo up; trap 'echo bye; exit 5' TERM; while true; do sleep 0.1; done")
    status, stdout, stderr = await shell.run("run", "-d", "--tag", "job", "--sandbox", shell.sandbox, "bash", script)
    assert (status, stderr) == (0, "")
    call_id = stdout.decode().strip()
    listed = (await shell.run("exec", "list", "--state", "running"))[1].decode()
    assert [call_id, "job", "Exec", "running"] == listed.splitlines()[1].split()[:4]
    attached = await shell.start("exec", "attach", "--tag", "job")
    assert await attached.stdout.readline() == b"up\n"
    attached.send_signal(signal.SIGINT)
    assert await attached.wait() == Exit.INTERRUPTED
    assert (await place.client.get_call(place.session, call_id)).state == "running"  # Ctrl-C was for the attachment
    attached = await shell.start("exec", "attach", call_id, "--offset", "3")
    assert (await shell.run("exec", "signal", call_id, "TERM"))[0] == 0
    stdout, _ = await attached.communicate()
    assert (attached.returncode, stdout) == (5, b"bye\n")
    status, stdout, stderr = await shell.run("exec", "signal", call_id)
    assert status == Exit.REQUEST
    assert "does not run" in stderr


async def test_G51_ctrl_c_ends_a_call_that_is_not_detached(shell, place):
    script = await place.script("up.sh", "echo up; sleep 1000")
    running = await shell.start("run", "--call-id", "mine", "--sandbox", shell.sandbox, "bash", script)
    assert await running.stdout.readline() == b"up\n"
    running.send_signal(signal.SIGINT)
    assert await running.wait() == Exit.INTERRUPTED
    async for _ in place.attach("mine"):
        pass
    assert (await place.client.get_call(place.session, "mine")).outcome.kind == "cancelled"
