"""Runs the command line as a child that ends with its owner: `python -m opensafe.console.owned PARENT ARGUMENT…`.

A console that is killed can't stop what it started, so the kernel does: by SIGINT, on which the commands clean up.
"""

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Tie this process to its parent and become `opensafe`."""
    parent = int(sys.argv[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored by whoever started the console
    failed = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
    if failed or os.getppid() != parent:
        sys.exit("the console that wanted this is gone")
    sys.argv = ["opensafe", *sys.argv[2:]]
    runpy.run_module("opensafe.cli", run_name="__main__")


if __name__ == "__main__":
    main()
