"""Waiting for a reviewer: the call goes on by itself, somebody may be told of it meanwhile, and time may run out."""

import asyncio
import inspect
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

from opensafe.errors import ReviewPending

from ._run_options import OnReview

Answer = TypeVar("Answer")


async def reviewed(
    going: Coroutine[Any, Any, Answer], parked: ReviewPending, on_review: OnReview | None, seconds: float
) -> Answer:
    """What `going` gives once the review has ended. Raises `parked` where it does not in time."""
    waiter = asyncio.ensure_future(going)
    teller = asyncio.create_task(_tell(on_review, parked), name="opensafe-on-review")
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    try:
        await asyncio.wait((waiter, teller), timeout=_left(end, loop), return_when=asyncio.FIRST_COMPLETED)
        if not waiter.done() and teller.done():
            teller.result()
            await asyncio.wait((waiter,), timeout=_left(end, loop))
        if waiter.done():
            return waiter.result()
        raise parked
    finally:
        waiter.cancel()
        teller.cancel()
        await asyncio.gather(waiter, teller, return_exceptions=True)


def _left(end: float, loop: asyncio.AbstractEventLoop) -> float | None:
    return None if math.isinf(end) else max(0.0, end - loop.time())


async def _tell(on_review: OnReview | None, parked: ReviewPending) -> None:
    if on_review is None:
        return
    if inspect.iscoroutinefunction(on_review):
        await on_review(parked)
        return
    answer = await asyncio.to_thread(on_review, parked)
    if inspect.isawaitable(answer):
        await answer
