"""What the process boundary's probes find on the host: a process, namespaces, segments, a terminal, kernel settings."""

import contextlib
import ctypes
import os
import pathlib
import tempfile
import tty
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from opensafe.proof.escape import host
from opensafe.proof.escape.ground import Scene
from opensafe.proof.escape.network.stage import Listener

#: Of nobody else, so that a signal to all processes of a user meets the marker alone.
_UID: Final = 61234
AS_MARKER: Final = ("setpriv", f"--reuid={_UID}", f"--regid={_UID}", "--clear-groups")
_SEGMENT_BYTES: Final = 4096
_IPC_CREAT, _IPC_EXCL, _IPC_RMID = 0o1000, 0o2000, 0
_GETVAL, _SETVAL = 12, 16
_SHARED_MEMORY: Final = pathlib.Path("/dev/shm")  # noqa: S108 - the host's own is what is tried
_V1: Final = pathlib.Path("/sys/fs/cgroup")
#: Kernel settings that run a program of somebody's choice, and what asks the kernel for things directly.
SETTINGS: Final = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/fs/binfmt_misc/register",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/sysrq-trigger",
)
_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


class _Marked:
    def __init__(self, marker: host.Marker) -> None:
        self.marker = marker
        self.facts: Mapping[str, object] = {"PID": marker.pid, "ADDRESS": marker.address}

    async def found(self, output: bytes) -> str:
        """Its name, or what only it holds."""
        named = f"the marker's name {self.marker.name} came out" if self.marker.name.encode() in output else ""
        return self.marker.held_in(output) or named


class _Signalled(_Marked):
    async def found(self, output: bytes) -> str:  # noqa: ARG002 - the marker itself tells
        return await self.marker.signalled()


@contextlib.asynccontextmanager
async def marker() -> AsyncIterator[Scene]:
    """A process; breached where its name comes out, or a nonce of its memory or environment."""
    async with host.Marker.running() as running:
        yield _Marked(running)


@contextlib.asynccontextmanager
async def signalled() -> AsyncIterator[Scene]:
    """A process of a user of its own; breached where it gets a signal."""
    async with host.Marker.running(*AS_MARKER) as running:
        yield _Signalled(running)


class _Namespaces:
    """A canary, for the mounts, and a listener on loopback, for the network. Both are the host's own."""

    def __init__(self, canary: host.Canary, listener: Listener) -> None:
        self._canary, self._listener = canary, listener
        self.facts: Mapping[str, object] = {
            "DIRECTORY": str(canary.directory),
            "NAME": "inside-" + canary.nonce,
            "PORT": listener.port,
            "PID": os.getpid(),
        }

    async def found(self, output: bytes) -> str:  # noqa: ARG002 - the host's files and listener tell
        changed = self._canary.changed()
        return changed or ("the host's listener was reached" if self._listener.received else "")


@contextlib.asynccontextmanager
async def namespaces() -> AsyncIterator[Scene]:
    """See _Namespaces."""
    listener = Listener()
    with host.Canary.planted() as canary:
        async with listener.open():
            yield _Namespaces(canary, listener)


class _Hierarchy:
    """A cgroup v1 hierarchy of the host's with no controller and a name of its own (cgroups(7)), and all of its others.

    agent: a program that leaves a file beside the canary.
    """

    def __init__(self, canary: host.Canary, name: str, mounted: pathlib.Path) -> None:
        agent = canary.directory / "agent"
        agent.write_text(f"#!/bin/sh\n: > {canary.directory}/ran\n")
        agent.chmod(0o755)
        self._ran = canary.directory / "ran"
        self._mounted = mounted
        self.facts: Mapping[str, object] = {"NAME": name, "AGENT": str(agent), "RAN": str(self._ran)}
        self._before = self._agents()

    async def found(self, output: bytes) -> str:  # noqa: ARG002 - the host's kernel tells
        if self._ran.exists():
            return "the host's kernel ran the guest's release agent"
        return "a release agent of the host's is another" if self._agents() != self._before else ""

    def _agents(self) -> Mapping[str, str]:
        paths = [self._mounted / "release_agent", *_V1.glob("*/release_agent")]
        return {str(path): path.read_text() for path in paths}


@contextlib.asynccontextmanager
async def hierarchy() -> AsyncIterator[Scene]:
    """See _Hierarchy. Raises OSError where the kernel has no cgroup v1."""
    with host.Canary.planted() as canary, tempfile.TemporaryDirectory(prefix="opensafe-hierarchy-") as made:
        await host.command("mount", "-t", "cgroup", "-o", f"none,name={canary.nonce}", "none", made)
        try:
            yield _Hierarchy(canary, canary.nonce, pathlib.Path(made))
        finally:
            await host.command("umount", made)


