"""What the file system's probes find on the host: each holds a nonce or is watched, and is gone after the run."""

import contextlib
import ctypes
import os
import pathlib
import stat
import struct
import tempfile
from collections.abc import AsyncIterator, Mapping
from typing import Final

from opensafe.proof import private
from opensafe.proof.escape import host
from opensafe.proof.escape.cell import TEMPLATE
from opensafe.proof.escape.ground import Scene

_DISK_BYTES: Final = 4 << 20
_IN_OPEN: Final = 0x20
_EVENT: Final = struct.Struct("iIII")
#: Sockets by which others are in command of a host.
_SOCKETS: Final = ("docker.sock", "containerd.sock", "crio.sock", "podman.sock", "system_bus_socket", "opensafe.sock")
_SECRETS: Final = (".env", ".ssh/id_rsa", ".aws/credentials", ".kube/config", ".git-credentials", ".netrc")
#: Where a suite's own processes have a nonce in their environment, daemon and runsc's parent included.
HELD_VARIABLE: Final = "OPENSAFE_CANARY_SECRET"
_libc: Final = ctypes.CDLL(None, use_errno=True)


def image_root() -> pathlib.Path:
    """Of the image that all cells and the daemon's sandboxes have."""
    return pathlib.Path(private.programs().images, TEMPLATE, "rootfs")


class Planted:
    """A canary's directory: breached where its nonce comes out, or where anything in it changes."""

    def __init__(self, canary: host.Canary, **more: object) -> None:
        self.canary = canary
        self.facts: Mapping[str, object] = {
            "CANARY": str(canary.file),
            "DIRECTORY": str(canary.directory),
            "NAME": "marker-" + host.nonce(),
            **more,
        }

    async def found(self, output: bytes) -> str:
        return self.canary.read_in(output) or self.canary.changed()


@contextlib.asynccontextmanager
async def canary() -> AsyncIterator[Planted]:
    """A file with a nonce, in a directory that everybody may write in."""
    with host.Canary.planted() as planted:
        yield Planted(planted)


class Mounts(Planted):
    """A canary; breached as well where the host has a mount whose source has this run's name."""

    async def found(self, output: bytes) -> str:
        mounted = str(self.facts["NAME"]) in _mounts()
        return "the host has the guest's mount" if mounted else await super().found(output)


def _mounts() -> str:
    return pathlib.Path("/proc/self/mountinfo").read_text()


@contextlib.asynccontextmanager
async def mounts() -> AsyncIterator[Mounts]:
    """A canary, and the host's table of mounts."""
    with host.Canary.planted() as planted:
        yield Mounts(planted)


class Root:
    """A root file system and the guest's tools, of which everything is known. tree: the root's place on the host."""

    def __init__(self, tree: pathlib.Path) -> None:
        self.tree = tree
        self.facts: Mapping[str, object] = {"NAME": "planted-" + host.nonce()}
        self._tools = pathlib.Path(private.programs().native) / "guest"
        self._before = self._now()

    async def found(self, output: bytes) -> str:  # noqa: ARG002 - what it says does not matter
        return host.differs(self._before, self._now())

    def _now(self) -> Mapping[str, str]:
        return {**host.manifest(self.tree, contents=False), **host.manifest(self._tools)}


@contextlib.asynccontextmanager
async def root() -> AsyncIterator[Root]:
    """The image itself."""
    yield Root(image_root())


@contextlib.asynccontextmanager
async def spare_root() -> AsyncIterator[Root]:
    """The image's content in a place of its own, where it may be changed: an overlay (overlayfs) over it."""
    with tempfile.TemporaryDirectory(prefix="opensafe-root-", dir=host.BELOW) as made:
        options = f"lowerdir={image_root()}"
        for name in ("upper", "work", "merged"):
            os.mkdir(f"{made}/{name}")
        options += f",upperdir={made}/upper,workdir={made}/work"
        await host.command("mount", "-t", "overlay", "overlay", "-o", options, f"{made}/merged")
        try:
            yield Root(pathlib.Path(made, "merged"))
        finally:
            await host.command("umount", f"{made}/merged")


