"""Child processes of the warden, awaited by pidfd.

asyncio's own watcher starts a thread for each child on Python 3.11; a pidfd is a descriptor like any other.
Nothing here reaps a child it did not start.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Final

import msgspec

from .waiting import readable

#: Bytes of a helper command's stdout and stderr that are kept. What exceeds a pipe's capacity is never read.
_OUTPUT_MAX: Final = 64 * 1024


class Completed(msgspec.Struct, frozen=True):
    """How a command ended: exit code (negative: signal number, as in subprocess) and the start of its output."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Child:
    """One child process. `wait` may be awaited by one task; `close` ends whatever still runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        """Process id; valid until `wait` has returned."""
        return self._process.pid

    async def wait(self) -> int:
        """The exit code; negative: the signal's number."""
        if self._process.returncode is None:
            await readable(self._pidfd)
        return self._process.wait()

    def kill(self) -> None:
        """SIGKILL; a child that is gone already is no error."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM; a child that is gone already is no error."""
        self._signal(signal.SIGTERM)

    async def close(self) -> None:
        """Kill what still runs, reap it and release the descriptor."""
        self.kill()
        await self.wait()
        os.close(self._pidfd)

    def _signal(self, signo: signal.Signals) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signo)


def spawn(
    argv: Sequence[str],
    *,
    keep: Sequence[int] = (),
    env: dict[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
) -> Child:
    """Start `argv` with an empty environment unless one is given. Raises OSError."""
    return Child(
        subprocess.Popen(list(argv), pass_fds=keep, env=env or {}, cwd="/", stdin=stdin, stdout=stdout, stderr=stderr)
    )


async def run(argv: Sequence[str], *, keep: Sequence[int] = (), deadline_s: float) -> Completed:
    """Run `argv` to its end. Raises TimeoutError (the child is then killed) and OSError.

    The output is what was written when the *child* ended: a daemon that it left behind may hold the pipes on.
    """
    out, out_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    err, err_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        try:
            child = spawn(argv, keep=keep, stdout=out_end, stderr=err_end)
        finally:
            os.close(out_end)
            os.close(err_end)
        try:
            async with asyncio.timeout(deadline_s):
                code = await child.wait()
        finally:
            await child.close()
        return Completed(code, _drain(out), _drain(err))
    finally:
        os.close(out)
        os.close(err)


def _drain(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _OUTPUT_MAX)
    except BlockingIOError:
        return b""
