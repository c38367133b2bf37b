"""What a driver of runsc can do, however it does it: the interface of control.py (socket) and runsc.py (CLI).

One conformance suite runs over both (tests/system/warden/test_driver_conformance.py).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class GuestProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program as the sentry starts it: as uid 0 in the guest with exactly these capabilities.

    `descriptors` maps descriptor numbers in the guest to our own, which stay ours to close.
    """

    argv: tuple[str, ...]
    env: tuple[str, ...]
    cwd: str
    capabilities: tuple[str, ...]
    descriptors: Mapping[int, int]


class GuestProcess(msgspec.Struct, frozen=True):
    """One line of the sentry's process list; `ppid` is 0 for what the sentry itself started."""

    pid: int
    ppid: int


class Execution(Protocol):
    """One program started through a driver."""

    @property
    def pid(self) -> int:
        """Process id in the guest."""

    async def wait(self) -> None:
        """Until it has ended, or the sandbox has. Raises DriverError when the runtime can't tell."""

    async def close(self) -> None:
        """Release what the host holds for it. The program itself is not touched."""


class Driver(Protocol):
    """All may raise DriverError. A sandbox is named by its id; `create` and `delete` are runsc.py's alone."""

    async def start(self, sandbox_id: str) -> None:
        """Start the created sandbox's PID 1, with 127.0.0.1 up in the guest."""

    async def execute(self, sandbox_id: str, program: GuestProgram) -> Execution:
        """Start one more program."""

    async def processes(self, sandbox_id: str) -> tuple[GuestProcess, ...]:
        """All processes of the guest, zombies included."""

    async def signal(self, sandbox_id: str, pids: Sequence[int], signo: int) -> None:
        """Send a signal to each of these guest processes. One that is gone is no error."""

    async def pause(self, sandbox_id: str) -> None:
        """Stop every task of the guest; on return none runs."""

    async def resume(self, sandbox_id: str) -> None:
        """Let the tasks run again."""
