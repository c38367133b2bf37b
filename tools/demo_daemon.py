"""A daemon for one demonstration: its own configuration, state and run directories, and nothing left afterwards.

State lies on disk and not in /run, so that the decision times printed include a record that is really durable; it lies
outside the checkout, since the service user may be unable to walk into that.
"""

import asyncio
import contextlib
import fcntl
import os
import pathlib
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, Self

_START_S: Final = 60
_STOP_S: Final = 30
_LOG_LINES: Final = 20
# linux/fs.h
FS_APPEND_FL: Final = 0x20
FS_IOC_GETFLAGS: Final = 0x80086601
FS_IOC_SETFLAGS: Final = 0x40086602


class DemoFailedError(Exception):
    """Something did not happen as it must."""


class DemoDaemon:
    """An asynchronous context manager around `opensafe up`. The body runs once the daemon is ready."""

    def __init__(self, root: pathlib.Path) -> None:
        name = f"opensafe-demo-{secrets.token_hex(4)}"
        self._root = root
        self._prefix = pathlib.Path(os.environ.get("OPENSAFE_PREFIX") or "/opt/opensafe")
        self.run = pathlib.Path("/run", name)
        self.state = pathlib.Path("/var/lib", name)
        self._files = root / "build" / "demo"
        self._log = self._files / "daemon.log"
        self._process: asyncio.subprocess.Process | None = None

    def socket_of(self, principal: str) -> pathlib.Path:
        """The socket of one of the two principals, `demo` and `reviewer`."""
        return self.run / "principals" / principal / "opensafe.sock"

    def log_tail(self) -> list[str]:
        """The end of what the daemon said."""
        try:
            return self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        except OSError:
            return []

    async def opensafe(self, *arguments: str, principal: str = "demo", statuses: Sequence[int] = (0,)) -> str:
        """Run the real command line against this daemon; its standard output. Raises DemoFailedError."""
        process = await asyncio.create_subprocess_exec(
            *self._command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OPENSAFE_SOCKET": str(self.socket_of(principal))},
        )
        stdout, stderr = await process.communicate()
        if process.returncode not in statuses:
            said = (stderr or stdout).decode(errors="replace").strip()
            raise DemoFailedError(f"`opensafe {' '.join(arguments)}` ended with {process.returncode}: {said}")
        return stdout.decode()

    async def __aenter__(self) -> Self:
        self._files.mkdir(parents=True, exist_ok=True)
        config = self._files / "opensafe.toml"
        config.write_text(self._settings())
        try:
            with self._log.open("wb") as log, _notify_socket(self.run.name) as notifications:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command("up", "--config", str(config)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "NOTIFY_SOCKET": f"@{self.run.name}"},
                    start_new_session=True,
                )
                await self._ready(notifications, self._process)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _ready(self, notifications: socket.socket, process: asyncio.subprocess.Process) -> None:
        """Wait for READY=1. A daemon that ends first, or takes longer than a minute, has failed."""
        told = asyncio.create_task(_told_ready(notifications), name="notify")
        ended = asyncio.create_task(process.wait(), name="daemon")
        try:
            await asyncio.wait({told, ended}, timeout=_START_S, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise DemoFailedError(f"the daemon ended with {process.returncode} instead of becoming ready")
            if not told.done():
                raise DemoFailedError(f"the daemon was not ready after {_START_S} s")
        finally:
            for task in (told, ended):
                task.cancel()
            await asyncio.gather(told, ended, return_exceptions=True)

    async def _end(self) -> None:
        """SIGTERM and wait; then remove what is ours. A daemon that does not stop is killed, and that is a failure."""
        process = self._process
        stopped = True
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_S)
            except TimeoutError:
                stopped = False
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        for directory in (self.run, self.state):
            _remove(directory)
        if not stopped:
            raise DemoFailedError(f"the daemon did not stop within {_STOP_S} s of SIGTERM and was killed")
        if process is not None and process.returncode != 0 and sys.exc_info()[0] is None:
            raise DemoFailedError(f"the daemon stopped with {process.returncode}")

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "opensafe.cli", *arguments]

    def _settings(self) -> str:
        return f"""\
# Written by tools/demo.py.
[paths]
state = "{self.state}"
run = "{self.run}"
runsc = "{self._prefix}/bin/runsc"
images = "{self._prefix}/images"
native = "{self._root}/build/native"
bundle = "{self._root}/build/policy.bundle.tar.gz"

[principals.demo]
group = "root"
roles = ["developer"]

[principals.reviewer]
group = "root"
roles = ["reviewer"]
"""


@contextlib.contextmanager
def _notify_socket(name: str) -> Iterator[socket.socket]:
    """A datagram socket in the abstract namespace: it has no file to remove."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as receiver:
        receiver.bind(f"\0{name}")
        receiver.setblocking(False)
        yield receiver


async def _told_ready(notifications: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while b"READY=1" not in (await loop.sock_recv(notifications, 4096)).split(b"\n"):
        pass


def _remove(directory: pathlib.Path) -> None:
    """Remove a tree. The audit segments are append-only by attribute, which has to be taken back first."""
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            _clear_append_only(path)
    shutil.rmtree(directory, ignore_errors=not directory.exists())


def _clear_append_only(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, bytes(struct.calcsize("l"))))
        if flags & FS_APPEND_FL:
            fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, struct.pack("l", flags & ~FS_APPEND_FL))
    except OSError:
        return  # a file system without attributes
    finally:
        os.close(descriptor)
