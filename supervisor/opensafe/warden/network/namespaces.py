"""One network namespace per sandbox, pinned by a mount: loopback up and nothing else, so there is no way out.

unshare(2) and setns(2) act on a thread. Each operation therefore runs in a thread of its own that ends in
the namespace it was moved to, instead of in a child process or on a pool's thread that would be used again.
"""

import asyncio
import contextlib
import os
import pathlib
import threading
from collections.abc import Callable
from typing import TypeVar

from pyroute2 import IPRoute

from .. import kernel

_LOOPBACK_INDEX = 1
_Result = TypeVar("_Result")


async def create(path: pathlib.Path) -> None:
    """Make a namespace and pin it at `path`, which must not exist. Raises OSError; nothing is left behind then."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_CLOEXEC, 0o400))
    try:
        await in_own_thread(lambda: _make(path))
    except BaseException:
        remove(path)
        raise


def remove(path: pathlib.Path) -> bool:
    """Unpin and remove. Returns whether there was anything; what half exists is removed as well."""
    with contextlib.suppress(OSError):
        kernel.detach_mount(str(path))
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _make(path: pathlib.Path) -> None:
    kernel.unshare_network()
    kernel.bind_mount(f"/proc/self/task/{threading.get_native_id()}/ns/net", str(path))
    with IPRoute() as route:
        route.link("set", index=_LOOPBACK_INDEX, state="up")


async def inside(path: pathlib.Path, work: Callable[[], _Result]) -> _Result:
    """What `work` returns, done in the namespace pinned at `path`. Raises OSError, and what it raises."""

    def entered() -> _Result:
        namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            kernel.enter_network(namespace)
        finally:
            os.close(namespace)
        return work()

    return await in_own_thread(entered)


async def in_own_thread(work: Callable[[], _Result]) -> _Result:
    """What `work` returns, done in a thread that ends with it. Raises what it raises."""
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[_Result] = loop.create_future()

    def body() -> None:
        try:
            result = work()
        except Exception as caught:  # noqa: BLE001 - carried to the awaiting task
            loop.call_soon_threadsafe(_fail, finished, caught)
        else:
            loop.call_soon_threadsafe(_settle, finished, result)

    thread = threading.Thread(target=body, name="netns")
    thread.start()
    try:
        return await asyncio.shield(finished)
    finally:
        thread.join()


def _settle(future: asyncio.Future[_Result], result: _Result) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[_Result], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
