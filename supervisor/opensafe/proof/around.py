"""What blocks at its beginning and its end, such as a daemon, around an event loop's work: both in threads."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable

from .private import PrivateDaemon


@contextlib.asynccontextmanager
async def around(
    begin: Callable[[], object], end: Callable[[], object], *, always: bool = False
) -> AsyncIterator[None]:
    """Begin, and end afterwards, also what begins while this is cancelled. always: what could not begin as well."""
    beginning = asyncio.ensure_future(asyncio.to_thread(begin))
    try:
        await asyncio.shield(beginning)
        yield
    finally:
        await asyncio.wait((beginning,))
        if always or beginning.exception() is None:
            await asyncio.to_thread(end)


@contextlib.asynccontextmanager
async def running(daemon: PrivateDaemon) -> AsyncIterator[None]:
    """A daemon as its own context manager has it: nothing is left of it. Raises DaemonFailedError."""

    def end() -> None:
        daemon.__exit__(None, error, None)

    error: BaseException | None = None
    async with around(daemon.__enter__, end):
        try:
            yield
        except BaseException:
            error = sys.exception()
            raise
