"""What a driver of runsc can do, however it does it: the interface of control.py (socket) and runsc.py (CLI).

One conformance suite runs over both (tests/system/warden/test_driver_conformance.py).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

import msgspec

from ..network.ports import Port

#: What the runner calls itself, before the process id of its program (native/guest/run.c).
_RUNNER_NAME: Final = "run:"


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
    name: str = ""


class Execution(Protocol):
    """One program started through a driver."""

    @property
    def pid(self) -> int:
        """Process id in the guest."""

    async def wait(self) -> None:
        """Until it has ended, or the sandbox has; once. Raises DriverError when the runtime can't tell."""

    async def close(self) -> None:
        """Release what the host holds for it. The program itself is not touched."""


class Driver(Protocol):
    """All may raise DriverError. A sandbox is named by its id; `create` and `delete` are runsc.py's alone."""

    async def start(self, sandbox_id: str, port: Port | None = None) -> None:
        """Start the created sandbox's PID 1, with 127.0.0.1 up in the guest and its link, where it has one."""

    async def execute(self, sandbox_id: str, program: GuestProgram) -> Execution:
        """Start one more program."""

    async def processes(self, sandbox_id: str) -> tuple[GuestProcess, ...]:
        """All processes of the guest, zombies included."""

    async def pause(self, sandbox_id: str) -> None:
        """Stop every task of the guest; returns when all have stopped. Pauses nest."""

    async def resume(self, sandbox_id: str) -> None:
        """Let the guest go on after one `pause`; never without one."""

    async def signal(self, sandbox_id: str, runner: int, number: int, *, whole_tree: bool) -> int:
        """Signal the program under a runner that `execute` started, or all below it, never the runner; to how many.

        One sweep: what is forked while it goes on may escape a driver that can't stop the guest meanwhile.
        """


def targets(processes: Collection[GuestProcess], runner: int, *, whole_tree: bool) -> tuple[int, ...]:
    """Process ids of all that is below a runner, or of its program alone, which the runner's name tells."""
    below = descendants(processes, runner)
    if whole_tree:
        return below
    names = [one.name for one in processes if one.pid == runner]
    return tuple(pid for pid in below if names == [f"{_RUNNER_NAME}{pid}"])


def descendants(processes: Iterable[GuestProcess], root: int) -> tuple[int, ...]:
    """Process ids below `root`, without it; none when `root` is not, or no longer, a program of the sentry's."""
    children: dict[int, list[int]] = {}
    for one in processes:
        children.setdefault(one.ppid, []).append(one.pid)
    if root not in children.get(0, ()):
        return ()
    found: list[int] = []
    seen = {root}
    queue = [root]
    while queue:
        # `seen` guards against a list with a loop, which only a hostile sentry sends.
        below = [pid for pid in children.get(queue.pop(), ()) if pid not in seen]
        seen.update(below)
        found += below
        queue += below
    return tuple(found)
