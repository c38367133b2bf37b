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

from pyroute2 import IPRoute

from .. import kernel

_LOOPBACK_INDEX = 1


async def create(path: pathlib.Path) -> None:
    """Make a namespace and pin it at `path`, which must not exist. Raises OSError; nothing is left behind then."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_CLOEXEC, 0o400))
    try:
        await _in_own_thread(lambda: _make(path))
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


async def _in_own_thread(work: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[None] = loop.create_future()

    def body() -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as caught:  # noqa: BLE001 - carried to the awaiting task
            error = caught
        loop.call_soon_threadsafe(_settle, finished, error)

    thread = threading.Thread(target=body, name="netns")
    thread.start()
    try:
        await asyncio.shield(finished)
    finally:
        thread.join()


def _settle(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
