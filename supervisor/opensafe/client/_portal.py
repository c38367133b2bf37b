"""One thread with an event loop, for whoever has none or must not use theirs.

Whoever opened it closes it; where that was forgotten, the end of the program does, and no thread stays behind.
"""

import asyncio
import concurrent.futures
import threading
import warnings
import weakref
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from opensafe.errors import Conflict

Answer = TypeVar("Answer")
_THREAD: Final = "opensafe-client"


class Portal:
    """Coroutines run in its thread, from any other thread; in the order in which they are given."""

    def __init__(self) -> None:
        loop = asyncio.new_event_loop()
        loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(thread_name_prefix=_THREAD))
        thread = threading.Thread(target=_serve, args=(loop,), name=_THREAD, daemon=True)
        self._loop, self._thread = loop, thread
        self._giving = threading.Lock()  # what is given comes before the end, which cancels it, or not at all
        self._forgotten = weakref.finalize(self, _end, loop, thread, forgotten=True)
        thread.start()

    @property
    def open(self) -> bool:
        """Whether it is not closed."""
        return self._forgotten.alive

    def call(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """What it returns or raises. An interrupt of this thread cancels it. Raises Conflict once it is closed."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise Conflict("this is the synchronous API's own event loop", remedy="Use the asynchronous one.")
        with self._giving:
            if not self.open:
                coroutine.close()
                raise Conflict("it is closed", remedy="Open another one.")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Conflict("it was closed meanwhile") from None
        finally:
            future.cancel()

    def close(self) -> None:
        """End the thread. Once is enough."""
        with self._giving:
            mine = self._forgotten.detach() is not None
        if mine:
            _end(self._loop, self._thread)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, *, forgotten: bool = False) -> None:
    if forgotten:
        warnings.warn("a sandbox or session was not closed; its lease will end it", ResourceWarning, stacklevel=2)
    loop.call_soon_threadsafe(loop.stop)
    if not threading.current_thread().name.startswith(_THREAD):  # its end waits for those that it called
        thread.join()