class Sockets(Planted):
    """Listeners in the canary's directory, and one without a path; breached where one of them accepts."""

    def __init__(self, canary: host.Canary, listeners: tuple[host.UnixListener, ...]) -> None:
        super().__init__(canary, ABSTRACT=canary.nonce)
        self._listeners = listeners

    async def found(self, output: bytes) -> str:  # noqa: ARG002 - that it was accepted is known here
        accepted = [listener.path for listener in self._listeners if listener.accepted]
        return f"the host's listener {accepted[0]} accepted" if accepted else ""


@contextlib.asynccontextmanager
async def sockets() -> AsyncIterator[Sockets]:
    """Stubs of what commands a host, under the names that everybody knows."""
    with host.Canary.planted() as planted:
        async with contextlib.AsyncExitStack() as stack:
            places = [pathlib.Path(planted.directory, name) for name in _SOCKETS] + [pathlib.Path("\0" + planted.nonce)]
            listeners = [await stack.enter_async_context(host.UnixListener(path).open()) for path in places]
            yield Sockets(planted, tuple(listeners))


class Watched(Planted):
    """A canary's directory with a device node in it; breached where somebody opens that on the host (inotify(7))."""

    def __init__(self, canary: host.Canary, node: pathlib.Path, watch: int) -> None:
        super().__init__(canary, NODE=str(node))
        self._node, self._watch = os.fsencode(node.name), watch

    async def found(self, output: bytes) -> str:  # noqa: ARG002 - the host sees the open
        with contextlib.suppress(BlockingIOError):
            events = os.read(self._watch, 1 << 16)
            while events:
                size = _EVENT.size + _EVENT.unpack_from(events)[3]
                if events[_EVENT.size : size].rstrip(b"\0") == self._node:
                    return "the device node was opened on the host"
                events = events[size:]
        return ""


@contextlib.asynccontextmanager
async def device() -> AsyncIterator[Watched]:
    """A node of the device that is all zeros: to open it is enough, and does no harm."""
    with host.Canary.planted() as planted:
        node = planted.directory / "node"
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        node.chmod(0o666)
        watch = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if _libc.inotify_add_watch(watch, os.fsencode(planted.directory), _IN_OPEN) < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch", str(planted.directory))
            yield Watched(planted, node, watch)
        finally:
            os.close(watch)


class Disk:
    """A block device of the host's with a nonce on it."""

    def __init__(self, nonce: str, device: int) -> None:
        self._nonce = nonce
        self.facts: Mapping[str, object] = {"MAJOR": os.major(device), "MINOR": os.minor(device), "NAME": host.nonce()}

    async def found(self, output: bytes) -> str:
        return "the nonce of the host's disk came out" if self._nonce.encode() in output else ""


@contextlib.asynccontextmanager
async def disk() -> AsyncIterator[Disk]:
    """A loop device (losetup(8)): a disk for the host, and nothing of the host's own is on it."""
    with tempfile.NamedTemporaryFile(prefix="opensafe-disk-") as file:
        nonce = host.nonce()
        file.write(nonce.encode())
        file.truncate(_DISK_BYTES)
        file.flush()
        loop = (await host.command("losetup", "--find", "--show", file.name)).strip()
        try:
            yield Disk(nonce, os.stat(loop).st_rdev)
        finally:
            await host.command("losetup", "--detach", loop)


class Secrets:
    """Secrets where people keep them on a host, and in the environment of what starts sandboxes."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.nonce = host.nonce()
        directory.chmod(0o755)
        for name in _SECRETS:
            path = directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"key = {self.nonce}\n")
        self.facts: Mapping[str, object] = {"DIRECTORY": str(directory), "VARIABLE": HELD_VARIABLE}

    async def found(self, output: bytes) -> str:
        held = (self.nonce, os.environ.get(HELD_VARIABLE, self.nonce))
        return "a planted secret came out" if any(one.encode() in output for one in held) else ""


@contextlib.asynccontextmanager
async def secrets() -> AsyncIterator[Secrets]:
    """Files named as they are at home, in a home of the host's."""
    with tempfile.TemporaryDirectory(prefix="opensafe-home-", dir=host.BELOW) as made:
        yield Secrets(pathlib.Path(made))


class Silent:
    """Nothing on the host: what counts is who the guest's program became, which only the guest can see."""

    facts: Mapping[str, object] = {}

    async def found(self, output: bytes) -> str:
        return "a program of the guest's user became its root" if b"euid=0(root)" in output else ""


@contextlib.asynccontextmanager
async def silent() -> AsyncIterator[Scene]:
    """See Silent."""
    yield Silent()
