"""Who speaks from an address: the sandbox behind it, and the one call in it that may reach the network.

The monitor hears from the warden which calls live where, before anything of them can run, and passes it on. An address
stands for a sandbox and not for a program, so whatever lives beside a call could use its grant: where there is more
than one, nobody may connect. The helper that serves file operations runs no code of the guest's and doesn't count.
"""

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from opensafe.model.facts import ClassTables
from opensafe.normalize.urls import HostClassifier
from opensafe.warden.feed import Call, Expect, Left, Renamed, Unwatch, Watch, Withdrawn

#: The class of names that a grant covers, as its tables have it.
GRANTED: Final = "granted"
#: Seccomp profiles under which only our own file helper runs.
_HELPERS: Final = frozenset({"file", "tree"})
_NOTHING: Final = HostClassifier(ClassTables())


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What lives behind an address. call: the one whose grant is open, None where there is none, or no telling which.

    grant: its names and `*.` patterns, under the class GRANTED of the matcher that reads the site's tables.
    """

    sandbox_id: str
    template: str
    call: Call | None = None
    grant: HostClassifier = _NOTHING


class Listener(Protocol):
    """Who is told, in the turn in which it happens."""

    def opened(self, where: Where) -> None:
        """The call's grant is open from now on."""

    def closed(self, where: Where) -> None:
        """It no longer is: what it opened has to be cut."""

    def gone(self, sandbox_id: str) -> None:
        """The sandbox is gone, and its address with it."""


class _Sandbox:
    def __init__(self, told: Watch) -> None:
        self.address = told.address
        self.calls = {call.exec_id: call for call in told.calls}
        self.where = Where(sandbox_id=told.sandbox_id, template=told.template)


class Callers:
    """Sandboxes by the address they have. Told by monitor/watcher.py, asked by judge.py; one thread."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, _Sandbox] = {}
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Tell it, too."""
        self._listeners.append(listener)

    def at(self, address: str) -> Where | None:
        """Who speaks from there; None where that is nobody, or cannot be told."""
        found = [one for one in self._sandboxes.values() if address and one.address == address]
        return found[0].where if len(found) == 1 else None

    def find(self, sandbox_id: str) -> tuple[Where, str, int] | None:
        """The sandbox as it stands, its address and how many programs run there; None where nothing is known of it."""
        sandbox = self._sandboxes.get(sandbox_id)
        return (sandbox.where, sandbox.address, len(_programs(sandbox.calls.values()))) if sandbox is not None else None

    def watch(self, told: Watch) -> None:
        """There is a sandbox, with these calls."""
        self._forget(told.sandbox_id)
        sandbox = self._sandboxes[told.sandbox_id] = _Sandbox(told)
        self._settle(sandbox)

    def expect(self, told: Expect) -> None:
        """A call is about to be started."""
        if sandbox := self._sandboxes.get(told.sandbox_id):
            sandbox.calls[told.call.exec_id] = told.call
            self._settle(sandbox)

    def withdrawn(self, told: Withdrawn) -> None:
        """It was not."""
        self._without(told.sandbox_id, told.exec_id)

    def left(self, told: Left) -> None:
        """Nothing of it runs any more."""
        self._without(told.sandbox_id, told.exec_id)

    def renamed(self, told: Renamed) -> None:
        """The sandbox has another id now."""
        if sandbox := self._sandboxes.pop(told.sandbox_id, None):
            self._forget(told.to)
            self._sandboxes[told.to] = sandbox
            self._settle(sandbox, sandbox_id=told.to)

    def unwatch(self, told: Unwatch) -> None:
        """The sandbox is gone, or nothing can be said of it any more."""
        self._forget(told.sandbox_id)

    def _forget(self, sandbox_id: str) -> None:
        if sandbox := self._sandboxes.pop(sandbox_id, None):
            sandbox.calls.clear()
            self._settle(sandbox)
            for listener in self._listeners:
                listener.gone(sandbox_id)

    def _without(self, sandbox_id: str, exec_id: str) -> None:
        if sandbox := self._sandboxes.get(sandbox_id):
            sandbox.calls.pop(exec_id, None)
            self._settle(sandbox)

    def _settle(self, sandbox: _Sandbox, sandbox_id: str = "") -> None:
        """Open or close what the calls that live now leave open."""
        before, call = sandbox.where, _alone(sandbox.calls.values())
        sandbox_id = sandbox_id or before.sandbox_id
        if call == before.call and sandbox_id == before.sandbox_id:
            return
        grant = HostClassifier(ClassTables(hosts={GRANTED: call.network})) if call is not None else _NOTHING
        sandbox.where = Where(sandbox_id=sandbox_id, template=before.template, call=call, grant=grant)
        for listener in self._listeners:
            if before.call is not None:
                listener.closed(before)
            if call is not None:
                listener.opened(sandbox.where)


def _alone(calls: Iterable[Call]) -> Call | None:
    """The call that has a grant and no other program beside it."""
    programs = _programs(calls)
    return programs[0] if len(programs) == 1 and programs[0].network else None


def _programs(calls: Iterable[Call]) -> list[Call]:
    return [call for call in calls if call.network or call.profile not in _HELPERS]
