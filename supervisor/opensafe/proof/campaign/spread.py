"""Batches spread over places that each run one at a time: who loses a worker gives its batch to whoever is free."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from opensafe.errors import HostUnsuitable, LimitExceeded, OpenSafeError

from .batch import Batch, Done
from .leases import Leases


class WorkerLostError(OpenSafeError):
    """A worker is gone, or does not answer in time."""

    reason = "WORKER_LOST"


class PlaceLostError(OpenSafeError):
    """No worker can be had there any more, or one could not remove what it made."""

    reason = "PLACE_LOST"


class Place(Protocol):
    """Where a worker runs. What it raises but WorkerLostError ends its part."""

    async def run(self, batch: Batch) -> Done:
        """Raises WorkerLostError, PlaceLostError."""

    async def replace(self, why: str) -> None:
        """Have another worker. Raises PlaceLostError."""

    async def end(self) -> None:
        """Remove what was made there. Raises PlaceLostError."""


@contextlib.asynccontextmanager
async def ending(places: Sequence[Place]) -> AsyncIterator[None]:
    """End all of them afterwards, each whatever becomes of the others. Raises what the first could not do."""
    try:
        yield
    finally:
        ended = await asyncio.gather(*(place.end() for place in places), return_exceptions=True)
    for error in ended:
        if error is not None:
            raise error


async def spread(batches: Sequence[Batch], places: Sequence[Place]) -> AsyncIterator[Done]:
    """Each once, as they end. Raises HostUnsuitable where no place is left, or one batch costs worker after worker."""
    leases = Leases(batches)
    ended: asyncio.Queue[Done | Exception] = asyncio.Queue()
    changed = asyncio.Condition()

    async def work(place: Place) -> None:
        while leases.open:
            lease = leases.take()
            if lease is None:
                async with changed:
                    await changed.wait_for(lambda: not leases.open or leases.waiting)
                continue
            try:
                done = await place.run(lease.batch)
                if leases.end(lease, done):
                    ended.put_nowait(done)
            except WorkerLostError as error:
                leases.lost(lease)
                async with changed:
                    changed.notify_all()
                await place.replace(str(error))
            except BaseException:
                leases.lost(lease)
                raise
            finally:
                async with changed:
                    changed.notify_all()

    async def working(place: Place) -> None:
        try:
            await work(place)
        except Exception as error:  # noqa: BLE001 - told to whoever waits for batches
            ended.put_nowait(error)

    tasks = [asyncio.create_task(working(place)) for place in places]
    try:
        left, alive = len(batches), len(tasks)
        while left:
            one = await ended.get()
            if isinstance(one, Done):
                left -= 1
                yield one
                continue
            alive -= 1
            if not isinstance(one, OpenSafeError):
                raise one
            # The others would wait for a batch that nobody gives away any more.
            if isinstance(one, LimitExceeded) or not alive:
                raise HostUnsuitable("no worker is left for all batches", value=one) from one
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
