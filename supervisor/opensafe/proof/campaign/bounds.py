"""Oracles 10 and 13: what a sandbox took of the host while it lived, and what is left of it afterwards."""

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Final

from opensafe.warden.sandbox.layout import Layout
from opensafe.warden.sandbox.limits import Cgroup, Hierarchies

from .oracles import Finding, Oracle
from .processes import remaining

#: Peak and limit, in v1 and v2.
_PEAKS: Final = (
    ("memory.max_usage_in_bytes", "memory.limit_in_bytes"),
    ("memory.peak", "memory.max"),
    ("pids.peak", "pids.max"),
)


def peaks(cgroup: Cgroup) -> Iterator[Finding]:
    """Limits that were passed."""
    for directory in map(pathlib.Path, cgroup.directories):
        for peak, limit in _PEAKS:
            with contextlib.suppress(OSError, ValueError):  # the other version, or no limit
                most, allowed = int((directory / peak).read_text()), int((directory / limit).read_text())
                if most > allowed:
                    yield Finding(oracle=Oracle.BOUNDS, what=f"{peak} is {most} of {allowed}")


def remains(layout: Layout, hierarchies: Hierarchies, sandbox_id: str) -> Iterator[Finding]:
    """What is left of a sandbox that was removed."""
    places = [*map(pathlib.Path, hierarchies.group(sandbox_id).directories)]
    places += [layout.bundle(sandbox_id), layout.namespace(sandbox_id), *layout.runsc_root.glob(f"*{sandbox_id}*")]
    for path in places:
        if path.exists():
            yield Finding(oracle=Oracle.REMAINS, what=f"{path} is still there")
    if sandbox_id in pathlib.Path("/proc/self/mountinfo").read_text():
        yield Finding(oracle=Oracle.REMAINS, what=f"a mount of {sandbox_id}")
    yield from remaining(sandbox_id)
    with contextlib.closing(sqlite3.connect(f"file:{layout.state}/warden.db?mode=ro", uri=True)) as database:
        for _ in database.execute("SELECT 1 FROM sandboxes WHERE sandbox_id = ?", (sandbox_id,)):
            yield Finding(oracle=Oracle.REMAINS, what=f"{sandbox_id} is still on record")
