"""Who runs which batch: each is leased to one worker at a time, and only the lease that holds can end it.

So a worker that is lost loses no batch, for the next one gets it; and one that was given up counts none, however late
its answer comes.
"""

import collections
import itertools
from collections.abc import Iterable
from typing import Final

import msgspec

from opensafe.errors import LimitExceeded

from .batch import Batch, Done

#: A batch that costs so many workers their lives is not given to another.
TRIES: Final = 4


class Lease(msgspec.Struct, frozen=True):
    """A batch in one worker's hands. number: never the same twice."""

    number: int
    batch: Batch


class Leases:
    """Those of some batches."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._waiting = collections.deque(batches)
        self._held: dict[int, int] = {}
        self._tries: collections.Counter[int] = collections.Counter()
        self._open = {batch.number for batch in self._waiting}
        self._numbers = itertools.count(1)

    @property
    def open(self) -> int:
        """Batches that have not ended."""
        return len(self._open)

    @property
    def waiting(self) -> bool:
        """Whether there is one to take."""
        return bool(self._waiting)

    def take(self) -> Lease | None:
        """The next one; None while the others have all. Raises LimitExceeded for one that was lost too often."""
        if not self._waiting:
            return None
        batch = self._waiting.popleft()
        self._tries[batch.number] += 1
        if self._tries[batch.number] > TRIES:
            raise LimitExceeded("a batch was lost with each worker that had it", value=batch.number, limit=TRIES)
        lease = Lease(next(self._numbers), batch)
        self._held[batch.number] = lease.number
        return lease

    def lost(self, lease: Lease) -> None:
        """Its worker is gone, or given up: somebody else shall have the batch, and first."""
        if self._held.get(lease.batch.number) == lease.number:
            del self._held[lease.batch.number]
            self._waiting.appendleft(lease.batch)

    def end(self, lease: Lease, done: Done) -> bool:
        """Whether this is the batch's result: it is of a lease that holds."""
        if self._held.get(lease.batch.number) != lease.number or done.number != lease.batch.number:
            return False
        del self._held[lease.batch.number]
        self._open.discard(lease.batch.number)
        return True
