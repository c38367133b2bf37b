"""The shortest beginning of a batch, and of its last run, with which an oracle still raises.

By prefix: what a run does may depend on those before it, and what a call does on the calls before it. The oracle is
taken to raise for every longer beginning as well; where that is not so, what comes out is a beginning all the same.
"""

from collections.abc import Awaitable, Callable

import msgspec

from .oracles import Oracle
from .wire import Sequence

Raises = Callable[[dict[int, Sequence]], Awaitable[bool]]
"""Whether these runs, alone in a sandbox of their own, raise what is looked for."""


class Minimal(msgspec.Struct, frozen=True, kw_only=True):
    """runs: those before, by number, and the last, of which `sequence` is what is needed."""

    oracle: Oracle
    runs: tuple[int, ...]
    sequence: Sequence


async def minimise(oracle: Oracle, runs: dict[int, Sequence], raises: Raises) -> Minimal | None:
    """None where all of them together do not raise it again."""
    numbers = list(runs)
    if not numbers or not await raises(runs):
        return None

    async def of_runs(count: int) -> bool:
        return await raises({number: runs[number] for number in numbers[:count]})

    count = await _least(len(numbers), of_runs)
    *before, last = numbers[:count]
    if before and await raises({last: runs[last]}):
        before = []
    calls = runs[last].calls

    async def of_calls(length: int) -> bool:
        cut = Sequence(calls[:length], runs[last].pokes)
        return await raises({**{number: runs[number] for number in before}, last: cut})

    length = await _least(len(calls), of_calls)
    return Minimal(oracle=oracle, runs=(*before, last), sequence=Sequence(calls[:length], runs[last].pokes))


async def _least(most: int, holds: Callable[[int], Awaitable[bool]]) -> int:
    """The least count from 1 for which it holds; it holds for `most`."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if await holds(middle) else (middle, high)
    return high
