"""Memory of processes as the kernel counts it."""

import pathlib
from collections.abc import Iterable, Mapping

import msgspec


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process, in bytes. pss: its own pages, and its share of those it shares with others."""

    pss: int
    rss: int
    private: int


def of(pid: int) -> Memory:
    """From /proc/PID/smaps_rollup (proc_pid_smaps(5)). Raises OSError."""
    fields = _fields(pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
    return Memory(pss=fields["Pss"], rss=fields["Rss"], private=fields["Private_Clean"] + fields["Private_Dirty"])


def _fields(lines: Iterable[str]) -> Mapping[str, int]:
    """`Name:  12 kB` as bytes."""
    split = (line.partition(":") for line in lines)
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in split if rest.endswith(" kB")}
