"""A call that may reach names has its sandbox for itself."""

import asyncio

import pytest

from opensafe.errors import Conflict
from opensafe.model.calls import Program
from opensafe.model.limits import CallLimits
from opensafe.model.sandbox import Launch
from opensafe.warden.sandbox.sharing import Sharing


def launch(exec_id, sandbox="sb-1", program="/bin/true"):
    return Launch(
        sandbox_id=sandbox,
        exec_id=exec_id,
        program=Program(argv=(program,), env={}, cwd="/"),
        profile="default",
        limits=CallLimits(),
    )


def test_calls_without_the_network_live_side_by_side():
    sharing = Sharing()
    sharing.enter(launch("one"), networked=False)
    sharing.enter(launch("two"), networked=False)


@pytest.mark.parametrize("networked", [False, True])
def test_beside_a_call_with_the_network_nothing_starts_until_it_has_left(networked):
    sharing = Sharing()
    sharing.enter(launch("one"), networked=True)
    with pytest.raises(Conflict, match="for itself") as refused:
        sharing.enter(launch("two"), networked=networked)
    assert refused.value.value == "one"
    sharing.leave("sb-1", "one")
    sharing.enter(launch("two"), networked=networked)


def test_a_call_with_the_network_starts_beside_nobody():
    sharing = Sharing()
    sharing.enter(launch("one"), networked=False)
    with pytest.raises(Conflict, match="needs its sandbox"):
        sharing.enter(launch("two"), networked=True)
    sharing.leave("sb-1", "one")
    sharing.enter(launch("two"), networked=True)


def test_another_sandbox_is_no_neighbour():
    sharing = Sharing()
    sharing.enter(launch("one"), networked=True)
    sharing.enter(launch("two", sandbox="sb-2"), networked=True)


def test_the_file_helper_comes_and_goes():
    sharing = Sharing()
    sharing.enter(launch("one"), networked=True)
    sharing.enter(launch("two", program="/.opensafe/file"), networked=False)
    sharing.leave("sb-1", "two")
    with pytest.raises(Conflict):
        sharing.enter(launch("three", program="/workspace/.opensafe/file"), networked=False)


def test_a_call_that_was_refused_has_no_place():
    sharing = Sharing()
    sharing.enter(launch("one"), networked=True)
    with pytest.raises(Conflict):
        sharing.enter(launch("two"), networked=False)
    assert not sharing.networked("sb-1", "two")
    assert sharing.networked("sb-1", "one")
    sharing.leave("sb-1", "one")
    assert not sharing.networked("sb-1", "one")


async def test_a_start_waits_for_who_is_just_leaving():
    sharing = Sharing()
    sharing.enter(launch("one"), networked=True)
    waiting = asyncio.create_task(sharing.waited(launch("two"), networked=True))
    await asyncio.sleep(0)
    assert not waiting.done()
    sharing.leave("sb-1", "one")
    await waiting
    sharing.enter(launch("two"), networked=True)


async def test_a_start_is_refused_beside_who_stays(monkeypatch):
    monkeypatch.setattr("opensafe.warden.sandbox.sharing._LEAVING_S", 0.01)
    sharing = Sharing()
    sharing.enter(launch("one"), networked=True)
    assert await sharing.waited(launch("two"), networked=False)
    with pytest.raises(Conflict):
        sharing.enter(launch("two"), networked=False)
