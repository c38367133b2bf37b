"""The actor on a node of a Ray cluster: a site and a daemon there, and the batches it is given, one at a time.

What it says are bytes that the driver decodes; what goes wrong is an answer and not an exception, which Ray would wrap.
"""

import asyncio
import contextlib
import pathlib
from typing import Final

import msgspec

from opensafe.errors import OpenSafeError

from .batch import Batch, Done
from .local import Local
from .minimise import Minimal
from .notes import Notes, sweep_abandoned
from .oracles import Oracle
from .selfcheck import SelfCheck

_DIRECTORY: Final = pathlib.Path("/run")
_NOTES: Final = "opensafe-campaign."


class Fault(msgspec.Struct, frozen=True, tag=True):
    """Why there is no answer."""

    message: str


class Checked(msgspec.Struct, frozen=True, tag=True):
    """The breaches that were planted there."""

    checks: tuple[SelfCheck, ...]


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A batch."""

    done: Done


class Cut(msgspec.Struct, frozen=True, tag=True):
    """What is needed of a batch."""

    minimal: Minimal | None


Said = Checked | Ended | Cut | Fault


class Worker:
    """One event loop. name: of its place, under which it leaves notes of what it makes."""

    def __init__(self, name: str) -> None:
        self._notes = _DIRECTORY / f"{_NOTES}{name}"
        self._stack = contextlib.AsyncExitStack()
        self._local: Local | None = None
        #: An end that is asked for while it begins comes after that, and so finds all that there is to remove.
        self._turn = asyncio.Lock()

    async def begin(self, seed: int) -> bytes:
        """Remove what workers left that died here, open the site, plant the breaches."""
        async with self._turn:
            try:
                await sweep_abandoned(self._notes.parent, _NOTES)
                notes = self._stack.enter_context(Notes.open(self._notes))
                self._local = await self._stack.enter_async_context(Local.open(1, notes))
                return msgspec.json.encode(Checked(await self._local.selfcheck(seed)))
            except (OpenSafeError, OSError) as error:
                return _fault(error)

    async def run(self, batch: bytes) -> bytes:
        """One batch."""
        if self._local is None:
            return msgspec.json.encode(Fault("the worker has not begun"))
        return msgspec.json.encode(Ended(await self._local.one(msgspec.json.decode(batch, type=Batch))))

    async def minimise(self, batch: bytes, oracle: int) -> bytes:
        """As Local does."""
        if self._local is None:
            return msgspec.json.encode(Fault("the worker has not begun"))
        try:
            return msgspec.json.encode(
                Cut(await self._local.minimise(msgspec.json.decode(batch, type=Batch), Oracle(oracle)))
            )
        except (OpenSafeError, OSError) as error:
            return _fault(error)

    async def end(self) -> bytes:
        """Remove all that it made, and its notes."""
        async with self._turn:
            try:
                await self._stack.aclose()
                self._notes.unlink(missing_ok=True)
            except (OpenSafeError, OSError) as error:
                return _fault(error)
        return msgspec.json.encode(Checked(()))


def _fault(error: Exception) -> bytes:
    return msgspec.json.encode(Fault(f"{type(error).__name__}: {error}"))
