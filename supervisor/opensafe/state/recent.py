"""How often something happened within the last minutes, without a list of when: a ring of buckets.

A ring of N buckets counts an event for at least its span and at most one bucket longer, and never holds more than
N + 1 numbers, however many events there are.
"""

import msgspec

_MINUTE_US = 60 * 10**6


class Ring(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts by bucket: `counts[i]` belongs to the bucket numbered `starts[i]` (time // width), ascending."""

    starts: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    def add(self, bucket: int, kept: int) -> "Ring":
        """One event in `bucket`; buckets more than `kept` behind the newest are forgotten."""
        newest = max(bucket, self.starts[-1]) if self.starts else bucket
        merged = dict(zip(self.starts, self.counts, strict=True))
        merged[bucket] = merged.get(bucket, 0) + 1
        alive = sorted((start, count) for start, count in merged.items() if start >= newest - kept)
        return Ring(tuple(start for start, _ in alive), tuple(count for _, count in alive))

    def since(self, bucket: int) -> int:
        """Events in `bucket` and later."""
        return sum(count for start, count in zip(self.starts, self.counts, strict=True) if start >= bucket)


class Recent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session's calls within a minute (buckets of a second) and blocks within ten (buckets of ten seconds)."""

    calls: Ring = Ring()
    blocks: Ring = Ring()

    def with_call(self, time_us: int) -> "Recent":
        """A call was judged."""
        return msgspec.structs.replace(self, calls=self.calls.add(time_us // _CALLS_US, _CALLS))

    def with_block(self, time_us: int) -> "Recent":
        """It was blocked."""
        return msgspec.structs.replace(self, blocks=self.blocks.add(time_us // _BLOCKS_US, _BLOCKS))

    def window(self, now_us: int) -> dict[str, int]:
        """Under the keys of SessionInput.window."""
        return {
            "calls_1m": self.calls.since(now_us // _CALLS_US - _CALLS),
            "blocks_10m": self.blocks.since(now_us // _BLOCKS_US - _BLOCKS),
        }


_CALLS, _CALLS_US = 60, _MINUTE_US // 60
_BLOCKS, _BLOCKS_US = 60, 10 * _MINUTE_US // 60
