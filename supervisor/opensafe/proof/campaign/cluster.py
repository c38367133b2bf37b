"""The engine over a Ray cluster: a worker on each of its nodes, and batches leased to them.

A worker that is killed is replaced on its node, where the next one first removes what it left; its batch goes to
whoever is free. Needs opensafe[ray].
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Self

import msgspec

from opensafe.errors import HostUnsuitable, InvalidArgument

try:
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise InvalidArgument("this engine needs Ray", remedy="pip install 'opensafe[ray]'") from error

from .batch import Batch, Done
from .minimise import Minimal
from .oracles import Oracle
from .selfcheck import SelfCheck
from .spread import PlaceLostError, WorkerLostError, ending, spread
from .worker import Checked, Cut, Ended, Fault, Said, Worker

#: Nodes that have it are used, and only those; of a cluster where none has it, every node.
RESOURCE: Final = "opensafe"
_BEGIN_S: Final = 180.0
_BATCH_S: Final = 600.0
#: One that has just begun is through with that first.
_END_S: Final = 180.0
#: Workers that one place may lose in a campaign.
_LOSSES: Final = 5


class Place:
    """Where a worker runs. losses: workers that it lost."""

    def __init__(self, node: dict[str, Any], seed: int) -> None:
        self.name = f"{node['NodeManagerHostname']}/{node['NodeID'][:8]}"
        self.losses = 0
        self.checks: tuple[SelfCheck, ...] = ()
        self._node, self._seed = node["NodeID"], seed
        self._notes = f"{seed}.{node['NodeID'][:8]}"
        self._worker: Any = None

    async def begin(self) -> None:
        """A worker that has raised every planted breach. Raises PlaceLostError."""
        where = NodeAffinitySchedulingStrategy(self._node, soft=False)
        while True:
            self._worker = ray.remote(Worker).options(
                num_cpus=0, scheduling_strategy=where, max_restarts=0, max_task_retries=0, max_concurrency=4
            ).remote(self._notes)  # fmt: skip
            try:
                said = await self._ask(_BEGIN_S, "begin", self._seed)
            except WorkerLostError as error:
                await self.replace(str(error), begin=False)
                continue
            if not isinstance(said, Checked):
                raise PlaceLostError(f"{self.name}: {said}")
            self.checks = tuple(
                msgspec.structs.replace(check, name=f"{self.name}: {check.name}") for check in said.checks
            )
            if not all(check.raised for check in self.checks):
                raise PlaceLostError(f"{self.name}: a planted breach was not raised")
            return

    async def replace(self, why: str, *, begin: bool = True) -> None:
        """Give the worker up and have another. Raises PlaceLostError."""
        self.losses += 1
        self.kill()
        if self.losses > _LOSSES:
            raise PlaceLostError(f"{self.name} lost {self.losses} workers, the last to {why}")
        if begin:
            await self.begin()

    async def run(self, batch: Batch) -> Done:
        """Raises WorkerLostError where the worker is gone, PlaceLostError where it can't."""
        said = await self._ask(_BATCH_S, "run", msgspec.json.encode(batch))
        if not isinstance(said, Ended):
            raise PlaceLostError(f"{self.name}: {said}")
        return said.done

    async def minimise(self, batch: Batch, oracle: Oracle) -> Minimal | None:
        """As `run`; None where it can't."""
        said = await self._ask(_BATCH_S, "minimise", msgspec.json.encode(batch), int(oracle))
        return said.minimal if isinstance(said, Cut) else None

    async def end(self) -> None:
        """Let the worker remove what it made. Raises PlaceLostError where it can't; one that is gone says nothing."""
        if self._worker is not None:
            said: Said = Checked(())
            with contextlib.suppress(WorkerLostError):
                said = await self._ask(_END_S, "end")
            self.kill()
            if isinstance(said, Fault):
                raise PlaceLostError(f"{self.name} keeps what was made there: {said.message}")

    def kill(self) -> None:
        """Whatever it does."""
        with contextlib.suppress(RayError):
            ray.kill(self._worker, no_restart=True)

    async def _ask(self, seconds: float, method: str, *arguments: Any) -> Said:  # noqa: ANN401 - the method's
        answer = getattr(self._worker, method).remote(*arguments)
        try:
            said = await asyncio.wait_for(asyncio.wrap_future(answer.future()), seconds)
        except (RayError, TimeoutError) as error:
            raise WorkerLostError(f"{method}: {type(error).__name__}") from error
        decoded: Said = msgspec.json.decode(said, type=Said)
        return decoded


class Cluster:
    """Batches on the cluster that this process is connected to. Made by `open`."""

    def __init__(self, places: list[Place]) -> None:
        self.places = places

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, seed: int, address: str | None = None) -> AsyncIterator[Self]:
        """Connect (RAY_ADDRESS, or a cluster of this machine's own, where no address is given), and find the nodes."""
        connected = ray.is_initialized()
        if not connected:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            nodes = [node for node in await asyncio.to_thread(ray.nodes) if node["Alive"]]
            chosen = [node for node in nodes if node["Resources"].get(RESOURCE, 0) > 0] or nodes
            engine = cls([Place(node, seed) for node in chosen])
            async with ending(engine.places):
                yield engine
        finally:
            if not connected:
                ray.shutdown()

    async def selfcheck(self, seed: int, done: Callable[[SelfCheck], None] = lambda _: None) -> tuple[SelfCheck, ...]:
        """See Engine: on every node. Raises HostUnsuitable where nothing can be run on one."""
        del seed  # each place knows it, for the workers that come later
        ended = await asyncio.gather(*(place.begin() for place in self.places), return_exceptions=True)
        faults = [str(error) for error in ended if isinstance(error, PlaceLostError)]
        for error in ended:
            if isinstance(error, BaseException) and not isinstance(error, PlaceLostError):
                raise error
        if not self.places or faults:
            raise HostUnsuitable("a node can't run batches", value="; ".join(faults) or "there is no node")
        checks = tuple(check for place in self.places for check in place.checks)
        for check in checks:
            done(check)
        return checks

    def run(self, batches: Sequence[Batch]) -> AsyncIterator[Done]:
        """See Engine."""
        return spread(batches, self.places)

    async def minimise(self, batch: Batch, oracle: Oracle) -> Minimal | None:
        """See Engine: on one of the nodes."""
        for place in self.places:
            with contextlib.suppress(WorkerLostError):
                return await place.minimise(batch, oracle)
        return None
