"""Leases: no batch is lost with a worker, and none counts twice, however late an answer comes."""

import asyncio

import pytest

from opensafe.errors import HostUnsuitable, LimitExceeded
from opensafe.proof.campaign.batch import Batch, Done
from opensafe.proof.campaign.leases import TRIES, Leases
from opensafe.proof.campaign.spread import PlaceLostError, WorkerLostError, ending, spread


def leases(count=3):
    return Leases(Batch(seed=1, number=number) for number in range(count))


def done(lease):
    return Done(number=lease.batch.number, kind=lease.batch.kind, completed=1)


def test_each_batch_is_given_once_and_ended_once():
    table = leases()
    taken = [table.take() for _ in range(3)]
    assert [lease.batch.number for lease in taken] == [0, 1, 2]
    assert table.take() is None
    assert not table.waiting
    assert [table.end(lease, done(lease)) for lease in taken] == [True] * 3
    assert table.open == 0
    assert not table.end(taken[0], done(taken[0]))


def test_a_batch_whose_worker_is_lost_is_the_next_that_is_given():
    table = leases()
    first, second = table.take(), table.take()
    table.lost(first)
    again = table.take()
    assert again.batch == first.batch
    assert again.number not in (first.number, second.number)
    assert table.open == 3


def test_an_answer_of_a_lease_that_was_given_up_counts_nothing():
    table = leases(1)
    late = table.take()
    table.lost(late)
    assert not table.end(late, done(late))
    now = table.take()
    assert not table.end(late, done(late))
    assert table.open == 1
    assert table.end(now, done(now))
    table.lost(now)  # too late: it has ended
    assert table.take() is None


def test_an_answer_for_another_batch_counts_nothing():
    table = leases()
    first, second = table.take(), table.take()
    assert not table.end(first, done(second))
    assert table.open == 3


def test_a_batch_that_costs_worker_after_worker_is_given_up():
    table = leases(1)
    for _ in range(TRIES):
        table.lost(table.take())
    with pytest.raises(LimitExceeded):
        table.take()


# The same with places that have workers


class Place:
    """costly: a batch that no worker of it survives. losses: of workers, that it bears."""

    def __init__(self, costly=None, losses=100, ends=None):
        self.costly, self.losses, self.ends = costly, losses, ends
        self.ran, self.ended = [], False

    async def run(self, batch):
        await asyncio.sleep(0)
        if batch.number == self.costly:
            raise WorkerLostError("died")
        self.ran.append(batch.number)
        return Done(number=batch.number, kind=batch.kind, completed=1)

    async def replace(self, why):
        self.losses -= 1
        if self.losses < 0:
            raise PlaceLostError(why)

    async def end(self):
        self.ended = True
        if self.ends is not None:
            raise self.ends


async def spread_over(places, count=6):
    async with asyncio.timeout(10):
        return [done.number async for done in spread([Batch(seed=1, number=at) for at in range(count)], places)]


async def test_every_batch_is_run_once_by_whoever_is_free():
    places = [Place(), Place(costly=2), Place(losses=0, costly=0)]
    assert sorted(await spread_over(places)) == list(range(6))
    assert sorted(number for place in places for number in place.ran) == list(range(6))


async def test_nobody_waits_for_a_batch_that_was_given_up():
    with pytest.raises(HostUnsuitable, match="a batch was lost with each worker that had it"):
        await spread_over([Place(costly=0), Place(costly=0)], 1)


async def test_no_place_that_is_left_is_an_error():
    with pytest.raises(HostUnsuitable, match="no worker is left"):
        await spread_over([Place(losses=0, costly=0), Place(losses=0, costly=0)], 1)


async def test_what_nobody_expects_of_a_place_ends_all():
    class Odd(Place):
        async def run(self, batch):
            raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        await spread_over([Odd(), Place()], 1)


async def test_every_place_is_ended_and_the_first_that_can_not_be_is_told():
    places = [Place(), Place(ends=PlaceLostError("full")), Place()]
    with pytest.raises(PlaceLostError, match="full"):
        async with ending(places):
            pass
    assert [place.ended for place in places] == [True] * 3
    with pytest.raises(HostUnsuitable):
        async with ending(places):
            raise HostUnsuitable("what went wrong first")
