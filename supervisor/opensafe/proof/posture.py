"""How the processes around a guest stand on the host: what holds each thread of sentry, gofer and stubs, as facts.

A pure reader of proc(5): it asks nobody and changes nothing, so that it can be an oracle while a guest is at work. A
fact is a line of text without numbers that differ from one sandbox to the next: two postures are compared as sets.
"""

import contextlib
import errno
import os
import pathlib
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

_PROC: Final = pathlib.Path("/proc")
_ROLES: Final = {b"runsc-sandbox": "sentry", b"runsc-gofer": "gofer"}
#: All that there are but those that sandboxes share with the host.
_NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_THREAD: Final = ("Seccomp", "NoNewPrivs", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
#: Of a mount's options, those that take something away from whoever reaches it.
_HARDENING: Final = ("ro", "nosuid", "nodev", "noexec")
_SOCKETS: Final = ("unix", "packet", "netlink", "tcp", "tcp6", "udp", "udp6", "raw", "raw6", "icmp", "icmp6")
#: The column of /proc/net that has the inode: the last but a path, the last, and the tenth of tcp and its like.
_INODE: Final = {"unix": 6, "packet": -1, "netlink": -1}
_INODE_OF_INTERNET: Final = 9
_ACCESS: Final = {os.O_RDONLY: "ro", os.O_WRONLY: "wo", os.O_RDWR: "rw"}
_O_PATH: Final = os.O_PATH
#: Answers of a process that has ended; of a zombie's mounts it is the last.
_ENDED: Final = (errno.ENOENT, errno.ESRCH, errno.EINVAL)

Facts = Mapping[str, str]
"""Each fact, with one thread or process of which it holds."""


def _table(roles: str, facts: str) -> frozenset[str]:
    return frozenset(f"{role} {' '.join(fact.split())}" for role in roles.split() for fact in facts.split(","))


#: What holds of every sandbox that the warden made. Capabilities (linux/capability.h) count in the user namespace:
#: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER and FSETID; SYS_PTRACE for the stubs, SYS_CHROOT for the exports.
EXPECTED: Final = (
    _table(
        "sentry gofer stub",
        """Seccomp 2, filters 2 or more, NoNewPrivs 1, Uid 0 0 0 0, Gid 0 0 0 0, Groups none, core limit 0,
        uid_map 0 0 4294967295, gid_map 0 0 4294967295, setgroups deny, ipc apart, mnt apart, net apart, pid apart,
        user apart, uts apart, cgroup shared, time shared""",
    )
    | _table(
        "sentry stub",
        """CapInh 0, CapPrm 8001f, CapEff 8001f, CapBnd 8001f, CapAmb 0, root etc proc, mount / tmpfs ro,
        descriptor memfd:runsc-memory, descriptor memfd:systrap-memory, descriptor socket unix""",
    )
    | _table(
        "gofer",
        """CapInh 4001f, CapPrm 4001f, CapEff 4001f, CapBnd 4001f, CapAmb 4001f, root exported,
        mount / exported ro nosuid nodev, mount /.opensafe exported ro nosuid nodev,
        mount /etc/hosts exported ro nosuid nodev, mount /etc/resolv.conf exported ro nosuid nodev,
        descriptor socket unix, descriptor exported ro""",
    )
)

#: What may come and go with what the guest does, and with what it was given: a link, something to trust.
ALLOWED: Final = (
    _table(
        "sentry gofer stub",
        """descriptor null, descriptor pipe, descriptor eventfd, descriptor eventpoll, descriptor io_uring,
        descriptor memfd:flipcall_packet_windows, descriptor cgroup ro, descriptor exported path""",
    )
    | _table(
        "sentry stub",
        """descriptor inotify, descriptor timerfd, descriptor seccomp notify, descriptor memfd:memory-usage,
        descriptor exported ro, descriptor socket packet""",
    )
    | _table(
        "gofer",
        "descriptor detached path, descriptor detached ro, mount /.opensafe/trust exported ro nosuid nodev",
    )
)


def read(pids: Iterable[int], beside: int | None = None) -> Facts:
    """The facts of these processes, commonly all of a sandbox's cgroup.

    beside: a process of the host outside of the sandbox, with whose namespaces and limits theirs are compared; this
    one where none is named. What ends meanwhile is left out. Raises PermissionError without root.
    """
    reader = _Reader(_PROC / str(beside or "self"))
    known = {pid: role for pid in sorted(pids) if (role := _role(pid)) is not None}
    gofers = [pid for pid, role in known.items() if role == "gofer"]
    exports = {line.mount_id for pid in gofers for line in _mounts(_PROC / str(pid))}
    facts: dict[str, str] = {}
    for pid, role in known.items():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for fact, where in reader.process(pid, exports):
                facts.setdefault(f"{role} {fact}", where)
    return facts


def faults(facts: Facts, *, allowed: Iterable[str] = ()) -> tuple[str, ...]:
    """Where a sandbox does not stand as one that the warden made: facts that it must not have, or lacks."""
    more = sorted(facts.keys() - EXPECTED - ALLOWED - set(allowed))
    return (*(f"{fact} ({facts[fact]})" for fact in more), *(f"not {fact}" for fact in sorted(EXPECTED - facts.keys())))


def gained(before: Facts, after: Facts) -> tuple[str, ...]:
    """What has come to hold between two readings and is not among what comes and goes."""
    return tuple(f"{fact} ({after[fact]})" for fact in sorted(after.keys() - before.keys() - EXPECTED - ALLOWED))


def around(run: pathlib.Path, sandbox: str = "") -> set[int]:
    """Sentries, gofers and their stubs of the sandboxes whose warden has this run directory, or of one of them."""
    names = [sandbox.encode()] if sandbox else []
    known = parents()
    found: set[int] = set()
    for pid in known:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
            if words[0] in _ROLES and {f"--root={run}/runsc".encode(), *names} <= set(words):
                found.add(pid)
    below = found
    while below:
        below = {pid for pid, parent in known.items() if parent in below} - found
        found |= below
    return found


def parents() -> dict[int, int]:
    """Every process of the host with its parent (proc_pid_stat(5)), but for those that end meanwhile."""
    found = {}
    for name in os.listdir(_PROC):
        if name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found[int(name)] = int((_PROC / name / "stat").read_bytes().rpartition(b") ")[2].split()[1])
    return found


def threads(pids: Iterable[int]) -> int:
    """How many threads there are to read of."""
    count = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            count += len(os.listdir(_PROC / str(pid) / "task"))
    return count


def _role(pid: int) -> str | None:
    """`sentry`, `gofer`, `stub`, or the name of something that does not belong there; None: it has ended."""
    place = _PROC / str(pid)
    try:
        name = (place / "cmdline").read_bytes().split(b"\0", 1)[0]
        if name in _ROLES:
            return _ROLES[name]
        program = (place / "exe").readlink().name
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A stub has thrown away the memory that its words stood in.
    return "stub" if not name and program == "runsc" else f"stranger {program}"


class _Mount:
    """A line of proc_pid_mountinfo(5)."""

    def __init__(self, line: str) -> None:
        fields, _, rest = line.partition(" - ")
        number, _, self.device, _, self.point, options = fields.split(" ")[:6]
        self.mount_id = int(number)
        self.kind = rest.split(" ", 1)[0]
        self.hardening = [one for one in _HARDENING if one in options.split(",")]


def _mounts(place: pathlib.Path) -> list[_Mount]:
    try:
        return [_Mount(line) for line in (place / "mountinfo").read_text().splitlines()]
    except OSError as error:
        if error.errno not in _ENDED:
            raise
        return []


class _Reader:
    def __init__(self, beside: pathlib.Path) -> None:
        self._host = {name: _namespace(beside, name) for name in _NAMESPACES}
        self._limits = _limits(beside)
        mounts = _mounts(beside)
        self._visible = {mount.mount_id for mount in mounts}
        self._cgroups = {mount.device for mount in mounts if mount.kind in ("cgroup", "cgroup2")}
        self._beside = beside
        self._inodes: dict[tuple[str, str], frozenset[str]] = {}

    def process(self, pid: int, exports: set[int]) -> Iterator[tuple[str, str]]:
        place, where = _PROC / str(pid), f"process {pid}"
        for thread in sorted(os.listdir(place / "task"), key=int):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for fact in _thread(place / "task" / thread):
                    yield fact, f"{where}, thread {thread}"
        for name in _NAMESPACES:
            yield f"{name} {'shared' if _namespace(place, name) == self._host[name] else 'apart'}", where
        mounts = _mounts(place)
        exporting = any(mount.mount_id in exports for mount in mounts)
        yield f"root {'exported' if exporting else ' '.join(sorted(os.listdir(place / 'root'))) or 'empty'}", where
        for mount in mounts:
            kind = "exported" if mount.mount_id in exports else mount.kind
            yield " ".join(["mount", mount.point, kind, *mount.hardening]), where
        for name in ("uid_map", "gid_map", "setgroups"):
            yield f"{name} {' '.join((place / name).read_text().split())}", where
        for name, limit in _limits(place).items():
            if name == "Max core file size":
                yield f"core limit {limit[0]:.0f}", where
            elif any(own > given for own, given in zip(limit, self._limits[name], strict=True)):
                yield f"{name} is above that of who started it", where
        for number in sorted(os.listdir(place / "fd"), key=int):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                yield f"descriptor {self._descriptor(place, number, exports)}", f"{where}, descriptor {number}"

    def _descriptor(self, place: pathlib.Path, number: str, exports: set[int]) -> str:
        """The class of one: what it is, or of a file where its mount belongs and how it is open."""
        target = os.readlink(place / "fd" / number)
        if target.startswith("anon_inode:"):
            return target.removeprefix("anon_inode:").strip("[]")
        if target.startswith("/memfd:"):
            return target.removeprefix("/").removesuffix(" (deleted)")
        if target.startswith("pipe:"):
            return "pipe"
        if target.startswith("socket:"):
            return f"socket {self._socket(place, number, target[len('socket:[') : -1])}"
        status = (place / "fd" / number).stat()
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3):
            return "null"
        told = dict(line.split(":", 1) for line in (place / "fdinfo" / number).read_text().splitlines()[:4])
        flags, mount = int(told["flags"], 8), int(told["mnt_id"])
        access = "path" if flags & _O_PATH else _ACCESS[flags & os.O_ACCMODE]
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            return f"device {target} {access}"
        if mount in exports:
            return f"exported {access}"
        if f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}" in self._cgroups:
            return f"cgroup {access}"
        return f"host {target} {access}" if mount in self._visible else f"detached {access}"

    def _socket(self, place: pathlib.Path, number: str, inode: str) -> str:
        """Its kind. Raises FileNotFoundError where it is gone before that is known."""
        kind = self._kind(place, inode)
        if kind is None:  # it may be younger than the tables
            self._inodes.clear()
            kind = self._kind(place, inode)
        if kind is None and os.readlink(place / "fd" / number) != f"socket:[{inode}]":
            raise FileNotFoundError(number)
        return kind or "of another kind"

    def _kind(self, place: pathlib.Path, inode: str) -> str | None:
        """Table by table, because those of the internet's cost the kernel some milliseconds each."""
        for kind in _SOCKETS:
            for owner in (self._beside, place):
                key = _namespace(owner, "net"), kind
                if key not in self._inodes:
                    self._inodes[key] = _inodes(owner, kind)
                if inode in self._inodes[key]:
                    return kind.removesuffix("6")
        return None


def _thread(place: pathlib.Path) -> Iterator[str]:
    for line in (place / "status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "Seccomp_filters":  # runsc's own, and the guard around it
            yield f"filters {'2 or more' if int(value) > 1 else value.strip()}"
        elif name in _THREAD:
            words = [f"{int(word, 16):x}" for word in value.split()] if name.startswith("Cap") else value.split()
            yield f"{name} {' '.join(words) or 'none'}"


def _namespace(place: pathlib.Path, name: str) -> str:
    return os.readlink(place / "ns" / name)


def _limits(place: pathlib.Path) -> dict[str, tuple[float, float]]:
    """Soft and hard, by the name in proc_pid_limits(5)."""
    found = {}
    for line in (place / "limits").read_text().splitlines()[1:]:
        soft, hard = (float("inf") if word == "unlimited" else float(word) for word in line[26:].split()[:2])
        found[line[:26].strip()] = soft, hard
    return found


def _inodes(place: pathlib.Path, kind: str) -> frozenset[str]:
    """Of all sockets of a kind in a process's network namespace."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        lines = (place / "net" / kind).read_text().splitlines()[1:]
        return frozenset(line.split()[_INODE.get(kind, _INODE_OF_INTERNET)] for line in lines)
    return frozenset()
