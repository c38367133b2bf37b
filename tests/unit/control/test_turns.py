"""One at a time for each key, also for those who come while others wait."""

import asyncio

from opensafe.control.turns import Turns


async def test_who_comes_while_another_waits_gets_no_turn_beside_it():
    turns, inside, most = Turns(), 0, 0
    order = []

    async def take(name, leave):
        nonlocal inside, most
        async with turns.of("key"):
            inside += 1
            most = max(most, inside)
            order.append(name)
            await leave.wait()
            inside -= 1

    leaves = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(take(number, leaves[number])) for number in range(2)]
    await asyncio.sleep(0)
    leaves[0].set()
    await tasks[0]  # released, and the second has not run yet where it only now becomes its turn
    tasks.append(asyncio.create_task(take(2, leaves[2])))
    for _ in range(5):
        await asyncio.sleep(0)
    assert order == [0, 1]
    for leave in leaves:
        leave.set()
    await asyncio.gather(*tasks)
    assert (order, most) == ([0, 1, 2], 1)


async def test_other_keys_do_not_wait_and_nothing_is_kept():
    turns = Turns()
    async with turns.of("a"), turns.of("b"):
        pass
    assert not turns._locks
