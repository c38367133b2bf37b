"""What a daemon that is gone left on the host: processes, mounts and cgroups of sandboxes that nobody owns.

Everything a daemon makes for a sandbox carries the sandbox's random id in its name. An id is owned while a daemon
that answers lists it in its run directory; whatever carries another one is a leftover.
"""

import os
import pathlib
import re
import socket
from collections.abc import Iterable, Iterator
from typing import Final

_ID: Final = re.compile(r"\bsb-[0-9a-f]{20}\b")
#: The OCI bundle's directory among a runtime's arguments; before it stands the daemon's run directory.
_BUNDLE: Final = re.compile(r"(/[^=]*)/bundles/sb-[0-9a-f]{20}$")
_CGROUP_DEPTH: Final = 4


def find(run: pathlib.Path) -> list[str]:
    """One line for each leftover. `run` is looked at besides /run/opensafe*. Needs root to see all."""
    processes = list(_processes())
    runs = {run, *pathlib.Path("/run").glob("opensafe*"), *_runs_of(processes)}
    owned = {name for path in runs if _answers(path) for name in _ids_below(path)}
    found = [
        f"process {number}: {' '.join(arguments)[:120]}"
        for number, arguments in processes
        if not _ids(arguments) & owned
    ]
    found += [f"mount {path}" for path in _mounts() if not _ids([path]) & owned]
    found += [f"cgroup {path}" for path in _cgroups() if not _ids([str(path)]) & owned]
    return sorted(found)


def _ids(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in _ID.findall(text)}


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Processes of the runtime and of `launch` whose arguments name a sandbox of ours."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            arguments = pathlib.Path(entry.path, "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # ended meanwhile
            continue
        program = os.path.basename(arguments[0])
        if program.startswith(("runsc", "launch")) and _ids(arguments):
            yield int(entry.name), arguments


def _runs_of(processes: Iterable[tuple[int, list[str]]]) -> Iterator[pathlib.Path]:
    for _, arguments in processes:
        for argument in arguments:
            if found := _BUNDLE.search(argument):
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


def _ids_below(run: pathlib.Path) -> set[str]:
    return _ids(str(path) for path in run.glob("*/sb-*"))


def _mounts() -> Iterator[str]:
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split(" ")[4]
        if _ID.search(point):
            yield point


def _cgroups() -> Iterator[pathlib.Path]:
    top = pathlib.Path("/sys/fs/cgroup")
    for directory, names, _ in os.walk(top):
        path = pathlib.Path(directory)
        if len(path.relative_to(top).parts) >= _CGROUP_DEPTH:
            names.clear()
        if _ID.search(path.name):
            yield path
