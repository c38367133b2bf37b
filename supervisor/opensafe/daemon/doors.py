"""The helper's side of the way out: who answers guests and Envoy, put together, and what follows a change.

A name is answered to a guest, and a connection let through, where the bundle in force says so for the one call that has
its sandbox for itself, or for the session that keeps its grants. When that ends, or the bundle changes, what had been
opened is judged again or cut.
"""

import asyncio
import contextlib
import ipaddress
import pathlib
from collections.abc import Coroutine, Sequence

import structlog

from opensafe.config import NEVER_VETTED, EgressSettings
from opensafe.egress import upstream
from opensafe.egress.accounting import Accounting
from opensafe.egress.authz import Authorizer
from opensafe.egress.callers import Callers, Where
from opensafe.egress.connections import Connections
from opensafe.egress.credentials import Credentials, hide_memory
from opensafe.egress.delivery import Delivery
from opensafe.egress.dns import Responder
from opensafe.egress.endpoints import Endpoints
from opensafe.egress.explaining import Explainer
from opensafe.egress.judge import EgressJudge
from opensafe.egress.names import Asked
from opensafe.egress.proxied import Failures
from opensafe.egress.reports import Reports
from opensafe.egress.resolver import Resolver, public
from opensafe.egress.sight import Sights
from opensafe.egress.splice import Splice
from opensafe.errors import InvalidArgument
from opensafe.model.connection import Connection
from opensafe.model.ids import now_us
from opensafe.normalize.urls import canonical_name, classify_host
from opensafe.policy.reload import Loaded
from opensafe.warden.client import WardenClient
from opensafe.warden.feed import Call

_log = structlog.get_logger()


