"""What the host counts: of a sandbox's group, and of a process of the daemon's.

Names of files are those of cgroup v2, then of v1 (Linux, admin-guide/cgroup-v2.rst and cgroup-v1). A counter that this
kernel does not have raises OSError: a probe without evidence is inconclusive.
"""

import contextlib
import os
import pathlib
from typing import Final

import msgspec

from opensafe.warden.sandbox.limits import Cgroup

_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: Fields of proc_pid_stat(5) after the name: utime, stime, and the same of children that were waited for.
_TIMES: Final = slice(11, 15)
_UNNAMED: Final = " (deleted)"


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Of one group at one time. tasks, memory: the most at once. refused_tasks: clones that failed for its limit.

    shared_memory: bytes of memory files, which are a guest's memory and its memory file systems. killed: processes, for
    want of memory. throttled: periods in which it had used up its share. cpu_s: processor seconds of all that is in it.
    """

    tasks: int
    refused_tasks: int
    memory: int
    shared_memory: int
    killed: int
    throttled: int
    cpu_s: float


class Group:
    """One sandbox's group."""

    def __init__(self, cgroup: Cgroup) -> None:
        self._cgroup = cgroup

    def counts(self) -> Counts:
        """Now. Raises OSError where the group is gone, or the kernel does not count."""
        return Counts(
            tasks=self._number("pids.peak"),
            refused_tasks=self._entry(("pids.events",), "max"),
            memory=self._number("memory.peak", "memory.max_usage_in_bytes"),
            shared_memory=self._entry(("memory.stat",), "shmem"),
            killed=self._entry(("memory.events", "memory.oom_control"), "oom_kill"),
            throttled=self._entry(("cpu.stat",), "nr_throttled"),
            cpu_s=sum(map(cpu_s, self._cgroup.pids())),
        )

    def unnamed(self) -> int:
        """Descriptors of files that have no name any more, of all that is in it."""
        return sum(link.endswith(_UNNAMED) for pid in self._cgroup.pids() for link in links(pid))

    def _file(self, *names: str) -> pathlib.Path:
        for directory in self._cgroup.directories:
            for name in names:
                if (path := pathlib.Path(directory, name)).exists():
                    return path
        raise FileNotFoundError(f"this kernel's groups have no {' or '.join(names)}")

    def _number(self, *names: str) -> int:
        return int(self._file(*names).read_text())

    def _entry(self, names: tuple[str, ...], key: str) -> int:
        lines = (line.split() for line in self._file(*names).read_text().splitlines())
        return next(int(words[1]) for words in lines if words[0] == key)


def bound(directory: pathlib.Path, *, memory_bytes: int, tasks: int) -> None:
    """Bound a group from outside, whatever controllers it has."""
    files = {"memory.max": memory_bytes, "memory.limit_in_bytes": memory_bytes, "pids.max": tasks}
    for name, value in files.items():
        if (path := directory / name).exists():
            path.write_text(str(value))


def cpu_s(pid: int) -> float:
    """Processor seconds of a process; 0 of one that has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[_TIMES])) / _TICKS


def links(pid: int) -> list[str]:
    """What each open descriptor of a process leads to (proc_pid_fd(5)); none of one that has ended."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                found.append(os.readlink(entry.path))
    return found


def begin_peak(pid: int) -> int:
    """Resident bytes of a process now, from which on its peak is counted anew (proc_pid_clear_refs(5))."""
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak(pid)


def peak(pid: int) -> int:
    """The most resident bytes since `begin_peak`. Raises OSError for one that has ended."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise ProcessLookupError(f"process {pid} has no memory any more")


def names_below(*directories: pathlib.Path) -> int:
    """How many names of the host lie in these directories and below."""
    return sum(len(kept) + len(files) for one in directories for _, kept, files in os.walk(one))
