"""Runs the command line with less: `python -m opensafe.console.confined PARENT ARGUMENT…`.

A bundle that was uploaded may be made to be huge, and a console that is killed can't end what it began: so the kernel
bounds what the command may use, before it reads anything, and ends it with its parent.
"""

import ctypes
import os
import resource
import runpy
import signal
import sys
from typing import Final

#: Bytes of private writable memory, and of one file; seconds of processor time.
MEMORY: Final = 512 << 20
FILE: Final = 256 << 20
CPU_S: Final = 300

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Confine this process and become `opensafe`."""
    failed = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if failed or os.getppid() != int(sys.argv[1]):
        sys.exit("the console that wanted this is gone")
    for which, limit in (
        (resource.RLIMIT_DATA, MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (bound, bound))
    sys.argv = ["opensafe", *sys.argv[2:]]
    runpy.run_module("opensafe.cli", run_name="__main__")


if __name__ == "__main__":
    main()
