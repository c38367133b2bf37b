"""What a campaign makes on a host, noted before it is used, so that whoever goes on after a kill can remove it first.

Only paths of the forms below are ever noted or removed. A note is of a campaign that has ended: while one runs it
holds the lock of its notes.
"""

import asyncio
import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import signal
from collections.abc import Iterator
from typing import Final, Self

import msgspec

from opensafe.errors import Conflict, HostUnsuitable
from opensafe.proof import posture, private
from opensafe.warden import way_out
from opensafe.warden.sandbox import reconcile
from opensafe.warden.sandbox.layout import Layout
from opensafe.warden.sandbox.limits import Hierarchies
from opensafe.warden.sandbox.state import State

#: Where canaries and bundles lie, whatever a process is told of other places: a guest's paths and notes name them.
TEMPORARY: Final = pathlib.Path("/tmp")  # noqa: S108 - each is made under a name that nobody knows before
_RUN: Final = pathlib.Path("/run")
_OURS: Final = re.compile(rf"(?:{_RUN}|{TEMPORARY})/opensafe-(canary|cells|campaign)-([0-9a-z_]{{8}})")
_STOP_S: Final = 60.0


class Notes:
    """The notes of one process. Made by `open`."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: pathlib.Path) -> Iterator[Self]:
        """Hold them. Raises Conflict where somebody does."""
        notes = cls(path)
        try:
            try:
                fcntl.flock(notes._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Conflict("a campaign runs there", value=path, remedy="Wait until it has ended.") from error
            yield notes
        finally:
            os.close(notes._file)

    def add(self, made: pathlib.Path) -> None:
        """This was made."""
        if not _OURS.fullmatch(str(made)):
            raise ValueError(f"{made} is nothing that a campaign makes")
        os.lseek(self._file, 0, os.SEEK_END)
        os.write(self._file, f"{made}\n".encode())

    def clear(self) -> None:
        """All of it is gone."""
        os.ftruncate(self._file, 0)

    async def sweep(self) -> list[str]:
        """Remove what an earlier process left, and forget it. Returns what there was. Raises OSError, OpenSafeError."""
        left = self._left()
        for path in left:
            kind, unique = path.name.split("-")[1:]
            if kind == "cells":
                await _sweep_cells(path, unique)
            elif kind == "campaign" and path.parent == _RUN:
                await _sweep_daemon(path)
            else:
                await asyncio.to_thread(shutil.rmtree, path)
        self.clear()
        return list(map(str, left))

    def _left(self) -> list[pathlib.Path]:
        lines = self._path.read_text().splitlines()
        return [path for line in lines if _OURS.fullmatch(line) and (path := pathlib.Path(line)).exists()]


async def sweep_abandoned(directory: pathlib.Path, prefix: str) -> None:
    """Do for every file of notes there, whose process has died, what that process can't do any more."""
    for path in await asyncio.to_thread(lambda: sorted(directory.glob(f"{prefix}*"))):
        with contextlib.suppress(Conflict), Notes.open(path) as notes:
            await notes.sweep()
            path.unlink()


async def _sweep_cells(run: pathlib.Path, unique: str) -> None:
    """As Cells leaves nothing: sandboxes, cgroups, mounts, directories."""
    layout = Layout.of(msgspec.structs.replace(private.programs(), run=str(run), state=str(run / "state")))
    await _reconcile(layout, Hierarchies.find(unique))
    await asyncio.to_thread(shutil.rmtree, run)


async def _sweep_daemon(run: pathlib.Path) -> None:
    """End a daemon that outlived its campaign; what one leaves that was killed is removed by its names."""
    settings = str(run / "opensafe.toml").encode()
    for pid in await asyncio.to_thread(_started_with, settings):
        await _terminate(pid)
    layout = Layout.of(
        msgspec.structs.replace(private.programs(), run=str(run), state=str(pathlib.Path("/var/lib", run.name)))
    )
    instance = await asyncio.to_thread(_text, layout.state / "instance")
    if instance:
        await _reconcile(layout, Hierarchies.find(instance))
        await way_out.clear(layout, instance)
    await asyncio.to_thread(private.remove, layout.run, layout.state)


async def _reconcile(layout: Layout, hierarchies: Hierarchies) -> None:
    if (layout.state / "warden.db").exists():
        with contextlib.closing(State(layout.state / "warden.db")) as state:
            await reconcile.reconcile(layout, hierarchies, state)
    hierarchies.remove_parents()


def _started_with(word: bytes) -> list[int]:
    """Processes that have this word in their command line, but not those that such a one started."""
    found = {}
    for pid, parent in posture.parents().items():
        with contextlib.suppress(OSError):
            if word in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found[pid] = parent
    return [pid for pid, parent in found.items() if parent not in found]


def _text(path: pathlib.Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


async def _terminate(pid: int) -> None:
    """Raises HostUnsuitable for one that goes on."""
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(ended, signal.SIGTERM)
        gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(ended, gone.set)
        try:
            await asyncio.wait_for(gone.wait(), _STOP_S)
        except TimeoutError as error:
            raise HostUnsuitable(
                "an earlier campaign's daemon does not end",
                value=f"process {pid}",
                limit=f"{_STOP_S:.0f} s",
                remedy="End it by SIGKILL, and go on with the campaign again.",
            ) from error
        finally:
            asyncio.get_running_loop().remove_reader(ended)
    finally:
        os.close(ended)
