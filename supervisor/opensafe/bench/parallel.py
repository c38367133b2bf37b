"""Programs started side by side: how many a second ours ends, beside the raw control socket, batch by batch in turn."""

import asyncio
import concurrent.futures
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

STREAMS: Final = 8
_BATCHES: Final = 4


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """Ends a second over all batches. ratio: ours to raw."""

    streams: int
    programs: int
    ours_per_s: float
    raw_per_s: float
    ratio: float


async def measure(raw: Callable[[], object], ours: Callable[[], Awaitable[object]], each: int) -> Parallel:
    """Eight streams that each run `each` programs, one after the other, four times both ways.

    `raw` blocks, and has a thread a stream. Raises what they raise.
    """
    loop = asyncio.get_running_loop()
    spent = {"raw": 0, "ours": 0}

    def in_thread() -> None:
        for _ in range(each):
            raw()

    async def in_task() -> None:
        for _ in range(each):
            await ours()

    with concurrent.futures.ThreadPoolExecutor(STREAMS) as threads:
        for number in range(2 * _BATCHES):
            way = ("raw", "ours")[(number + number // 2) % 2]  # neither is always the one that follows the other
            begun = time.perf_counter_ns()
            if way == "raw":
                await asyncio.gather(*(loop.run_in_executor(threads, in_thread) for _ in range(STREAMS)))
            else:
                await asyncio.gather(*(in_task() for _ in range(STREAMS)))
            spent[way] += time.perf_counter_ns() - begun
    programs = STREAMS * each * _BATCHES
    return Parallel(
        streams=STREAMS,
        programs=programs,
        ours_per_s=programs * 1e9 / spent["ours"],
        raw_per_s=programs * 1e9 / spent["raw"],
        ratio=spent["raw"] / spent["ours"],
    )
