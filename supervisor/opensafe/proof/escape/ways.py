"""How a Python program is run in a cell, and which layers are before it then."""

from collections.abc import Awaitable, Callable
from typing import Final

from .cell import Cell, Output

POLICY: Final = "policy"
FILTER: Final = "call filter"
USER: Final = "the guest's user"
#: Opened where the host's own is mounted in the guest.
MOUNTED: Final = "what is mounted"

#: Of a guest's root, where the sentry and the mounts are all there is.
ALL_CAPABILITIES: Final = tuple(
    f"CAP_{name}"
    for name in (
        *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
        *("NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE"),
        *("SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD"),
        *("LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND"),
    )
)

#: What a program's text comes behind.
PYTHON: Final = ("/usr/bin/python3", "-I", "-c")

Way = Callable[[Cell, str], Awaitable[Output]]
"""Runs a program's text."""


async def filtered(cell: Cell, text: str) -> Output:
    """As a call runs it: POLICY is open."""
    return await cell.run(cell.launch(*PYTHON, text))


async def unfiltered(cell: Cell, text: str) -> Output:
    """As the guest's user without a profile: FILTER is open, too."""
    return await cell.unfiltered(cell.launch(*PYTHON, text))


async def as_root(cell: Cell, text: str) -> Output:
    """As the guest's root with every capability: USER is open, too."""
    return await cell.raw(*PYTHON, text, capabilities=ALL_CAPABILITIES)
