"""What a session was granted in one sandbox, where it keeps that until it ends: the warden's memory, and the helper's.

Both keep the same by the same rules, so that a helper that starts anew can be told what the last one knew. A name is
under the call that was granted it last; that call may have ended. What is known of the session is its newest decision's
and what the calls since then do: a secret that a later call reads is none that an earlier grant may carry out.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Final

import msgspec

from ..model.canonical import MAX_SAFE_INTEGER
from ..model.connection import Connection, of_host
from ..model.history import taints_after
from ..model.policy_input import SessionInput
from .feed import Call, Granted

#: Seccomp profiles under which only our own file helper runs.
HELPERS: Final = frozenset({"file", "tree"})
#: Bytes of calls in one message of several. One call alone is less than twice that.
_BATCH: Final = 128 * 1024

_encode = msgspec.msgpack.Encoder().encode


class Grants:
    """Calls by exec_id, oldest first, each with the names that no later one took over."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        #: The session as it stands, taints of all calls seen here included; None before there was any.
        self.session: SessionInput | None = None

    @property
    def held(self) -> tuple[Call, ...]:
        """The calls under which names are reachable, oldest first."""
        return tuple(self._calls.values())

    def expect(self, call: Call) -> None:
        """A call is about to start: its names are reachable."""
        self._see(call)
        if call.network:
            self._calls[call.exec_id] = msgspec.structs.replace(call, programs=(), pid=0, session=None, effects=())

    def withdraw(self, exec_id: str) -> Call | None:
        """It did not start, so its decision granted nothing. What it was, if it was here."""
        return self._calls.pop(exec_id, None)

    def left(self, exec_id: str) -> None:
        """It has ended: what it was granted stays, and is no earlier call's any more."""
        if (call := self._calls.get(exec_id)) is None:
            return
        for older in tuple(takewhile(lambda one: one != exec_id, self._calls)):
            rest = tuple(name for name in self._calls[older].network if name not in call.network)
            if rest:
                self._calls[older] = msgspec.structs.replace(self._calls[older], network=rest)
            else:
                del self._calls[older]

    def spent(self, connection: Connection) -> None:
        """The session used more: see `charged`."""
        for exec_id, call in self._calls.items():
            self._calls[exec_id] = charged(call, connection)

    def told(self, sandbox_id: str) -> Iterator[Granted]:
        """All of it, for a helper that starts anew: each message fits into a packet."""
        batch: list[Call] = []
        size = 0
        for call in self.held:
            size += len(_encode(call))
            if batch and size > _BATCH:
                yield Granted(sandbox_id=sandbox_id, calls=tuple(batch), session=self.session)
                batch, size = [], len(_encode(call))
            batch.append(call)
        if batch or self.session is not None:
            yield Granted(sandbox_id=sandbox_id, calls=tuple(batch), session=self.session)

    def restore(self, told: Granted) -> None:
        """Know what was told, beside what was before."""
        self._calls.update((call.exec_id, call) for call in told.calls)
        self.session = told.session

    def _see(self, call: Call) -> None:
        if call.session is None:
            return
        before = self.session
        # The file helper alone may serve another session here: what it reads is known here, its history is not ours.
        own = before is None or call.profile not in HELPERS or call.session.id == before.id
        base = call.session if own or before is None else before
        known = before.taints if before is not None else ()
        taints = taints_after((*known, *call.session.taints), call.effects)
        self.session = msgspec.structs.replace(base, taints=taints)


def together(known: Iterable[SessionInput]) -> SessionInput | None:
    """One session as several sandboxes know it: its newest history, and all taints."""
    sessions = sorted(known, key=lambda one: one.age_s)
    if not sessions:
        return None
    taints = dict.fromkeys(taint for one in sessions for taint in one.taints)
    return msgspec.structs.replace(sessions[-1], taints=tuple(taints))


def charged(call: Call, connection: Connection) -> Call:
    """The call with a budget from which this is gone, where it is the same session's.

    What was used since a decision is otherwise known to the helper that counted it, and to no later one.
    """
    used = connection.usage
    if used is None or connection.session_id != call.session_id:
        return call
    more, budget = used.as_budget(), call.budget
    host = of_host(used)
    hosts = {name: use.plus(host) if name == connection.name else use for name, use in budget.hosts.items()}
    return msgspec.structs.replace(
        call,
        budget=msgspec.structs.replace(
            budget, usage=_sum(budget.usage, more), principal=_sum(budget.principal, more), hosts=hosts
        ),
    )


def _sum(used: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Keys that the decision did not see stay unknown."""
    return {key: min(number + more.get(key, 0), MAX_SAFE_INTEGER) for key, number in used.items()}
