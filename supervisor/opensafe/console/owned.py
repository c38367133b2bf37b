"""Runs the command line as a child that ends with its owner: `python -m opensafe.console.owned HOW PARENT ARGUMENT…`.

A console that is killed can't stop what it started, so the kernel does. What works on candidate bundles is killed, and
has bounds before it reads anything: one may be made to be huge. Other commands get SIGINT, on which they clean up.
"""

import ctypes
import enum
import os
import pathlib
import resource
import runpy
import signal
import sys
from collections.abc import Sequence
from typing import Final

#: Of a confined one: bytes of private writable memory, and of one file; seconds of processor time.
MEMORY: Final = 512 << 20
FILE: Final = 256 << 20
CPU_S: Final = 300

_PR_SET_PDEATHSIG: Final = 1


class How(enum.StrEnum):
    """What a child may be made to do by what it reads, and so how it ends."""

    CONFINED = "confined"
    TRUSTED = "trusted"


def command(how: How, words: Sequence[str | pathlib.Path]) -> list[str]:
    """The argv by which this process runs `opensafe WORDS`."""
    return [sys.executable, "-P", "-m", "opensafe.console.owned", how, str(os.getpid()), *map(str, words)]


def main() -> None:
    """Tie this process to its parent, confine it, and become `opensafe`."""
    how, parent = How(sys.argv[1]), int(sys.argv[2])
    ends = signal.SIGINT if how is How.TRUSTED else signal.SIGKILL
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored by whoever started the console
    failed = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, ends, 0, 0, 0)
    if failed or os.getppid() != parent:
        sys.exit("the console that wanted this is gone")
    if how is How.CONFINED:
        _confine()
    sys.argv = ["opensafe", *sys.argv[3:]]
    runpy.run_module("opensafe.cli", run_name="__main__")


def _confine() -> None:
    for which, limit in (
        (resource.RLIMIT_DATA, MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (bound, bound))


if __name__ == "__main__":
    main()
