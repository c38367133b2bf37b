"""What the helper shows of its tables: open connections, hosts, and what a sandbox may reach at this moment.

An answer is one packet to the warden, so it is a page: as many whole sandboxes as fit, and at least one. That always
fits, because a sandbox has so many connections and so many hosts.
"""

from collections.abc import Sequence
from typing import Final

from opensafe.model.policy_input import SessionInput
from opensafe.model.traffic import GrantedCall, HostCount, OpenConnection, Sight, Standing, What
from opensafe.warden.feed import Call

from .accounting import Accounting
from .callers import Callers
from .connections import Connections

#: Rows of a page that has more than one sandbox.
_ROWS: Final = 512
_OVER: Final = 1024


class Sights:
    """Looks; changes nothing."""

    def __init__(self, callers: Callers, connections: Connections, accounting: Accounting) -> None:
        self._callers = callers
        self._connections = connections
        self._accounting = accounting

    def of(self, what: What, sandbox_ids: Sequence[str], bundle: str) -> Sight:
        """What there is of the first of these sandboxes. bundle: by which connections are judged."""
        match what:
            case "connections":
                by_id: dict[str, list[OpenConnection]] = {one: [] for one in sandbox_ids}
                for connection in self._connections.snapshot(by_id):
                    by_id[connection.sandbox_id].append(connection)
                covered = _covered([len(by_id[one]) for one in sandbox_ids])
                shown = [row for one in sandbox_ids[:covered] for row in by_id[one]]
                return Sight(covered=covered, connections=tuple(shown))
            case "hosts":
                hosts = {one: self._accounting.hosts(one) for one in sandbox_ids}
                covered = _covered([len(hosts[one]) for one in sandbox_ids])
                counted: list[HostCount] = [row for one in sandbox_ids[:covered] for row in hosts[one]]
                return Sight(covered=covered, hosts=tuple(counted))
            case "standing":
                return Sight(covered=1, standing=self._standing(sandbox_ids[0], bundle))

    def _standing(self, sandbox_id: str, bundle: str) -> Standing | None:
        found = self._callers.find(sandbox_id)
        if found is None:
            return None
        where, address, programs = found
        call = where.call
        charged = self._accounting.since(call) if call is not None else (0, 0)
        return Standing(
            sandbox_id=sandbox_id,
            address=address,
            programs=programs,
            call=_granted(call) if call is not None else None,
            sent=charged[0],
            requests=charged[1],
            over=self._accounting.over(call, asked=1)[:_OVER],
            bundle=bundle,
        )


def _covered(sizes: Sequence[int]) -> int:
    """How many sandboxes of these sizes fit."""
    total, covered = 0, 0
    for size in sizes:
        total += size
        if covered and total > _ROWS:
            break
        covered += 1
    return covered


def _granted(call: Call) -> GrantedCall:
    return GrantedCall(
        exec_id=call.exec_id,
        decision_id=call.decision_id,
        call_id=call.call_id,
        tool=call.tool,
        digest=call.digest,
        profile=call.profile,
        principal=call.principal,
        network=call.network,
        session=call.session or SessionInput(id=call.session_id),
        budget=call.budget,
    )
