"""Leases: no batch is lost with a worker, and none counts twice, however late an answer comes."""

import pytest

from opensafe.errors import LimitExceeded
from opensafe.proof.campaign.batch import Batch, Done
from opensafe.proof.campaign.leases import TRIES, Leases


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
