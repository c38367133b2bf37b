"""Ships each new checkpoint to second places, where root of this host can't take it back.

The front does it, which has no privilege to lose to a network. It looks at `audit/checkpoint` when that is replaced;
the last one is shipped at a start, too. Each destination has a queue of its own, tries again until it succeeds, and
holds up no other and no call: that a destination fails is shown and logged. Where a queue is full the oldest goes: a
later checkpoint vouches for what an earlier one does.
"""

import asyncio
import logging
import pathlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from opensafe.errors import AuditError
from opensafe.model.checkpoint import NoteError, claimed
from opensafe.model.destination import Destination

from .checkpoints import read_note
from .delivery import Courier, DeliveryError

_log = logging.getLogger(__name__)

#: Checkpoints that wait for one destination.
_WAITING: Final = 64
_TRY_S: Final = 10.0
_BACKOFF_FIRST_S: Final = 1.0
_BACKOFF_MAX_S: Final = 60.0


class ShipState(msgspec.Struct, frozen=True, kw_only=True):
    """How one destination stands. size, time_us: of the last checkpoint that it took, 0 for none in this run.

    failures: tries that failed since; then `error` says why. dropped: checkpoints that it will not get.
    """

    destination: str
    size: int
    time_us: int
    failures: int
    error: str
    dropped: int


class Shipping:
    """Ships to all destinations while `run` runs.

    changed: returns when the checkpoint was replaced; False where nothing can come any more.
    """

    def __init__(
        self,
        checkpoint: pathlib.Path,
        destinations: Sequence[Destination],
        changed: Callable[[], Awaitable[bool]],
        ca: str = "",
        *,
        backoff_s: float = _BACKOFF_FIRST_S,
        try_s: float = _TRY_S,
    ) -> None:
        self._checkpoint = checkpoint
        self._changed = changed
        self._offered = b""
        self._ships = [_Ship(one, Courier(one, ca), backoff_s, try_s) for one in destinations]

    @property
    def states(self) -> tuple[ShipState, ...]:
        """How each destination stands."""
        return tuple(ship.state for ship in self._ships)

    async def run(self) -> None:
        """Ship until cancelled."""
        async with asyncio.TaskGroup() as group:
            for ship in self._ships:
                group.create_task(ship.run())
            self._offer()
            while await self._changed():
                self._offer()
            _log.error("no checkpoint is seen any more: the directory %s is gone", self._checkpoint.parent)
            await asyncio.Event().wait()

    def _offer(self) -> None:
        if not self._checkpoint.exists():
            return  # nothing was signed yet
        try:
            note = read_note(self._checkpoint)
            made = claimed(note)
        except (AuditError, NoteError) as error:
            _log.error("the checkpoint can't be shipped: %s", error)
            return
        if note != self._offered:
            self._offered = note
            for ship in self._ships:
                ship.offer(_Waiting(note, made.size, made.time_us))


class _Waiting(msgspec.Struct, frozen=True):
    note: bytes
    size: int
    time_us: int


class _Ship:
    def __init__(self, destination: Destination, courier: Courier, backoff_s: float, try_s: float) -> None:
        self._courier = courier
        self._backoff_s = backoff_s
        self._try_s = try_s
        self._queue: deque[_Waiting] = deque()
        self._some = asyncio.Event()
        self.state = ShipState(destination=str(destination), size=0, time_us=0, failures=0, error="", dropped=0)

    def offer(self, one: _Waiting) -> None:
        if len(self._queue) == _WAITING:
            self._queue.popleft()
            self._set(dropped=self.state.dropped + 1)
        self._queue.append(one)
        self._some.set()

    async def run(self) -> None:
        while True:
            await self._some.wait()
            one = self._queue.popleft()
            if not self._queue:
                self._some.clear()
            await self._ship(one)

    async def _ship(self, one: _Waiting) -> None:
        pause = self._backoff_s
        while (error := await self._try(one)) is not None:
            if not self.state.failures:
                _log.error("checkpoints don't reach %s: %s", self.state.destination, error)
            self._set(failures=self.state.failures + 1, error=error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _BACKOFF_MAX_S)
        if self.state.failures:
            _log.warning("checkpoints reach %s again", self.state.destination)
        self._set(size=one.size, time_us=one.time_us, failures=0, error="")

    async def _try(self, one: _Waiting) -> str | None:
        """Why it failed, if it did."""
        try:
            async with asyncio.timeout(self._try_s):
                await self._courier.deliver(one.note)
        except TimeoutError:
            return f"not done within {self._try_s:g} s"
        except OSError as error:
            return error.strerror or str(error)
        except DeliveryError as error:
            return str(error)
        return None

    def _set(self, **changes: int | str) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)
