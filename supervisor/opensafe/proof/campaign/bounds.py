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


class Bounds:
    """A sandbox's limits, as they were before its guest did anything: the file that says one is what it guards."""

    def __init__(self, cgroup: Cgroup) -> None:
        self._limits: dict[tuple[pathlib.Path, str, str], str] = {}
        for directory in map(pathlib.Path, cgroup.directories):
            for peak, limit in _PEAKS:
                with contextlib.suppress(OSError):  # the other version
                    self._limits[directory, peak, limit] = (directory / limit).read_text().strip()

    def look(self) -> Iterator[Finding]:
        """Limits that were passed, or are others now. Of a group that is gone nothing is known."""
        for (directory, peak, limit), allowed in self._limits.items():
            with contextlib.suppress(OSError):
                now = (directory / limit).read_text().strip()
                if now != allowed:
                    yield Finding(oracle=Oracle.BOUNDS, what=f"{limit} was {allowed} and is {now}")
            with contextlib.suppress(OSError, ValueError):  # no limit
                most = int((directory / peak).read_text())
                if most > int(allowed):
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
