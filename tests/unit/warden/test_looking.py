"""Looks at the helper's tables: answered by the helper that is there, and by nobody else."""

import asyncio

import pytest

from opensafe.errors import Unavailable
from opensafe.model.traffic import HostCount, Sight
from opensafe.warden import looking
from opensafe.warden.looking import Lookout
from opensafe.warden.protocol import LookOut

SANDBOX = "sb-00000000000000000001"
SIGHT = Sight(covered=1, hosts=(HostCount(sandbox_id=SANDBOX, name="a.test"),))


def asked(what="hosts"):
    return LookOut(request=1, what=what, sandbox_ids=(SANDBOX,))


async def helper(lookout):
    """The first question of a helper that has come."""
    listening = asyncio.create_task(lookout.next(0, None))
    await asyncio.sleep(0)
    return listening


async def test_the_helper_hears_what_is_asked_and_who_asks_gets_what_it_saw():
    lookout = Lookout()
    listening = await helper(lookout)
    asking = asyncio.create_task(lookout.ask(asked()))
    due = await listening
    assert (due.what, due.sandbox_ids) == ("hosts", (SANDBOX,))
    listening = asyncio.create_task(lookout.next(due.number, SIGHT))
    assert await asking == SIGHT
    asking = asyncio.create_task(lookout.ask(asked("connections")))
    assert (await listening).what == "connections"  # one after the other, each under a number of its own
    asking.cancel()


async def test_where_there_is_no_helper_nobody_waits_for_one():
    with pytest.raises(Unavailable, match="not there"):
        await Lookout().ask(asked())


async def test_a_helper_that_ends_answers_nothing_more():
    lookout = Lookout()
    listening = await helper(lookout)
    asking = asyncio.create_task(lookout.ask(asked()))
    due = await listening
    lookout.ended()
    with pytest.raises(Unavailable, match="not there"):
        await asking
    with pytest.raises(Unavailable, match="not there"):
        await lookout.ask(asked())
    listening = await helper(lookout)  # the next one
    asking = asyncio.create_task(lookout.ask(asked()))
    assert (await listening).number > due.number
    asking.cancel()


async def test_a_late_answer_is_nobodys(monkeypatch):
    monkeypatch.setattr(looking, "_ANSWER_S", 0.01)
    lookout = Lookout()
    listening = await helper(lookout)
    asking = asyncio.create_task(lookout.ask(asked()))
    late = await listening
    with pytest.raises(Unavailable, match="did not answer"):
        await asking
    monkeypatch.setattr(looking, "_ANSWER_S", 60)
    asking = asyncio.create_task(lookout.ask(asked()))
    await asyncio.sleep(0)
    due = await lookout.next(late.number, SIGHT)
    assert not asking.done()
    listening = asyncio.create_task(lookout.next(due.number, Sight(covered=1)))
    assert (await asking).hosts == ()
    listening.cancel()


async def test_what_could_not_be_looked_at_is_told():
    lookout = Lookout()
    listening = await helper(lookout)
    asking = asyncio.create_task(lookout.ask(asked()))
    due = await listening
    listening = asyncio.create_task(lookout.next(due.number, None))
    with pytest.raises(Unavailable, match="could not answer"):
        await asking
    listening.cancel()
