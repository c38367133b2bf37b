"""What the helper shows of its tables: open connections, hosts, and what a sandbox may reach at this moment.

An answer is one packet to the warden, so it is a page: as many whole sandboxes as fit, and at least one. That always
fits, because a sandbox has so many connections and so many hosts.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from opensafe.model.traffic import OpenConnection, Sight, Standing
from opensafe.policy.reload import Loaded
from opensafe.warden.protocol import LookDue

from .accounting import Accounting
from .callers import Callers
from .connections import Connections
from .explaining import Explainer

#: Rows of a page that has more than one sandbox.
_ROWS: Final = 512
_OVER: Final = 1024


class Sights:
    """Looks; changes nothing."""

    def __init__(
        self, callers: Callers, connections: Connections, accounting: Accounting, explainer: Explainer
    ) -> None:
        self._callers = callers
        self._connections = connections
        self._accounting = accounting
        self._explainer = explainer

    def of(self, due: LookDue, loaded: Loaded | None) -> Sight:
        """What there is of the first of the sandboxes that are asked about. loaded: what connections are judged by."""
        sandbox_ids = due.sandbox_ids
        match due.what:
            case "connections":
                by_id: dict[str, list[OpenConnection]] = {one: [] for one in sandbox_ids}
                for connection in self._connections.snapshot(by_id):
                    by_id[connection.sandbox_id].append(connection)
                covered = _covered([len(by_id[one]) for one in sandbox_ids])
                return Sight(
                    covered=covered, connections=tuple(row for one in sandbox_ids[:covered] for row in by_id[one])
                )
            case "hosts":
                hosts = {one: self._accounting.hosts(one) for one in sandbox_ids}
                covered = _covered([len(hosts[one]) for one in sandbox_ids])
                return Sight(covered=covered, hosts=tuple(row for one in sandbox_ids[:covered] for row in hosts[one]))
            case "standing":
                return Sight(covered=1, standing=self._standing(due, loaded))

    def _standing(self, due: LookDue, loaded: Loaded | None) -> Standing:
        sandbox_id = due.sandbox_ids[0]
        bundle = loaded.bundle.digest if loaded is not None else ""
        found = self._callers.find(sandbox_id)
        if found is None:
            return Standing(sandbox_id=sandbox_id, bundle=bundle)
        where, address, programs = found
        layers = self._explainer.layers(
            loaded.engine if loaded is not None else None,
            due.host,
            due.port,
            where,
            lambda question: self._accounting.charged(question, where.call),
        )
        standing = Standing(sandbox_id=sandbox_id, address=address, programs=programs, bundle=bundle, layers=layers)
        call = where.call
        if call is None:
            return standing
        used = self._accounting.since(call)
        return msgspec.structs.replace(
            standing,
            call_id=call.call_id,
            session_id=call.session_id,
            tool=call.tool,
            network=call.network,
            sent=max(0, used.egress_bytes),
            received=max(0, used.ingress_bytes),
            requests=max(0, used.requests),
            over=self._accounting.over(call, asked=1)[:_OVER],
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
