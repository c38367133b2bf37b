"""What has to be on disk: files replaced whole or not at all, and the thread that waits so that no loop has to.

A thread with a queue and no executor: an executor's futures, locks and callbacks cost the loop more than the wait does.
"""

import asyncio
import os
import pathlib
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


def replace_file(path: pathlib.Path, content: bytes, *, mode: int, group: int | None = None) -> None:
    """Make `content` the file `path`, on disk when this returns; whoever reads it sees the one before or this.

    One writer at a time: it is written as `.NAME.new` first. group: of the file, which then belongs to root. Raises
    OSError.
    """
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if group is not None:
                os.fchown(descriptor, 0, group)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)  # what was written of it takes the room that is missing
        raise
    sync_directory(path.parent)


def sync_directory(directory: pathlib.Path) -> None:
    """Put on disk which files a directory has, which syncing the files does not. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
