"""Oracles 5 and 6: which processes stand in and around a sandbox, and what those of runsc may do and hold."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Final

from opensafe.proof import posture
from opensafe.warden.sandbox.limits import Cgroup

from .oracles import Finding, Oracle

_PROC: Final = pathlib.Path("/proc")
_SENTRY: Final = b"runsc-sandbox"
_RUNSC: Final = (_SENTRY, b"runsc-gofer")
#: What long input comes in, which a runner holds as its standard input.
_UNKNOWN: Final = "socket of another kind"
_INPUT: Final = "descriptor memfd:stdin"


class Tree:
    """A sandbox's processes, from before its guest did anything."""

    def __init__(self, cgroup: Cgroup, runsc: pathlib.Path) -> None:
        self._cgroup = cgroup
        self._runsc = str(runsc.resolve())
        self.pids = cgroup.pids()
        words = {pid: _words(pid) for pid in self.pids}
        self._names = {pid: _name(pid) for pid, word in words.items() if word in _RUNSC}
        self.sentry = next((pid for pid, word in words.items() if word == _SENTRY), 0)
        self._network = _network(self.sentry)
        self._before = {**posture.read(self.pids), f"sentry {_INPUT}": "", f"stub {_INPUT}": ""}

    def begun(self) -> Iterator[Finding]:
        """Where it did not stand as the warden makes one, when it was taken in."""
        for fault in posture.faults(self._before, allowed=(f"sentry {_INPUT}", f"stub {_INPUT}")):
            yield Finding(oracle=Oracle.POSTURE, what=fault)

    def look(self) -> Iterator[Finding]:
        """What is wrong with who is in the group, as far as it can be seen in a millisecond."""
        for pid in self._cgroup.pids():
            self.pids.add(pid)
            with contextlib.suppress(OSError):  # ended meanwhile
                program = os.readlink(_PROC / str(pid) / "exe")
                if program != self._runsc:
                    yield Finding(oracle=Oracle.PROCESS, what=f"{program} runs in the sandbox's group")
        for pid, name in self._names.items():
            if (now := _name(pid)) not in (name, ""):
                yield Finding(oracle=Oracle.PROCESS, what=f"{name!r} is now called {now!r}")

    def posture(self) -> Iterator[Finding]:
        """What its processes have come to hold; nothing of a sandbox that ends, whose processes lose one by one."""
        gained = posture.gained(self._before, posture.read(self._cgroup.pids()))
        if gained:
            # A socket that is made while the tables are read is of no known kind. It is told where it stays so.
            again = posture.gained(self._before, posture.read(self._cgroup.pids()))
            gained = tuple(fact for fact in gained if _UNKNOWN not in fact or fact in again)
        now = _network(self.sentry)
        if self.sentry and not now:
            return
        if now != self._network:
            yield Finding(oracle=Oracle.POSTURE, what="the sentry is in another network")
        for fact in gained:
            yield Finding(oracle=Oracle.POSTURE, what=fact)

    def scan(self) -> Iterator[Finding]:
        """What is wrong with all others: whoever descends from the tree, or is in its network, and not in the group."""
        inside = self.pids | self._cgroup.pids()
        shared = self._network in ("", _network(os.getpid()))
        for pid, parent in posture.parents().items():
            if pid in inside:
                continue
            if parent in inside:
                yield Finding(
                    oracle=Oracle.PROCESS, what=f"{_name(pid)!r} descends from the sandbox, outside its group"
                )
            if not shared and _network(pid) == self._network:
                yield Finding(oracle=Oracle.PROCESS, what=f"{_name(pid)!r} is in the sandbox's network")


def remaining(word: str) -> Iterator[Finding]:
    """Oracle 13's part: processes that have this word in their command line or group."""
    for pid in posture.parents():
        with contextlib.suppress(OSError):
            told = (_PROC / str(pid) / "cmdline").read_bytes() + (_PROC / str(pid) / "cgroup").read_bytes()
            if word.encode() in told and pid != os.getpid():
                yield Finding(oracle=Oracle.REMAINS, what=f"process {_name(pid)!r} of {word}")


def _words(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[0]
    return b""


def _network(pid: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(_PROC / str(pid) / "ns/net")
    return ""


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text().strip()
    return ""
