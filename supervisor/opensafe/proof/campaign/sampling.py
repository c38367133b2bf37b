"""Oracles that are asked again and again while a batch runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable


@contextlib.asynccontextmanager
async def sampled(seconds: float, look: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Look at once, and so often while it lasts. What a look raises is raised at the end: it saw nothing since."""
    ended = asyncio.Event()

    async def sampling() -> None:
        while not ended.is_set():
            await look()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), seconds)

    task = asyncio.create_task(sampling())
    try:
        yield
    finally:
        ended.set()
        await task