class _Shared:
    """A System V segment and semaphore under one key (ipc(7)), and a file of shared memory (shm_overview(7)).

    Everybody may use them. undone: takes each away that was made. Raises OSError where the key is somebody's.
    """

    def __init__(self, undone: contextlib.ExitStack) -> None:
        self._nonce = host.nonce()
        file = _SHARED_MEMORY / self._nonce[::-1]
        key = int.from_bytes(os.urandom(3), "little") + 1
        self.facts: Mapping[str, object] = {"KEY": key, "FILE": str(file)}
        new = _IPC_CREAT | _IPC_EXCL | 0o666
        segment = _checked(_libc.shmget(key, _SEGMENT_BYTES, new), "shmget")
        undone.callback(_libc.shmctl, segment, _IPC_RMID, None)
        at = ctypes.c_void_p(_libc.shmat(segment, None, 0))
        ctypes.memmove(at, self._nonce.encode(), len(self._nonce))
        _libc.shmdt(at)
        self._semaphore = _checked(_libc.semget(key, 1, new), "semget")
        undone.callback(_libc.semctl, self._semaphore, 0, _IPC_RMID)
        _checked(_libc.semctl(self._semaphore, 0, _SETVAL, 1), "semctl")
        undone.callback(file.unlink, missing_ok=True)
        file.write_text(self._nonce)
        file.chmod(0o666)

    async def found(self, output: bytes) -> str:
        if self._nonce.encode() in output:
            return "the nonce of the host's shared memory came out"
        changed = _libc.semctl(self._semaphore, 0, _GETVAL) != 1
        return "the host's semaphore is another" if changed else ""


@contextlib.asynccontextmanager
async def shared() -> AsyncIterator[Scene]:
    """See _Shared."""
    with contextlib.ExitStack() as undone:
        yield _Shared(undone)


class Terminal:
    """A pseudo-terminal of the host's, as of somebody who started the call from it. slave: their end."""

    def __init__(self, master: int, slave: int) -> None:
        self.slave = slave
        self._master = master
        self._mark = host.nonce()
        self.facts: Mapping[str, object] = {"MARK": self._mark, "TERMINAL": os.ttyname(slave)}

    async def found(self, output: bytes) -> str:  # noqa: ARG002 - the terminal tells
        for end, what in ((self._master, "written to"), (self.slave, "typed into")):
            got = b"".join(_waiting(end))
            if self._mark.encode() in got:
                return f"{len(got)} bytes were {what} the host's terminal"
        return ""


def _waiting(descriptor: int) -> Iterator[bytes]:
    """All that can be read of it now."""
    with contextlib.suppress(BlockingIOError):
        while got := os.read(descriptor, 1 << 16):
            yield got


@contextlib.asynccontextmanager
async def terminal() -> AsyncIterator[Terminal]:
    """See Terminal. It echoes nothing."""
    master, slave = os.openpty()
    try:
        tty.setraw(slave)
        for end in (master, slave):
            os.set_blocking(end, False)
        yield Terminal(master, slave)
    finally:
        os.close(master)
        os.close(slave)


class _Settings:
    """Kernel settings: the host's own, and copies to be put in their place for whoever may write there."""

    def __init__(self, copies: pathlib.Path) -> None:
        places = [place for place in SETTINGS if os.path.exists(place)]
        self._copies = {place: copies / place.strip("/").replace("/", "-") for place in places}
        for place, copy in self._copies.items():
            copy.write_text(_text(place))
        cover = "\n".join(f"mount --bind {copy} {place}" for place, copy in self._copies.items())
        self.facts: Mapping[str, object] = {"PLACES": places, "NAME": host.nonce(), "COVER": f"set -e\n{cover}\n"}
        self._before = self._now()

    async def found(self, output: bytes) -> str:  # noqa: ARG002 - the host's settings tell
        now = self._now()
        return next((f"{path} is another" for path, text in self._before.items() if now[path] != text), "")

    def _now(self) -> dict[str, str]:
        return {path: _text(path) for place, copy in self._copies.items() for path in (place, str(copy))}


def _text(path: str) -> str:
    try:
        return pathlib.Path(path).read_text()
    except OSError:  # some can only be written
        return ""


@contextlib.asynccontextmanager
async def settings() -> AsyncIterator[Scene]:
    """See _Settings."""
    with tempfile.TemporaryDirectory(prefix="opensafe-settings-") as made:
        yield _Settings(pathlib.Path(made))


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result
