"""The cgroup around one sandbox: memory, processes and CPU of the whole runsc tree.

cgroup v1 has one hierarchy per controller, v2 one for all, and hosts differ; both are written here. `launch`
joins the group before it execs runsc, so that sentry, gofer and stubs can never be outside. Hitting the memory
or the pids limit ends the sandbox: the kernel kills the sentry, or the sentry dies of a failed clone.
"""

import asyncio
import contextlib
import os
import pathlib
import signal
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from ...errors import HostUnsuitable
from ...model.limits import SandboxLimits

_MOUNTS: Final = pathlib.Path("/proc/self/mountinfo")
_OURS: Final = "opensafe"
_CONTROLLERS: Final = ("memory", "pids", "cpu")
#: Of v1, where it is mounted: it limits nothing and counts CPU time, which v2 does anyway.
_COUNTING: Final = "cpuacct"
_CPU_PERIOD_US: Final = 100_000
_POLL_S: Final = 0.005
_REMOVAL_DEADLINE_S: Final = 10.0


class Hierarchies:
    """Where this host's controllers are mounted; the place below which one daemon keeps its groups."""

    def __init__(self, roots: Mapping[str, pathlib.Path], *, unified: bool, instance: str) -> None:
        self._roots = roots
        self._unified = unified
        self._instance = instance

    @classmethod
    def find(cls, instance: str) -> "Hierarchies":
        """Raises HostUnsuitable naming the controllers that are not there."""
        separate, unified = _mounted()
        if all(controller in separate for controller in _CONTROLLERS):
            roots = {name: separate[name] for name in _CONTROLLERS}
            if separate.get(_COUNTING, roots["cpu"]) != roots["cpu"]:  # most hosts mount the two together
                roots[_COUNTING] = separate[_COUNTING]
            return cls(roots, unified=False, instance=instance)
        if unified is not None:
            offered = (unified / "cgroup.controllers").read_text().split()
            if all(controller in offered for controller in _CONTROLLERS):
                return cls({"unified": unified}, unified=True, instance=instance)
        raise HostUnsuitable(
            "the host offers no complete set of cgroup controllers",
            value=", ".join(sorted(separate)) or "none",
            limit=", ".join(_CONTROLLERS),
            remedy="Mount cgroup2, or the three v1 controllers, below /sys/fs/cgroup.",
        )

    @property
    def version(self) -> int:
        """1 or 2."""
        return 2 if self._unified else 1

    def group(self, sandbox_id: str) -> "Cgroup":
        """The group of one sandbox, whether it exists or not."""
        parents = {name: root / _OURS / self._instance for name, root in self._roots.items()}
        return Cgroup({name: parent / sandbox_id for name, parent in parents.items()}, unified=self._unified)

    def present(self) -> set[str]:
        """Names of all groups of this daemon that exist in any hierarchy."""
        found: set[str] = set()
        for root in self._roots.values():
            with contextlib.suppress(FileNotFoundError):
                found.update(entry.name for entry in os.scandir(root / _OURS / self._instance) if entry.is_dir())
        return found

    def usage(self) -> "Used":
        """What this daemon's groups used up together. What the kernel does not tell is 0."""
        at = {name: root / _OURS / self._instance for name, root in self._roots.items()}
        if self._unified:
            cpu_us = _number(at["unified"] / "cpu.stat", "usage_usec")
            return Used(cpu_us * 1000, _number(at["unified"] / "memory.current"))
        counting = at.get(_COUNTING, at["cpu"])
        return Used(_number(counting / "cpuacct.usage"), _number(at["memory"] / "memory.usage_in_bytes"))

    def prepare(self) -> None:
        """Make the parents, and in v2 hand the controllers down to them. Raises OSError."""
        for root in self._roots.values():
            parent = root / _OURS / self._instance
            parent.mkdir(parents=True, exist_ok=True)
            if self._unified:
                for directory in (root, root / _OURS, parent):
                    (directory / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _CONTROLLERS))

    def remove_parents(self) -> None:
        """Remove this daemon's parents where they are empty; other daemons' stay."""
        for root in self._roots.values():
            for directory in (root / _OURS / self._instance, root / _OURS):
                with contextlib.suppress(OSError):
                    directory.rmdir()


class Used(msgspec.Struct, frozen=True):
    """CPU time since the daemon's start, of groups that are gone, too; memory that is charged to the groups now."""

    cpu_ns: int
    memory_bytes: int


