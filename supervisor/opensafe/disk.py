"""The thread that waits for the disk, so that the event loop does not.

A thread with a queue and no executor: an executor's futures, locks and callbacks cost the loop more than the wait does.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Iterable


class Disk:
    """One sync after the other. `done` hears in the event loop how each ended; `close` ends the thread."""

    def __init__(self, done: Callable[[OSError | None], None], name: str) -> None:
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._wanted: queue.SimpleQueue[tuple[int, list[int]] | None] = queue.SimpleQueue()
        # A daemon: a file that nobody closed, after a fault, must not keep the process from its end.
        self._thread = threading.Thread(target=self._work, name=f"sync-{name}", daemon=True)
        self._thread.start()

    def sync(self, current: int, full: list[int]) -> None:
        """Put files on disk, and close those that are `full`."""
        self._wanted.put((current, full))

    def close(self) -> None:
        """Wait for the sync under way, and end the thread."""
        self._wanted.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            self._loop.call_soon_threadsafe(self._done, _sync(*wanted))


def _sync(current: int, full: Iterable[int]) -> OSError | None:
    try:
        for descriptor in (*full, current):
            os.fdatasync(descriptor)
    except OSError as error:
        return error
    finally:
        for descriptor in full:
            os.close(descriptor)
    return None
