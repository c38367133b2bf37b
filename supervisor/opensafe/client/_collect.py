"""A call's events folded into one result of bounded size."""

from contextlib import aclosing

from opensafe.errors import Unavailable

from ._calls import Call
from ._events import CallResult, Decided, Ended, Event, Gap, Stderr, Stdout


async def collect(call: Call, limit: int) -> CallResult:
    """The whole call; see Collector. Raises what its events raise."""
    collector = Collector(limit)
    result: CallResult | None = None
    async with aclosing(call):
        async for event in call:
            result = collector.add(event) or result
    if result is None:
        raise Unavailable("the daemon ended the stream without an outcome")
    return result


class Collector:
    """Folds events into a CallResult, keeping at most `limit` bytes of each stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._verdict: Decided | None = None
        self._kept = {Stdout: bytearray(), Stderr: bytearray()}
        self._seen = {Stdout: 0, Stderr: 0}
        self._missed = 0

    def add(self, event: Event) -> CallResult | None:
        """Take one event; the result with the last. Raises Unavailable for an outcome without a verdict."""
        match event:
            case Stdout() | Stderr():
                kept = self._kept[type(event)]
                kept += event.data[: self._limit - len(kept)]
                self._seen[type(event)] += len(event.data)
            case Gap(start, end):
                self._missed += end - start
            case Decided():
                self._verdict = event
            case Ended():
                if self._verdict is None:
                    raise Unavailable("the daemon reported an outcome without a verdict")
                stdout, stderr = bytes(self._kept[Stdout]), bytes(self._kept[Stderr])
                return CallResult(
                    verdict=self._verdict.verdict,
                    outcome=event.outcome,
                    stdout=stdout,
                    stderr=stderr,
                    stdout_dropped=self._seen[Stdout] - len(stdout),
                    stderr_dropped=self._seen[Stderr] - len(stderr),
                    missed=self._missed,
                )
        return None
