"""What is looked at while a guest works: a look that fails is told, and does not end the sampling silently."""

import asyncio
import itertools

import pytest

from opensafe.proof.escape.syscall.stand import looking


async def test_it_is_looked_at_again_and_again_while_the_work_is_done():
    looks, third = itertools.count(1), asyncio.Event()

    def look():
        if next(looks) == 3:
            third.set()

    async with looking(look):
        await third.wait()


async def test_what_a_look_raises_is_raised_where_the_work_ends():
    looked = asyncio.Event()

    def look():
        looked.set()
        raise OSError(22, "no mounts")

    with pytest.raises(OSError, match="no mounts"):
        async with looking(look):
            await looked.wait()


async def test_what_the_work_raises_stays_what_is_raised():
    with pytest.raises(KeyError):
        async with looking(lambda: None):
            raise KeyError("work")
