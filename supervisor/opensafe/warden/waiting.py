"""Waiting for a descriptor. Apart from process.py, because the front's side of the connection waits too, and nothing
that starts programs may be within its reach.
"""

import asyncio


def settle(future: asyncio.Future[None]) -> None:
    """Set the result of a future that may have been cancelled."""
    if not future.done():
        future.set_result(None)


async def readable(descriptor: int) -> None:
    """Wait until `descriptor` is readable, which for a pidfd means that its process has ended."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
