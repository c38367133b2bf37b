"""Times of one thing done many times, and their percentiles."""

from collections.abc import Sequence
from typing import Final

import msgspec

_NS_PER_MS: Final = 1e6


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles in milliseconds, by nearest rank: each is a time that was measured."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float

    @classmethod
    def of(cls, nanoseconds: Sequence[int]) -> "Times":
        """Of at least one time."""
        ordered = sorted(nanoseconds)
        return cls(
            count=len(ordered),
            p50_ms=_rank(ordered, 50) / _NS_PER_MS,
            p95_ms=_rank(ordered, 95) / _NS_PER_MS,
            p99_ms=_rank(ordered, 99) / _NS_PER_MS,
        )


def _rank(ordered: Sequence[int], percent: int) -> int:
    return ordered[-(-len(ordered) * percent // 100) - 1]
