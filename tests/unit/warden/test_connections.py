"""What waits to be put on record: in order, once, and never more than fits."""

import asyncio

import pytest

from opensafe.errors import LimitExceeded
from opensafe.model.connection import Connection
from opensafe.warden.connections import Connections


def made(first, last):
    return [Connection(time_us=number, state="allowed") for number in range(first, last + 1)]


async def numbers(connections, after):
    last, batch = await connections.next(after)
    return last, [one.time_us for one in batch]


async def test_each_is_told_until_it_is_said_to_be_on_record():
    connections = Connections()
    await connections.add(made(1, 3))
    assert await numbers(connections, 0) == (3, [1, 2, 3])
    await connections.add(made(4, 5))
    assert await numbers(connections, 3) == (5, [4, 5])


async def test_a_front_that_starts_anew_is_told_what_the_last_did_not_record():
    connections = Connections()
    await connections.add(made(1, 3))
    assert await numbers(connections, 2) == (3, [3])
    assert await numbers(connections, 0) == (3, [3])


async def test_who_asks_waits_for_the_next():
    connections = Connections()
    await connections.add(made(1, 1))
    waiting = asyncio.create_task(numbers(connections, 1))
    await asyncio.sleep(0)
    await connections.add(made(2, 2))
    assert await waiting == (2, [2])


async def test_many_come_in_batches():
    connections = Connections()
    await connections.add(made(1, 100))
    last, batch = await numbers(connections, 0)
    assert batch == list(range(1, last + 1))
    assert last < 100
    assert (await numbers(connections, last))[1][0] == last + 1


async def test_beyond_the_cap_all_of_a_report_is_refused():
    connections = Connections()
    await connections.add(made(1, 8190))
    with pytest.raises(LimitExceeded) as refused:
        await connections.add(made(8191, 8193))
    assert refused.value.limit == "8192"
    await connections.add(made(8191, 8192))
    assert (await numbers(connections, 8191))[1] == [8192]


async def test_refusals_at_the_first_packet_leave_most_of_the_room_to_connections():
    connections = Connections()
    packets = made(1, 1025)
    assert [connections.offer(one) for one in packets] == [True] * 1024 + [False]
    await connections.add(made(2001, 2001 + 8192 - 1024 - 1))
    with pytest.raises(LimitExceeded):
        await connections.add(made(9999, 9999))
    assert (await numbers(connections, 1024))[1][0] == 2001
    assert not connections.offer(packets[0])
