"""What a process may use up that works on a bundle's bytes: a bundle made to be huge ends its worker and nobody else.

Time is bounded by the worker's alarm. Linux counts private writable memory alone as data (getrlimit(2)), so addresses
that WebAssembly memories merely reserve don't count.
"""

import pathlib
import resource
from typing import Final

#: Bytes of private writable memory, beside what the process has already. The shipped bundle takes less than a tenth.
MEMORY: Final = 512 << 20
#: Bytes of one file: machine code, in the cache.
FILE: Final = 256 << 20


def confine() -> None:
    """Bound this process for good, and let the kernel take it before others where memory runs out."""
    for which, limit in (
        (resource.RLIMIT_DATA, _held() + MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (bound, bound))
    pathlib.Path("/proc/self/oom_score_adj").write_text("1000")


def _held() -> int:
    """Bytes of data and stack (proc_pid_statm(5)): what was forked from a large process begins as large."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[5])
    return pages * resource.getpagesize()
