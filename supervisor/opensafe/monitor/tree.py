"""Which call each process of one sandbox belongs to.

A process belongs to the call of the process that made it, however often its parents changed since; so a daemon that
left its session is still its call's. The runner that the warden announced is a call's root, and the last to go.
"""

from collections.abc import Iterable
from typing import Final

from opensafe.warden.feed import Call

#: More processes than a sandbox's cgroup lets live at once (model/limits.py).
_PROCESSES_MAX: Final = 65536


class TooManyProcessesError(Exception):
    """The sentry tells of more processes than a sandbox can have."""


class Running:
    """One call under way. `led`: its own program was seen. `breached`: it is being killed already."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.pid = call.pid
        self.led = False
        self.breached = False


class Tree:
    """The processes of one sandbox by call."""

    def __init__(self) -> None:
        self._expected: dict[str, Running] = {}
        self._owner: dict[int, Running] = {}
        #: What was taken over, until all that was reported before is read: its calls, and the processes that lived.
        self._inherited: tuple[Running, ...] = ()
        self._lived: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self._owner)

    @property
    def awaits(self) -> bool:
        """Whether a call was announced whose runner is not known yet."""
        return bool(self._expected)

    def expect(self, call: Call) -> None:
        """A call is about to start."""
        self._expected[call.exec_id] = Running(call)

    def bind(self, exec_id: str, pid: int) -> None:
        """Its runner is this process."""
        running = self._expected.pop(exec_id, None)
        if running is not None:
            running.pid = pid
            self._put(pid, running)

    def withdraw(self, exec_id: str) -> None:
        """It did not start."""
        self._expected.pop(exec_id, None)

    def restore(self, calls: Iterable[Call], processes: Iterable[tuple[int, int]]) -> None:
        """Take over what an earlier helper knew, from the sandbox's process list."""
        for call in calls:
            self.expect(call)
            self._inherited = (*self._inherited, self._expected[call.exec_id])
            if call.pid:
                self.bind(call.exec_id, call.pid)
        parents = dict(processes)
        self._lived = frozenset(parents)
        for pid in parents:
            line, above = [pid], parents[pid]
            while above and pid not in self._owner and above not in line:
                running = self._owner.get(above)
                if running is not None:
                    for one in line:
                        self._put(one, running)
                line.append(above)
                above = parents.get(above, 0)

    def owner(self, pid: int, parent: int) -> Running | None:
        """The call of a process; its parent's where the process itself was made before this helper's time."""
        return self._owner.get(pid) or self._owner.get(parent)

    def orphan(self, pid: int) -> Running | None:
        """The call of a process that had ended when this helper took over, while reports on it still waited.

        Where one call alone was taken over, it is of that. Which of several it was, nobody can tell any more.
        """
        return self._inherited[0] if len(self._inherited) == 1 and pid not in self._lived else None

    def settled(self) -> None:
        """All that was reported before the takeover is read."""
        self._inherited = ()

    def add(self, child: int, running: Running) -> None:
        """A process of this call made another. Raises TooManyProcessesError."""
        self._put(child, running)

    def drop(self, pid: int) -> None:
        """A process has ended."""
        self._owner.pop(pid, None)

    def _put(self, pid: int, running: Running) -> None:
        self._owner[pid] = running
        if len(self._owner) > _PROCESSES_MAX:
            raise TooManyProcessesError(f"more than {_PROCESSES_MAX} processes")