class Doors:
    """All of it. `run` serves; `lead` is told of each bundle, and returns when nothing new is judged by the last."""

    def __init__(self, warden: WardenClient, settings: EgressSettings) -> None:
        self.callers = Callers(keep=settings.grants == "session")
        self._warden = warden
        self._settings = settings
        self._terminated = frozenset(one.name for one in settings.terminate)
        self._delivery = Delivery(warden.report)
        self._accounting = Accounting()
        self._connections = Connections(self._accounting, warden.cut, self._delivery.add)
        self._proxy = settings.proxy
        self._asked = Asked()
        self._judge = EgressJudge(
            self.callers,
            Reports(self._delivery.add),
            behind=self._delivery.behind,
            terminated=self._terminated,
            proxy=settings.proxy.host if settings.proxy is not None else "",
            asked=self._asked,
        )
        explainer = Explainer(self._judge, self._terminated)
        self._sights = Sights(self.callers, self._connections, self._accounting, explainer)
        self._endpoints = Endpoints(settings.synthetic)
        self._listed: tuple[tuple[str, int], ...] | None = ()
        self._splice: Splice | None = None
        self._loaded: Loaded | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        #: Set once guests and Envoy are answered.
        self.open = asyncio.Event()
        self.callers.listen(self)

    async def run(self) -> None:
        """Serve until cancelled. Raises Unavailable: the warden is gone."""
        if self._settings.credential:
            hide_memory()
        opened, (udp, tcp, own, listed) = await self._warden.open_gateway()
        networks = [ipaddress.IPv4Network(one) for one in opened.networks]
        responder = Responder(
            self._judge,
            udp,
            tcp,
            session=self._session_at,
            refused=self._accounting.refused,
            synthetic=self._endpoints.address,
            asked=self._asked,
        )
        resolver = Resolver(
            own,
            self._warden.vet,
            upstream.servers(self._settings.resolvers),
            self._knows,
            fit=lambda address: self._fit(address, networks),
            refused=self._unresolved,
        )
        splice = self._splice = Splice(
            listed,
            self._judge,
            self._connections,
            self._accounting,
            self._call_at,
            self._endpoints,
            resolver.addresses,
            self._warden.dial,
        )
        path = pathlib.Path(opened.authz)
        credentials = Credentials(opened.credentials)
        refused = Reports(self._delivery.add).refused
        failures = (
            Failures(self._connections, refused, terminated=self._terminated) if self._proxy is not None else None
        )
        authorizer = Authorizer(
            path,
            self._judge,
            self._connections,
            self._accounting,
            self._call_at,
            terminated=self._terminated,
            credentials=credentials,
            failures=failures,
            gid=path.parent.stat().st_gid,
        )
        await authorizer.start()
        try:
            async with asyncio.TaskGroup() as group:
                for work in (responder.run(), resolver.run(), splice.run(), self._delivery.run(), self._look()):
                    group.create_task(work)
                self.open.set()
        finally:
            await authorizer.stop()
            credentials.close()
            await self._connections.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def lead(self, loaded: Loaded | None) -> None:
        """Judge by this bundle from now on, and cut what it refuses."""
        self._loaded = loaded
        self._judge.lead(loaded)
        self._endpoints.lead(loaded.bundle.endpoints if loaded is not None else ())
        if self._splice is not None:
            self._splice.lead()
        if loaded is not None:
            try:
                await self._list_endpoints()
            finally:
                await self._connections.recheck(self._judge)

    async def _list_endpoints(self) -> None:
        """Have the gateway lead here what is listed. What no longer is gets no further than the splice."""
        pairs = self._endpoints.pairs()
        if pairs != self._listed:
            self._listed = None  # until it is known
            await self._warden.list_endpoints(pairs)
            self._listed = pairs

    def opened(self, where: Where) -> None:
        """See callers.Listener."""

    def closed(self, where: Where) -> None:
        """See callers.Listener: what the call has opened is cut."""
        if where.call is not None:
            self._spawn(self._connections.ended(where.call.exec_id))

    def gone(self, sandbox_id: str) -> None:
        """See callers.Listener."""
        self._connections.gone(sandbox_id)

    async def _look(self) -> None:
        """Show what is asked for, until cancelled. Raises Unavailable: the warden is gone."""
        looked, sight = 0, None
        while True:
            try:
                due = await self._warden.next_look(looked, sight)
            except InvalidArgument as large:
                _log.error("what was seen fits into no packet", error=str(large))
                due = await self._warden.next_look(looked, None)
            try:
                looked, sight = due.number, self._sights.of(due, self._loaded)
            except Exception:  # noqa: BLE001 - who asks is told that there is nothing to see, and what judges goes on
                _log.exception("a look failed")
                looked, sight = due.number, None

    def _call_at(self, address: str, name: str = "") -> Call | None:
        where = self.callers.at(address)
        return where.of(canonical_name(name) or name).call if where is not None else None

    def _session_at(self, address: str) -> str:
        call = self._call_at(address)
        return call.session_id if call is not None else ""

    def _knows(self, name: str) -> bool:
        """Whether the bundle in force lets any call have the name. Where there is a proxy, it alone is looked up."""
        if self._proxy is not None:
            return name == self._proxy.host
        return self._loaded is not None and classify_host(name, self._loaded.engine.tables).get("allowed", False)

    def _fit(self, address: str, networks: list[ipaddress.IPv4Network]) -> bool:
        """Whether names may lead there. The proxy is where the site says, which may be within it."""
        if self._proxy is not None:
            return not _within(address, NEVER_VETTED)
        return public(address) or _within(address, networks)

    def _unresolved(self, name: str, why: str) -> None:
        """An allowed name whose answer is not passed on: it would lead where nobody may go."""
        self._delivery.add(
            Connection(
                time_us=now_us(),
                state="refused",
                layer="dns",
                name=name[:500],
                rules=("egress.address.private.deny",),
                reason=why[:1000],
            )
        )

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _within(address: str, networks: Sequence[ipaddress.IPv4Network]) -> bool:
    with contextlib.suppress(ValueError):
        return any(ipaddress.IPv4Address(address) in network for network in networks)
    return False
