import random

import pytest

from opensafe.bench.timing import Times


def test_percentiles_are_times_that_were_measured():
    nanoseconds = [rank * 1_000_000 for rank in range(1, 201)]
    random.Random(1).shuffle(nanoseconds)
    times = Times.of(nanoseconds)
    assert (times.count, times.p50_ms, times.p95_ms, times.p99_ms) == (200, 100.0, 190.0, 198.0)


@pytest.mark.parametrize(("count", "p50", "p95"), [(1, 1, 1), (2, 1, 2), (3, 2, 3), (20, 10, 19), (21, 11, 20)])
def test_few_times_have_percentiles_too(count, p50, p95):
    times = Times.of([rank * 1_000_000 for rank in range(1, count + 1)])
    assert (times.p50_ms, times.p95_ms) == (p50, p95)
