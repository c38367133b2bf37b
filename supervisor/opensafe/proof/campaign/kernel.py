"""Oracles 7, 8 and 11: what the kernel says of itself, and what of it a guest must not be able to set."""

import contextlib
import ctypes
import os
import pathlib
import re
import time
from collections.abc import Iterator, Mapping
from typing import Final

from opensafe.errors import HostUnsuitable

from .oracles import Finding, Oracle

_SYSCTLS: Final = ("kernel", "vm", "fs", "user")
#: What changes by itself, or with whatever else the host does.
_VOLATILE: Final = re.compile(
    r"random/|ns_last_pid|pty/nr|file-nr|inode-(nr|state)|dentry-state|aio-nr|quota/|sched_|stat_refresh|"
    r"cap_last_cap|usermodehelper|perf_event_max_sample|perf_cpu_time|hung_task_detect_count|warn_count|binfmt_misc|"
    r"netns_|epoll/|tainted|dirty_|drop_caches|compact_memory|sysctl_writes|mqueue/|inotify/"
)
_BPF: Final = 321
_BPF_PROG_GET_NEXT_ID: Final = 11
_CLOCK_TOLERANCE_S: Final = 1.0
_WHAT_MAX: Final = 500
_OOPS: Final = re.compile(r"Oops|BUG:|general protection|kernel NULL|WARNING: CPU|soft lockup|hung task|KASAN|UBSAN")
_VIOLATION: Final = re.compile(r"type=1326\b.*?\bpid=(\d+)")
#: Namespaces and bundles of OpenSafe's own daemons come and go.
_OWN_MOUNTS: Final = ("/run/opensafe", "/run/netns", "/var/lib/opensafe", "/srv/opensafe", "/tmp/")  # noqa: S108 - a prefix that is looked for


class Kernel:
    """The host's kernel, from now on."""

    def __init__(self) -> None:
        self._log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._log, 0, os.SEEK_END)
        self._before = self._settings()
        self._gaps = 0

    def close(self) -> None:
        """Read the log no longer."""
        os.close(self._log)

    def look(self, pids: set[int]) -> Iterator[Finding]:
        """What it said since the last look. pids: those of runsc so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    line = os.read(self._log, 8192).decode(errors="replace").partition(";")[2].strip()
                except BrokenPipeError:  # lines were overwritten before they were read
                    self._gaps += 1
                    continue
                if _OOPS.search(line):
                    yield Finding(oracle=Oracle.KERNEL, what=line[:_WHAT_MAX])
                violation = _VIOLATION.search(line)
                if violation and int(violation[1]) in pids:
                    yield Finding(oracle=Oracle.VIOLATION, what=line[:_WHAT_MAX])

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Raises HostUnsuitable at the end where looks meanwhile came too late for what was said."""
        before = self._gaps
        yield
        if self._gaps != before:
            raise HostUnsuitable(
                "the kernel's log was overwritten before it was read",
                value=f"{self._gaps - before} gaps",
                remedy="Boot with a larger log_buf_len, or silence what fills the log.",
            )

    def compare(self) -> Iterator[Finding]:
        """What is other than at the start."""
        after = self._settings()
        for name in sorted(self._before.keys() | after.keys()):
            before, now = self._before.get(name, ""), after.get(name, "")
            if before == now or (name == "clock" and abs(float(now) - float(before)) < _CLOCK_TOLERANCE_S):
                continue
            gone, new = (sorted({*a.split("\n")} - {*b.split("\n")}) for a, b in ((before, now), (now, before)))
            oracle = Oracle.KERNEL if name == "tainted" else Oracle.HOST
            yield Finding(oracle=oracle, what=f"{name}: gone {gone}, new {new}"[:_WHAT_MAX])
        self._before = after  # one change is told once

    def _settings(self) -> Mapping[str, str]:
        return {
            **dict(_sysctls()),
            "tainted": pathlib.Path("/proc/sys/kernel/tainted").read_text().strip(),
            "modules": "\n".join(line.split()[0] for line in _lines("/proc/modules")),
            "bpf programs": "\n".join(map(str, _bpf_programs())),
            "mounts": "\n".join(_mount(line) for line in _lines("/proc/self/mountinfo") if not _own(line)),
            "keys": "\n".join(line for line in _lines("/proc/keys") if " keyring " not in line),
            "clock": str(time.time() - time.monotonic()),
        }


def _mount(line: str) -> str:
    """Without the numbers that the kernel gives."""
    return " ".join(line.split()[3:])


def _own(line: str) -> bool:
    return line.split()[4].startswith(_OWN_MOUNTS)


def _lines(path: str) -> list[str]:
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:  # a kernel without it
        return []


def _sysctls() -> Iterator[tuple[str, str]]:
    for part in _SYSCTLS:
        for root, _, files in os.walk(f"/proc/sys/{part}"):
            for name in files:
                path = f"{root}/{name}"
                if not _VOLATILE.search(path):
                    with contextlib.suppress(OSError):
                        yield path, pathlib.Path(path).read_text(errors="replace").strip()


def _bpf_programs() -> Iterator[int]:
    """Ids of the programs that are loaded (bpf(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    attribute = (ctypes.c_uint32 * 4)()
    while libc.syscall(_BPF, _BPF_PROG_GET_NEXT_ID, ctypes.byref(attribute), ctypes.sizeof(attribute)) == 0:
        yield attribute[1]
        attribute[0] = attribute[1]
