"""What several probes stand on and not all: made when first asked for, and gone before what all of them stand on.

Whoever asks may stop waiting, for which nobody else's is lost: it is made by a task of its own, and that must not still
make something while the rest is being taken down.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Self, TypeVar

_Kept = TypeVar("_Kept")


class Keeping:
    """Things by their names."""

    def __init__(self, stack: contextlib.AsyncExitStack) -> None:
        self._stack = stack
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """All that is kept is gone afterwards. Raises what taking it down does."""
        async with contextlib.AsyncExitStack() as stack:
            keeping = cls(stack)
            try:
                yield keeping
            finally:
                await keeping._settled()

    async def kept(self, name: str, make: Callable[[], AbstractAsyncContextManager[_Kept]]) -> _Kept:
        """The one of this name. Raises what making it did, for everybody who asks."""
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._stack.enter_async_context(make()), name=name)
        made: _Kept = await asyncio.shield(self._tasks[name])
        return made

    async def _settled(self) -> None:
        """Nothing is being made any more."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
