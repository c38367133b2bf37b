"""Who speaks from an address: the sandbox behind it, and the call in it under whose grant that would be.

The monitor hears from the warden which calls live where, before anything of them can run, and passes it on. An address
stands for a sandbox and not for a program, so whatever lives beside a call could use its grant: where there is more
than one, nobody may connect. The helper that serves file operations runs no code of the guest's and doesn't count.

Where sessions keep what they are granted (ADR 0037), a sandbox runs one session's programs, and a name is under the
call that was granted it last, whether that lives or not. What else the session does weighs on each connection.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from opensafe.model.facts import ClassTables
from opensafe.model.policy_input import SessionInput
from opensafe.normalize.urls import HostClassifier
from opensafe.warden.feed import Call, Expect, Granted, Left, Renamed, Unwatch, Watch, Withdrawn
from opensafe.warden.grants import HELPERS, Grants, together

#: The class of names that a grant covers, as its tables have it.
GRANTED: Final = "granted"
_NOTHING: Final = HostClassifier(ClassTables())


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What lives behind an address. call: the one whose grant is open, None where there is none, or no telling which.

    grant: its names and `*.` patterns, under the class GRANTED of the matcher that reads the site's tables. kept: where
    the session keeps its grants, all calls that names are under, newest first; session: it as it stands.
    """

    sandbox_id: str
    template: str
    call: Call | None = None
    grant: HostClassifier = _NOTHING
    kept: tuple[tuple[Call, HostClassifier], ...] = ()
    session: SessionInput | None = None

    def of(self, name: str) -> "Where":
        """The same for a canonical name: `call` is the one that was granted it last, the newest where none was."""
        for call, grant in self.kept:
            if grant.classify(name).get(GRANTED):
                return msgspec.structs.replace(self, call=call, grant=grant)
        return self

    @property
    def holder(self) -> str:
        """Whose the grant is: a connection that was opened under another's is under none."""
        if self.call is None:
            return ""
        return self.call.session_id if self.kept else self.call.exec_id


class Listener(Protocol):
    """Who is told, in the turn in which it happens."""

    def opened(self, where: Where) -> None:
        """The call's grant is open from now on."""

    def closed(self, where: Where) -> None:
        """It no longer is: what it opened has to be cut."""

    def gone(self, sandbox_id: str) -> None:
        """The sandbox is gone, and its address with it."""


def _all_is_heard() -> None:
    """There is nobody to listen to."""


class _Sandbox:
    def __init__(self, told: Watch) -> None:
        self.address = told.address
        self.calls = {call.exec_id: call for call in told.calls}
        self.grants = Grants()
        self.where = Where(sandbox_id=told.sandbox_id, template=told.template)


