"""Both ways run as many programs; what one of them can't ends the measurement."""

import asyncio

import pytest

from opensafe.bench import parallel


def test_both_ways_run_as_many(counter):
    found = asyncio.run(parallel.measure(counter.raw, counter.ours, 2))
    assert found.programs == counter.raws == counter.ours_ == 64
    assert found.ratio == pytest.approx(found.ours_per_s / found.raw_per_s)


def test_a_failure_is_told(counter):
    counter.fails = True
    with pytest.raises(OSError, match="no more"):
        asyncio.run(parallel.measure(counter.raw, counter.ours, 1))


class Counter:
    raws = ours_ = 0
    fails = False

    def raw(self):
        self.raws += 1
        if self.fails:
            raise OSError("no more")

    async def ours(self):
        self.ours_ += 1


@pytest.fixture
def counter():
    return Counter()
