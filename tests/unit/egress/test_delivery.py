"""Verdicts and ends on their way to the record, where more come than it takes."""

import asyncio
from collections import Counter
from collections.abc import Callable

from opensafe.egress.delivery import Delivery
from opensafe.egress.reports import Reports
from opensafe.errors import LimitExceeded
from opensafe.model.connection import Connection

FULL = 8192


def one(state, sandbox="sbx-1", **more):
    return Connection(time_us=1, state=state, sandbox_id=sandbox, **more)


class Front:
    """Takes what is sent; `full`: it has no room the first time."""

    def __init__(self, *, full=False):
        self.full = full
        self.took = []
        self._more = asyncio.Event()

    async def send(self, batch):
        if self.full:
            self.full = False
            raise LimitExceeded("full", value=1, limit=1, remedy="Later.")
        self.took.extend(batch)
        self._more.set()

    async def until(self, delivery, count):
        """What was taken, once there is so much of it."""
        running = asyncio.create_task(delivery.run())
        async with asyncio.timeout(20):
            while len(self.took) < count:
                self._more.clear()
                await self._more.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return self.took


async def test_what_was_let_out_and_what_it_moved_is_on_record_however_many_refusals_wait():
    front = Front()
    delivery = Delivery(front.send)
    for _ in range(FULL + 5):
        delivery.add(one("refused", count=2))
    for state in ("allowed", "ended", "cut"):
        delivery.add(one(state, sent=7))
    sent = await front.until(delivery, FULL + 4)
    assert Counter(each.state for each in sent) == {"refused": FULL + 1, "allowed": 1, "ended": 1, "cut": 1}
    assert sum(each.count for each in sent if each.state == "refused") == 2 * (FULL + 5)


async def test_it_is_behind_while_much_waits_and_not_when_it_was_taken():
    front = Front()
    delivery = Delivery(front.send)
    assert not delivery.behind()
    for _ in range(FULL // 2):
        delivery.add(one("allowed"))
    assert delivery.behind()
    await front.until(delivery, FULL // 2)
    assert not delivery.behind()


async def test_what_there_is_no_room_for_now_is_sent_again():
    front = Front(full=True)
    delivery = Delivery(front.send)
    delivery.add(one("ended"))
    assert [each.state for each in await front.until(delivery, 1)] == ["ended"]


def test_a_sandbox_that_is_refused_in_many_ways_hides_no_others_refusals_and_is_named():
    told: list[Connection] = []
    timers: list[Callable[[], None]] = []
    reports = Reports(told.append, later=lambda _, then: timers.append(then))
    for number in range(3000):
        reports.refused(one("refused", "loud", name=f"{number}.test"))
    reports.refused(one("refused", "quiet", name="evil.test"))
    assert told[-1].name == "evil.test"
    assert Counter(each.sandbox_id for each in told) == {"loud": 64, "quiet": 1}
    timers[0]()
    assert [(each.sandbox_id, each.count, each.name) for each in told[65:]] == [("loud", 3000 - 64, "")]
    reports.refused(one("refused", "loud", name="next.test"))
    assert told[-1].name == "next.test"