class Callers:
    """Sandboxes by the address they have. Told by monitor/watcher.py, asked by judge.py; one thread."""

    def __init__(self, *, keep: bool = False) -> None:
        """keep: sessions keep what their calls were granted."""
        self._keep = keep
        self._sandboxes: dict[str, _Sandbox] = {}
        #: Each check asks, among thousands.
        self._at: dict[str, list[_Sandbox]] = {}
        self._listeners: list[Listener] = []
        self._hear: Callable[[], None] = _all_is_heard

    def listen(self, listener: Listener) -> None:
        """Tell it, too."""
        self._listeners.append(listener)

    def hear_first(self, hear: Callable[[], None]) -> None:
        """Call this before an answer of `at`: it passes on all that was said so far, which the answer is then about."""
        self._hear = hear

    def at(self, address: str) -> Where | None:
        """Who speaks from there; None where that is nobody, or cannot be told."""
        self._hear()
        found = self._at.get(address, ())
        return self._as_it_stands(found[0].where) if len(found) == 1 else None

    def find(self, sandbox_id: str) -> tuple[Where, str, int] | None:
        """The sandbox as it stands, its address and how many programs run there; None where nothing is known of it.

        Its call has all the names that are reachable, where those of several are.
        """
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            return None
        where = self._as_it_stands(sandbox.where)
        if where.call is not None and where.kept:
            names = tuple(dict.fromkeys(name for call, _ in where.kept for name in call.network))
            call = msgspec.structs.replace(where.call, network=names, session=where.session)
            where = msgspec.structs.replace(where, call=call)
        return where, sandbox.address, len(_programs(sandbox.calls.values()))

    def watch(self, told: Watch) -> None:
        """There is a sandbox, with these calls."""
        self._forget(told.sandbox_id)
        sandbox = self._sandboxes[told.sandbox_id] = _Sandbox(told)
        if told.address:
            self._at.setdefault(told.address, []).append(sandbox)
        self._settle(sandbox)

    def expect(self, told: Expect) -> None:
        """A call is about to be started."""
        if sandbox := self._sandboxes.get(told.sandbox_id):
            sandbox.calls[told.call.exec_id] = told.call
            if self._keep:
                sandbox.grants.expect(told.call)
            self._settle(sandbox)

    def granted(self, told: Granted) -> None:
        """What an earlier helper knew of the session's grants there."""
        sandbox = self._sandboxes.get(told.sandbox_id)
        if self._keep and sandbox is not None:
            sandbox.grants.restore(told)
            self._settle(sandbox)

    def withdrawn(self, told: Withdrawn) -> None:
        """It was not."""
        if sandbox := self._sandboxes.get(told.sandbox_id):
            sandbox.calls.pop(told.exec_id, None)
            call = sandbox.grants.withdraw(told.exec_id)
            self._settle(sandbox)
            if call is not None:
                self._closed(msgspec.structs.replace(sandbox.where, call=call))

    def left(self, told: Left) -> None:
        """Nothing of it runs any more."""
        if sandbox := self._sandboxes.get(told.sandbox_id):
            sandbox.calls.pop(told.exec_id, None)
            sandbox.grants.left(told.exec_id)
            self._settle(sandbox)

    def renamed(self, told: Renamed) -> None:
        """The sandbox has another id now, and whoever has it was granted nothing there."""
        if sandbox := self._sandboxes.pop(told.sandbox_id, None):
            self._forget(told.to)
            self._sandboxes[told.to] = sandbox
            before, sandbox.grants = sandbox.grants.held, Grants()
            self._settle(sandbox, sandbox_id=told.to)
            for call in before:
                self._closed(msgspec.structs.replace(sandbox.where, call=call))

    def unwatch(self, told: Unwatch) -> None:
        """The sandbox is gone, or nothing can be said of it any more."""
        self._forget(told.sandbox_id)

    def _forget(self, sandbox_id: str) -> None:
        if sandbox := self._sandboxes.pop(sandbox_id, None):
            if sandbox.address:
                self._at[sandbox.address].remove(sandbox)
                if not self._at[sandbox.address]:
                    del self._at[sandbox.address]
            sandbox.calls.clear()
            sandbox.grants = Grants()
            self._settle(sandbox)
            for listener in self._listeners:
                listener.gone(sandbox_id)

    def _settle(self, sandbox: _Sandbox, sandbox_id: str = "") -> None:
        """Open or close what the calls that live now leave open."""
        before, call = sandbox.where, _alone(sandbox.calls.values())
        sandbox_id = sandbox_id or before.sandbox_id
        if self._keep:
            sandbox.where = _kept(sandbox, sandbox_id)
            return
        if call == before.call and sandbox_id == before.sandbox_id:
            return
        grant = _matcher(call) if call is not None else _NOTHING
        sandbox.where = Where(sandbox_id=sandbox_id, template=before.template, call=call, grant=grant)
        if before.call is not None:
            self._closed(before)
        if call is not None:
            for listener in self._listeners:
                listener.opened(sandbox.where)

    def _closed(self, where: Where) -> None:
        for listener in self._listeners:
            listener.closed(where)

    def _as_it_stands(self, where: Where) -> Where:
        """With what is known of its session, in whatever sandbox, where it keeps its grants."""
        if not where.kept:
            return where
        session_id = where.kept[0][0].session_id
        known = (one.grants.session for one in self._sandboxes.values())
        return msgspec.structs.replace(
            where, session=together(one for one in known if one is not None and one.id == session_id)
        )


def _kept(sandbox: _Sandbox, sandbox_id: str) -> Where:
    known = {call.exec_id: (call, grant) for call, grant in sandbox.where.kept}
    kept = []
    for call in reversed(sandbox.grants.held):
        before = known.get(call.exec_id)
        kept.append((call, before[1] if before is not None and before[0].network == call.network else _matcher(call)))
    where = Where(sandbox_id=sandbox_id, template=sandbox.where.template)
    return msgspec.structs.replace(where, call=kept[0][0], grant=kept[0][1], kept=tuple(kept)) if kept else where


def _matcher(call: Call) -> HostClassifier:
    return HostClassifier(ClassTables(hosts={GRANTED: call.network}))


def _alone(calls: Iterable[Call]) -> Call | None:
    """The call that has a grant and no other program beside it."""
    programs = _programs(calls)
    return programs[0] if len(programs) == 1 and programs[0].network else None


def _programs(calls: Iterable[Call]) -> list[Call]:
    return [call for call in calls if call.network or call.profile not in HELPERS]
