"""What probes share is made once, and none of it is left where the ground is taken down."""

import asyncio
import contextlib

import pytest

from opensafe.proof.escape.keeping import Keeping


class Shared:
    """Tells when it is made and taken down. way: what its making waits for first."""

    def __init__(self, way=None):
        self.made = self.gone = 0
        self.asked = asyncio.Event()
        self._way = way

    @contextlib.asynccontextmanager
    async def open(self):
        self.asked.set()
        try:
            if self._way is not None:
                await self._way.wait()
            self.made += 1
            yield self
        finally:
            self.gone += 1


async def test_it_is_made_once_for_all_who_ask_and_gone_afterwards():
    one, other = Shared(), Shared()
    async with Keeping.open() as keeping:
        assert await asyncio.gather(*(keeping.kept("one", one.open) for _ in range(3))) == [one] * 3
        assert await keeping.kept("other", other.open) is other
        assert (one.made, one.gone) == (1, 0)
    assert [(shared.made, shared.gone) for shared in (one, other)] == [(1, 1), (1, 1)]


async def test_who_stops_waiting_takes_it_from_nobody():
    way = asyncio.Event()
    shared = Shared(way)
    async with Keeping.open() as keeping:
        asking = asyncio.create_task(keeping.kept("one", shared.open))
        await shared.asked.wait()
        asking.cancel()
        way.set()
        assert await keeping.kept("one", shared.open) is shared
    assert (shared.made, shared.gone) == (1, 1)


async def test_what_is_still_being_made_where_all_is_taken_down_is_ended_first():
    shared = Shared(asyncio.Event())
    async with Keeping.open() as keeping:
        asking = asyncio.create_task(keeping.kept("one", shared.open))
        await shared.asked.wait()
        asking.cancel()
    assert (shared.made, shared.gone) == (0, 1)


async def test_what_cannot_be_made_is_told_to_everybody_who_asks():
    @contextlib.asynccontextmanager
    async def broken():
        raise OSError("no place")
        yield

    async with Keeping.open() as keeping:
        for _ in range(2):
            with pytest.raises(OSError, match="no place"):
                await keeping.kept("one", broken)