class Cgroup:
    """The group of one sandbox in every hierarchy used."""

    def __init__(self, directories: Mapping[str, pathlib.Path], *, unified: bool) -> None:
        self._at = directories
        self._unified = unified

    @property
    def directories(self) -> tuple[str, ...]:
        """What `launch` joins."""
        return tuple(str(directory) for directory in self._at.values())

    def create(self, limits: SandboxLimits) -> None:
        """Make the group with its limits. Raises OSError."""
        for directory in self._at.values():
            directory.mkdir()
        for name, file, value in _settings(limits, unified=self._unified):
            (self._at[name] / file).write_text(value)
        for name, file, value in _swap_settings(limits, unified=self._unified):
            # A kernel without swap accounting has no such file, and no swap to limit.
            with contextlib.suppress(FileNotFoundError):
                (self._at[name] / file).write_text(value)

    def pids(self) -> set[int]:
        """Host processes in the group, in any hierarchy."""
        found: set[int] = set()
        for directory in self._at.values():
            with contextlib.suppress(FileNotFoundError, OSError):
                found.update(int(word) for word in (directory / "cgroup.procs").read_text().split())
        return found

    def memory_events(self) -> int | None:
        """A descriptor that is readable once the kernel kills in the group for want of memory, or the group is gone.

        None in v2, where the kernel then kills the whole group; in v1 it kills one process, which may be a stub of the
        guest's (cgroup v1, memory.txt, OOM control). Raises OSError.
        """
        if self._unified:
            return None
        directory = self._at["memory"]
        event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            with (directory / "memory.oom_control").open() as control:
                (directory / "cgroup.event_control").write_text(f"{event} {control.fileno()}")
        except OSError:
            os.close(event)
            raise
        return event

    def cause_of_death(self) -> str | None:
        """`memory` or `pids` when the group's limit was hit, else None."""
        if self._counter("memory", "memory.events" if self._unified else "memory.oom_control", "oom_kill"):
            return "memory"
        if self._counter("pids", "pids.events", "max"):
            return "pids"
        return None

    def kill(self) -> None:
        """SIGKILL to everything inside, once."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def remove(self) -> bool:
        """Kill what is inside and remove the group; True if there was one. Raises TimeoutError with who stays."""
        existed = any(directory.exists() for directory in self._at.values())
        try:
            async with asyncio.timeout(_REMOVAL_DEADLINE_S):
                while not self._try_remove():  # noqa: ASYNC110 - the kernel has no event for it
                    # An exiting task leaves its v1 group some moments after it stops being listed, unannounced.
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise TimeoutError(f"cgroup {self.directories[0]} stays busy with {sorted(self.pids())}") from error
        return existed

    def _try_remove(self) -> bool:
        self.kill()
        gone = True
        for directory in self._at.values():
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
        return gone

    def _counter(self, controller: str, file: str, key: str) -> int:
        directory = self._at["unified"] if self._unified else self._at[controller]
        return _number(directory / file, key)


def _number(path: pathlib.Path, key: str = "") -> int:
    """The number of a file, or of the line that begins with `key`; 0 where there is none."""
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.rpartition(" ")
            if name == key:
                return int(value)
    return 0


def _settings(limits: SandboxLimits, *, unified: bool) -> Iterator[tuple[str, str, str]]:
    quota = limits.cpu_millis * _CPU_PERIOD_US // 1000
    if unified:
        yield "unified", "memory.max", str(limits.memory_bytes)
        yield "unified", "memory.oom.group", "1"
        yield "unified", "pids.max", str(limits.pids)
        yield "unified", "cpu.max", f"{quota} {_CPU_PERIOD_US}"
        return
    yield "memory", "memory.limit_in_bytes", str(limits.memory_bytes)
    yield "pids", "pids.max", str(limits.pids)
    yield "cpu", "cpu.cfs_period_us", str(_CPU_PERIOD_US)
    yield "cpu", "cpu.cfs_quota_us", str(quota)


def _swap_settings(limits: SandboxLimits, *, unified: bool) -> Iterator[tuple[str, str, str]]:
    if unified:
        yield "unified", "memory.swap.max", "0"
        return
    yield "memory", "memory.memsw.limit_in_bytes", str(limits.memory_bytes)


def _mounted() -> tuple[dict[str, pathlib.Path], pathlib.Path | None]:
    """v1 controllers by name, and the v2 mount if there is one (proc_pid_mountinfo(5))."""
    separate: dict[str, pathlib.Path] = {}
    unified: pathlib.Path | None = None
    for line in _MOUNTS.read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        where = pathlib.Path(fields.split(" ")[4])
        if kind == "cgroup":
            separate.update({name: where for name in options.split(",") if name in (*_CONTROLLERS, _COUNTING)})
        elif kind == "cgroup2":
            unified = where
    return separate, unified
