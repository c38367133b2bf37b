"""Proofs that records stand in the log that was signed, for those who may see the records. One at a time."""

import asyncio
import pathlib
from functools import partial

import msgspec

from opensafe.audit.proofs import checkpoint_of
from opensafe.audit.tiles import Tiles
from opensafe.errors import Conflict, Unavailable
from opensafe.model.calls import Principal

from .lookup import Lookup


class Proofs:
    """One for all principals: it keeps the tree that proofs are read from."""

    def __init__(self, lookup: Lookup, state: pathlib.Path) -> None:
        self._lookup = lookup
        self._state = state
        self._tiles = Tiles(state)
        self._turn = asyncio.Lock()

    async def prove(self, principal: Principal, index: int, gone: asyncio.Event) -> bytes:
        """The proof as JSON. gone: nobody waits for it any more.

        Raises NotFound, Conflict (not signed yet), AuditError, Unavailable.
        """
        wanted = await self._lookup.record(principal, index)
        async with self._turn:
            note, made = await asyncio.to_thread(checkpoint_of, self._state)
            if index >= made.size:
                raise Conflict(
                    "the record is not signed yet",
                    value=index,
                    limit=f"{made.size} records are",
                    remedy="Repeat after audit.checkpoint_s seconds.",
                )
            if self._tiles.size > made.size:
                self._tiles = Tiles(self._state)
            while self._tiles.size < made.size:
                if gone.is_set():
                    raise Unavailable("the proof was broken off")
                await self._lookup.read(principal, partial(self._tiles.extend, made.size))
            proof = await self._lookup.read(principal, partial(self._tiles.prove, wanted, note, made))
        return msgspec.json.encode(proof)
