"""What a daemon that is gone left on the host: kernel objects and files of sandboxes that nobody owns.

Everything a daemon makes for a sandbox carries the sandbox's random id in its name. An id is owned while the daemon
that made it lives and has it on record: the warden writes an id down before the first object and strikes it out
after the last (warden/sandbox/state.py). Of a daemon whose record is not at hand, the names in its run directory
count. Daemons go on while they are looked at, so a leftover is what is there twice, owned by nobody both times.
"""

import contextlib
import os
import pathlib
import re
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

_ID: Final = re.compile(r"\bsb-[0-9a-f]{20}(?![0-9a-f])")
#: The OCI bundle's directory among a runtime's arguments; before it stands the daemon's run directory.
_BUNDLE: Final = re.compile(r"(/[^=]*)/bundles/sb-[0-9a-f]{20}$")
#: What all gofers of a daemon join, below its run directory (warden/sandbox/layout.py).
_GOFERS: Final = "/runsc/null-netns"
_CHILDREN: Final = frozenset({"opensafe.daemon.front", "opensafe.daemon.helper"})
_CGROUPS: Final = pathlib.Path("/sys/fs/cgroup")
_CGROUP_DEPTH: Final = 4
#: Between the two looks. A sandbox is made and removed in less, but for its death.
_AGAIN_S: Final = 0.3

#: What to do where no start of the daemon does it.
REMEDIES: Final = {
    "process": "kill -9 {name}",
    "cgroup": "xargs -r kill -9 < {name}/cgroup.procs; rmdir {name}",
    "netns": "umount {name}; rm {name}",
    "mount": "umount {name}",
    "link": "ip link delete {name}",
    "bundle": "rm -r {name}",
    "container": "rm {name}",
    "shm": "rm {name}",
    "loop": "losetup -d {name}",
}


class Leftover(msgspec.Struct, frozen=True, order=True):
    """One thing left. name: what the remedy is applied to: a process's number, a path, a device, a link."""

    kind: str
    name: str
    said: str = ""

    @property
    def remedy(self) -> str:
        """How to remove it by hand."""
        return REMEDIES[self.kind].format(name=self.name)


def find(run: pathlib.Path, state: pathlib.Path | None = None) -> list[Leftover]:
    """What is left, by kind and name. Needs root to see all.

    run, state: one daemon's directories. Of others, the run directories /run/opensafe* are looked at.
    """
    first = _look(run, state)
    if not first:
        return []
    time.sleep(_AGAIN_S)
    again = {(one.kind, one.name) for one in _look(run, state)}
    return sorted(one for one in first if (one.kind, one.name) in again)


def _look(run: pathlib.Path, state: pathlib.Path | None) -> list[Leftover]:
    processes = list(_processes())
    runs = {run, *pathlib.Path("/run").glob("opensafe*"), *_runs_of(processes)}
    found = [
        *(Leftover("process", str(number), _described(words)) for number, words in processes),
        *_mounts(),
        *_cgroups(),
        *_files(runs),
        *_links(),
        *_shared_memory(),
        *_loops(),
    ]
    # After the objects: what was made since is not among them, and what was removed since is not there again.
    alive = {path for path in runs if _answers(path)}
    owned = {name for path in alive for name in _owned(path, state if path == run else None)}
    return [one for one in found if not _belongs(one, owned, alive)]


def _belongs(one: Leftover, owned: set[str], alive: set[pathlib.Path]) -> bool:
    named = _ids((one.name, one.said))
    if named:
        return bool(named & owned)
    # What carries no id is a daemon's as a whole, and stays as long as that lives; but for a child without a parent.
    return one.kind != "process" and any(f"{path}/" in f"{one.name} {one.said}" for path in alive)


def _ids(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in _ID.findall(text)}


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Processes of the runtime and of `launch` that name a sandbox of ours, and children without their warden."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        words = _words(entry.name)
        program = os.path.basename(words[0])
        runtime = program.startswith(("runsc", "launch")) and _ids(words)
        if runtime or (_CHILDREN.intersection(words) and not _fathered(entry.name)):
            yield int(entry.name), words


def _described(words: list[str]) -> str:
    """Whose it is first: the whole is long."""
    return " ".join([*sorted(_ids(words)), *words])[:160]


def _words(number: str) -> list[str]:
    try:
        return pathlib.Path("/proc", number, "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # ended meanwhile
        return [""]


def _fathered(number: str) -> bool:
    """Whether its parent is a program of ours. Of one that has ended, too."""
    try:
        parent = pathlib.Path("/proc", number, "stat").read_text().rpartition(") ")[2].split()[1]
    except OSError:
        return True
    return any("opensafe" in word for word in _words(parent))


def _runs_of(processes: Iterable[tuple[int, list[str]]]) -> Iterator[pathlib.Path]:
    for _, words in processes:
        for word in words:
            if found := _BUNDLE.search(word):
                yield pathlib.Path(found[1])


def _answers(run: pathlib.Path) -> bool:
    """Whether a daemon listens on one of the principals' sockets."""
    for path in run.glob("principals/*/opensafe.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(os.fsencode(path))
            except BlockingIOError:  # its backlog is full: somebody listens
                return True
            except OSError:
                continue
            return True
    return False


def _owned(run: pathlib.Path, state: pathlib.Path | None) -> set[str]:
    if state is not None:
        # An error, too, where it is not there or not for us to read.
        with contextlib.suppress(sqlite3.Error), contextlib.closing(_open(state / "warden.db")) as database:
            return {str(name) for (name,) in database.execute("SELECT sandbox_id FROM sandboxes")}
    return _ids(str(path) for path in run.glob("*/*sb-*"))


def _open(path: pathlib.Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _mounts() -> Iterator[Leftover]:
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split(" ")[4]
        if _ID.search(point) or point.endswith(_GOFERS):
            network = point.endswith(_GOFERS) or pathlib.Path(point).parent.name == "netns"
            yield Leftover("netns" if network else "mount", point)


def _cgroups() -> Iterator[Leftover]:
    for directory, names, _ in os.walk(_CGROUPS):
        path = pathlib.Path(directory)
        if len(path.relative_to(_CGROUPS).parts) >= _CGROUP_DEPTH:
            names.clear()
        if _ID.search(path.name):
            yield Leftover("cgroup", str(path))


def _files(runs: Iterable[pathlib.Path]) -> Iterator[Leftover]:
    """Bundles, and runsc's own files, its control sockets among them. A namespace's is with the mounts."""
    for run in runs:
        for kind, names in ("bundle", "bundles/sb-*"), ("container", "runsc/*sb-*"):
            yield from (Leftover(kind, str(path)) for path in run.glob(names) if _ID.search(path.name))


def _links() -> Iterator[Leftover]:
    """Network interfaces of the host whose alias names a sandbox: 15 characters are too few for their names to."""
    for path in pathlib.Path("/sys/class/net").glob("*/ifalias"):
        with contextlib.suppress(OSError):
            if _ID.search(alias := path.read_text()):
                yield Leftover("link", path.parent.name, alias.strip())


def _shared_memory() -> Iterator[Leftover]:
    for path in pathlib.Path("/dev/shm").glob("*"):  # noqa: S108 - looked at, not written to
        if _ID.search(path.name) or path.name.startswith("opensafe"):
            yield Leftover("shm", str(path))


def _loops() -> Iterator[Leftover]:
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            backing = path.read_text().strip()
            if _ID.search(backing) or backing.startswith("/run/opensafe"):
                yield Leftover("loop", f"/dev/{path.parents[1].name}", backing)
