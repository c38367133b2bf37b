"""The pool: which hosts there are, and which claim goes where.

Nothing in it grows without bound: a host takes as many claims as it has slots, and fewer where its daemon says that it
is full; who finds none free waits, and of those there are only so many.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack
from uuid import uuid4

import msgspec
import ray

from opensafe.client import Lease, Limits, Opening, SandboxOptions
from opensafe.errors import Conflict, InvalidArgument, LimitExceeded, OpenSafeError, Unavailable

from ._actor import CLAIM_LABEL, POOL_LABEL
from ._claim import Claim, carrier
from ._host import Host, Placement
from ._metrics import Metrics
from ._rollouts import RolloutOutcome, run_all
from ._sent import HostLost, NoHostLeft, Place

Item = TypeVar("Item")
Value = TypeVar("Value")

#: Slots of a host that says nothing of how many it has.
SLOTS: Final = 8
#: How long a sandbox outlives the driver that died: until nothing has run in it for so many seconds.
IDLE_S: Final = 900


class HostStats(msgspec.Struct, frozen=True, kw_only=True):
    """A host. used: claims on it. limit: how many it takes now, of its slots. lost: why it takes none, or ""."""

    name: str
    node_id: str
    slots: int
    limit: int
    used: int
    lost: str


class PoolStats(msgspec.Struct, frozen=True, kw_only=True):
    """waiting: claims that wait for a slot. unreleased: sandboxes that could not be deleted; their lease ends them."""

    hosts: tuple[HostStats, ...]
    waiting: int
    unreleased: int


class RolloutPool:
    """Sandboxes on the nodes of the Ray cluster that this process is connected to. Use it as a context manager, in one
    event loop.
    """

    def __init__(
        self,
        agent: str = "agent",
        *,
        resource: str = "opensafe",
        node_labels: Mapping[str, str] | None = None,
        slots: int = 0,
        actors: int = 1,
        principal: str | None = None,
        waiting: int = 1024,
        start_s: float = 60,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        **sandbox: Unpack[SandboxOptions],
    ) -> None:
        """agent: the name in traces and bans. resource: the nodes' custom resource, whose amount is how many sandboxes
        the pool may have there at once, and which it takes; with "" each node with the `node_labels` is asked. slots:
        at most so many a host. actors: on each host. principal: whose socket there. waiting: how many claims may wait.
        start_s: seconds until a host must answer. limits: of each claim's session. sandbox: of each claim.
        """
        _known(sandbox)
        if slots < 0 or actors < 1 or waiting < 0:
            raise InvalidArgument("a pool needs actors, and no negative number of anything")
        self.pool_id = f"pool-{uuid4().hex[:16]}"
        self._agent, self._limits, self._sandbox = agent, limits, sandbox
        self._resource, self._node_labels, self._slots = resource, dict(node_labels or {}), slots
        self._placement = Placement(
            pool_id=self.pool_id, principal=principal, resource=resource, actors=actors, start_s=start_s
        )
        self._hosts: dict[str, Host] = {}
        self._changed = asyncio.Condition()
        self._waiting, self._waiting_max = 0, waiting
        self._unreleased = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._metrics = Metrics(agent)

    async def __aenter__(self) -> Self:
        try:
            await self.discover()
        except BaseException:
            await self.aclose()
            raise
        if all(host.lost for host in self._hosts.values()):
            said = "; ".join(f"{host.name}: {host.why_lost}" for host in self._hosts.values())
            wanted = f"with the resource {self._resource!r}" if self._resource else "that is alive"
            raise Unavailable(
                f"no host answers: {said}" if said else f"Ray has no node {wanted}",
                remedy="Start the daemon on the nodes, and Ray there with --resources='{\"opensafe\": N}'.",
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def discover(self) -> None:
        """Take in hosts that joined, or came back. Each is tried; which of them answered, `stats` says."""
        if not ray.is_initialized():
            raise Conflict("this process is not connected to Ray", remedy="Call ray.init first.")
        found: list[Host] = []
        for node in await asyncio.to_thread(ray.nodes):
            known = self._hosts.get(node["NodeID"])
            if self._wanted(node) and (known is None or known.lost):
                found.append(self._host(node))
        await asyncio.gather(*(self._start(host) for host in found))

    def claim(self, **sandbox: Unpack[SandboxOptions]) -> Opening[Claim]:
        """A sandbox on the host with the most free slots: await it and release it, or `async with` it.

        Raises NoHostLeft, LimitExceeded (too many wait; or the daemons are full with others' sandboxes), Denied,
        SandboxStartFailed, NoWarmSandbox.
        """
        _known(sandbox)
        return Opening(lambda: self._claim(sandbox))

    def map(
        self,
        rollout: Callable[[Claim, Item], Awaitable[Value]],
        items: Iterable[Item] | AsyncIterable[Item],
        *,
        restarts: int = 2,
    ) -> AsyncGenerator[RolloutOutcome[Item, Value], None]:
        """Run `rollout` on each item, each with a claim of its own; outcomes as they come, exactly one for each item.

        As many run as there are slots. An item is taken when there is room for it, and none while outcomes wait to be
        looked at. A rollout whose host or sandbox is lost starts anew, up to `restarts` times, where certainly nothing
        of it was executed; else it is reported as lost, with the calls that were sent. Where no host is left, those
        that were taken are reported and NoHostLeft is raised. Close it (`contextlib.aclosing`) to leave early.
        """
        width = sum(host.slots for host in self._hosts.values() if not host.lost)
        return run_all(self._claim, rollout, items, width=max(1, width), restarts=restarts, ended=self._metrics.ended)

    def stats(self) -> PoolStats:
        """What it is like now."""
        hosts = tuple(
            HostStats(
                name=host.name,
                node_id=host.node_id,
                slots=host.slots,
                limit=host.limit,
                used=host.used,
                lost=host.why_lost,
            )
            for host in self._hosts.values()
        )
        return PoolStats(hosts=hosts, waiting=self._waiting, unreleased=self._unreleased)

    async def aclose(self) -> None:
        """Delete all that it made on the hosts that are there, and end the actors."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(host) for host in self._hosts.values()))

    async def give_back(self, claim: Claim) -> None:
        """Delete a claim's sandbox: what Claim.release does."""
        await asyncio.shield(self._spawn(self._close(claim.host_state, claim.actor, claim.place)))

    async def _claim(self, sandbox: SandboxOptions) -> Claim:
        full: dict[str, LimitExceeded] = {}
        while True:
            host = await self._slot(full)
            at, claim_id = host.pick(), f"claim-{uuid4().hex}"
            opening = asyncio.ensure_future(self._open(host, at, claim_id, sandbox))
            try:
                place = await asyncio.shield(opening)
            except asyncio.CancelledError:
                self._spawn(self._close_opened(host, at, opening))
                raise
            except HostLost:
                await self._free(host)
            except LimitExceeded as error:
                alone = host.used == 1
                taken = host.full(error)
                await self._free(host)
                if not taken:
                    raise
                if alone:
                    full[host.node_id] = error
            except BaseException:
                await self._free(host)
                raise
            else:
                self._metrics.claims(host.name, host.used)
                return Claim(self, host, at, claim_id, place)

    async def _open(self, host: Host, at: int, claim_id: str, sandbox: SandboxOptions) -> Place:
        options: dict[str, Any] = {"lease": Lease(idle_timeout_s=IDLE_S), **self._sandbox, **sandbox}
        options["labels"] = {**options.get("labels", {}), POOL_LABEL: self.pool_id, CLAIM_LABEL: claim_id}
        options["limits"] = self._limits
        place: Place = await host.ask(at, "open", claim_id, self._agent, options, carrier(), again="again")
        return place

    async def _slot(self, full: Mapping[str, LimitExceeded]) -> Host:
        """A host with one more claim counted. full: hosts whose daemon is full without any of ours."""
        async with self._changed:
            while True:
                there = [host for host in self._hosts.values() if not host.lost]
                if not there:
                    raise NoHostLeft("no host of the pool is left", remedy="Start daemons, and call `discover`.")
                usable = [host for host in there if host.node_id not in full]
                if not usable:
                    raise next(iter(full.values()))
                host = max(usable, key=lambda one: one.free)
                if host.free:
                    host.used += 1
                    return host
                if self._waiting >= self._waiting_max:
                    raise LimitExceeded(
                        "too many claims wait", value=self._waiting, limit=self._waiting_max, remedy="Release some."
                    )
                self._waiting += 1
                try:
                    await self._changed.wait()
                finally:
                    self._waiting -= 1

    async def _free(self, host: Host) -> None:
        host.used -= 1
        self._metrics.claims(host.name, host.used)
        async with self._changed:
            self._changed.notify_all()

    async def _close(self, host: Host, at: int, place: Place) -> None:
        try:
            if not host.lost:
                await host.ask(at, "close", place)
                host.went_well()
        except HostLost:
            pass
        except OpenSafeError:
            self._unreleased += 1
        finally:
            await self._free(host)

    async def _close_opened(self, host: Host, at: int, opening: asyncio.Future[Place]) -> None:
        """What nobody waited for."""
        try:
            place = await opening
        except OpenSafeError:
            await self._free(host)
        else:
            await self._close(host, at, place)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """What goes on where its caller is cancelled, and is waited for by `aclose`."""
        task = asyncio.create_task(work, name="opensafe-rollouts")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _wanted(self, node: Mapping[str, Any]) -> bool:
        labels = node.get("Labels", {})
        return (
            node["Alive"]
            and (not self._resource or node["Resources"].get(self._resource, 0) > 0)
            and all(labels.get(name) == value for name, value in self._node_labels.items())
        )

    def _host(self, node: Mapping[str, Any]) -> Host:
        units = float(node["Resources"][self._resource]) if self._resource else 0.0
        most = max(1, int(units)) if self._resource else SLOTS
        slots = min(most, self._slots) if self._slots and self._resource else self._slots or most
        name = f"{node['NodeManagerHostname']}/{node['NodeID'][:8]}"
        return Host(node["NodeID"], name, slots, min(units, slots), self._placement)

    async def _start(self, host: Host) -> None:
        with suppress(HostLost):
            await host.start()
            if host.node_id in self._hosts:  # it was lost with claims
                await host.ask(0, "sweep", self.pool_id)
        self._hosts[host.node_id] = host
        async with self._changed:
            self._changed.notify_all()

    async def _end(self, host: Host) -> None:
        if not host.lost:
            try:
                await asyncio.wait_for(host.ask(0, "sweep", self.pool_id), self._placement.start_s)
            except (OpenSafeError, TimeoutError):
                self._unreleased += 1
        host.lose("the pool is closed")


def _known(options: SandboxOptions) -> None:
    for name in options:
        if name not in SandboxOptions.__annotations__:
            raise TypeError(f"there is no keyword {name!r}")
