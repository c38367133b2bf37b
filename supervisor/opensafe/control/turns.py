"""One at a time for each key, in the order of asking."""

import asyncio
import weakref


class Turns:
    """Locks by key. One lives as long as somebody holds or awaits it, so no two at once ever have different ones."""

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def of(self, key: str) -> asyncio.Lock:
        """The key's lock, for `async with`."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock
