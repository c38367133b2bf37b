"""Clearing up after a warden that died: whatever an earlier life of *this* daemon left is removed, completely.

What to look for is known twice over: from the intents on record, and from the names themselves, since every object
of ours lies below a directory or a cgroup that belongs to this daemon alone. Another daemon's objects can't be
found from here. Nothing is adopted: the pipes of a program that runs on are gone with the warden.
"""

import contextlib
import logging
import os
import pathlib
import re
import signal
from collections.abc import Iterator
from typing import Final

from ...errors import HostUnsuitable
from .. import kernel
from . import lifecycle
from .layout import Layout
from .limits import Hierarchies
from .state import State

_log = logging.getLogger(__name__)

_ID: Final = re.compile(r"sb-[0-9a-f]{20}")


async def reconcile(layout: Layout, hierarchies: Hierarchies, state: State) -> tuple[str, ...]:
    """Remove all that is left; what it was. Raises HostUnsuitable when something can't be removed, OSError when
    the record can't be written.
    """
    removed: list[str] = []
    for sandbox_id in sorted(state.intended() | hierarchies.present() | _named_in(layout)):
        try:
            removed += await lifecycle.remove(layout, hierarchies, sandbox_id)
        except (OSError, TimeoutError) as error:
            raise HostUnsuitable(
                f"a sandbox of an earlier run can't be removed: {error}",
                value=sandbox_id,
                remedy="Remove what is named here by hand, then start again.",
            ) from error
        state.forget(sandbox_id)
    removed += _kill_processes(layout)
    removed += detach_mounts(layout)
    for one in removed:
        _log.info("left by an earlier run, removed: %s", one)
    return tuple(removed)


def _named_in(layout: Layout) -> set[str]:
    names: set[str] = set()
    for directory in (layout.runsc_root, layout.bundles, layout.namespaces):
        with contextlib.suppress(FileNotFoundError):
            names.update(match[0] for entry in os.scandir(directory) if (match := _ID.search(entry.name)))
    return names


def _kill_processes(layout: Layout) -> Iterator[str]:
    """runsc processes with our root that no cgroup of ours held: those of a create that died before it joined."""
    root = f"--root={layout.runsc_root}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # What is killed is what was looked at, whatever becomes of the number in between.
            pidfd = os.pidfd_open(int(entry.name))
            try:
                if root in (entry / "cmdline").read_bytes().split(b"\0"):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    yield f"process {entry.name}"
            finally:
                os.close(pidfd)


def detach_mounts(layout: Layout) -> list[str]:
    """Detach mounts below our run directory: runsc keeps one empty network namespace for its gofers there."""
    detached: list[str] = []
    inside = f"{layout.run}/"
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split(" ")[4]
        if target.startswith(inside):
            with contextlib.suppress(OSError):
                kernel.detach_mount(target)
                detached.append(f"mount {target}")
    return detached
