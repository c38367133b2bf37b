"""A host as the driver sees it: its actors, how many claims it takes, and whether it is there."""

import asyncio
import re
from typing import Any, Final

import msgspec
import ray
from ray.exceptions import (
    ActorUnschedulableError,
    NodeDiedError,
    ObjectLostError,
    OwnerDiedError,
    RayActorError,
    TaskUnschedulableError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from opensafe.errors import LimitExceeded, OpenSafeError, Unavailable

from ._actor import HostActor
from ._sent import HostLost

#: What Ray raises where the actor or its node is gone. An exception of the actor's code is none of them.
GONE: Final = (
    ActorUnschedulableError,
    NodeDiedError,
    ObjectLostError,
    OwnerDiedError,
    RayActorError,
    TaskUnschedulableError,
    WorkerCrashedError,
)
#: How the daemon says that it is full; other limits are the request's own.
_FULL: Final = re.compile(r"caps\.(?:sandboxes|sessions_per_principal) = \d+")
_ACTORS_IN_A_ROW: Final = 3
#: Claims that end in order before a host that was full is tried with one more.
_PROBE_AFTER: Final = 8


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """How actors are made. resource: "" for none. start_s: seconds until one must answer."""

    pool_id: str
    principal: str | None
    resource: str
    actors: int
    start_s: float


class Host:
    """One node. slots: most claims at once; `limit` is less where the daemon said that it is full."""

    def __init__(self, node_id: str, name: str, slots: int, units: float, placement: Placement) -> None:
        """units: how much of the resource all its actors take."""
        self.node_id, self.name, self.slots = node_id, name, slots
        self.limit, self.used = slots, 0
        self.why_lost = ""
        self._units = units
        self._placement = placement
        self._actors: list[Any] = []
        self._next = 0
        self._well = 0
        self._replacing = asyncio.Lock()

    @property
    def lost(self) -> bool:
        """Whether it takes no claims any more."""
        return self.why_lost != ""

    @property
    def free(self) -> int:
        """How many more claims it takes."""
        return 0 if self.lost else max(0, self.limit - self.used)

    async def start(self) -> None:
        """Raises HostLost where no actor comes up, or no daemon answers."""
        self._actors = [None] * self._placement.actors
        try:
            await asyncio.gather(*(self._replace(at, None) for at in range(self._placement.actors)))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill the actors."""
        for actor in self._actors:
            if actor is not None:
                ray.kill(actor, no_restart=True)
        self._actors = []

    def lose(self, why: str) -> None:
        """It takes no claims any more. The first reason stays."""
        self.why_lost = self.why_lost or why
        self.stop()

    def pick(self) -> int:
        """The actor for the next claim, in turn."""
        self._next = (self._next + 1) % self._placement.actors
        return self._next

    def full(self, error: LimitExceeded) -> bool:
        """Whether the daemon said that it is full; then the host takes no more claims than it has, without this one."""
        if not _FULL.search(error.limit):
            return False
        self.limit, self._well = max(1, self.used - 1), 0
        return True

    def went_well(self) -> None:
        """A claim ended in order: after some of them, one more is tried."""
        self._well += 1
        if self._well >= _PROBE_AFTER and self.limit < self.slots:
            self.limit, self._well = self.limit + 1, 0

    async def ask(self, at: int, method: str, *arguments: Any, again: str = "") -> Any:  # noqa: ANN401 - the method's
        """What the host's actor answers; an actor that is gone is replaced, and asked the same again.

        again: name of a keyword that tells the actor so. Raises HostLost, and what the actor answers with.
        """
        for attempt in range(_ACTORS_IN_A_ROW):
            if self.lost:
                raise self._gone(sent=attempt > 0)
            actor = self._actors[at]
            told = {again: attempt > 0} if again else {}
            try:
                answer = await getattr(actor, method).remote(*arguments, **told)
            except GONE:
                await self._replace(at, actor)
                continue
            if isinstance(answer, Unavailable):  # it was tried again for long enough
                self.lose(str(answer))
                raise self._gone() from answer
            if isinstance(answer, OpenSafeError):
                raise answer
            return answer
        self.lose(f"{_ACTORS_IN_A_ROW} actors in a row were lost in one request")
        raise self._gone()

    def tell(self, at: int, method: str, *arguments: Any) -> None:  # noqa: ANN401 - as ask
        """Ask without waiting for the answer."""
        if not self.lost:
            getattr(self._actors[at], method).remote(*arguments)

    async def _replace(self, at: int, broken: Any) -> None:  # noqa: ANN401 - an actor's handle
        async with self._replacing:
            if self.lost:
                raise self._gone()
            if self._actors[at] is not broken:
                return
            if broken is not None:
                ray.kill(broken, no_restart=True)
            made = self._actors[at] = self._make()
            try:
                hello = await asyncio.wait_for(made.hello.remote(), self._placement.start_s)
            except (*GONE, TimeoutError) as error:
                self.lose(f"no actor starts there: {type(error).__name__}: {str(error)[:300]}")
                raise self._gone() from error
            if isinstance(hello, OpenSafeError):
                self.lose(str(hello))
                raise self._gone() from hello

    def _make(self) -> Any:  # noqa: ANN401 - an actor's handle
        placement = self._placement
        units = self._units / placement.actors  # more than one of anything must be a whole number
        share = {placement.resource: int(units) if units > 1 else units} if placement.resource else {}
        options = ray.remote(HostActor).options(
            num_cpus=0,
            resources=share,
            scheduling_strategy=NodeAffinitySchedulingStrategy(self.node_id, soft=False),
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=2 * self.slots + 8,
        )
        return options.remote(placement.principal)

    def _gone(self, *, sent: bool = True) -> HostLost:
        error = HostLost(f"the host {self.name} is lost: {self.why_lost}", value=self.node_id)
        error.sent = sent
        return error
