"""Refusals at the first packet as records: whose, why, how often, and never more than a bounded part of the record."""

import asyncio
import contextlib
import types

import pytest

from opensafe.model.calls import Principal
from opensafe.warden import packets
from opensafe.warden.feed import Call
from opensafe.warden.network.links import Link
from opensafe.warden.network.nflog import Refusal
from opensafe.warden.packets import Origin, Packets

LINK = Link(0, "10.201.0.1", "10.201.0.0")
OTHER = Link(1, "10.201.0.3", "10.201.0.2")
CALL = Call(
    exec_id="exec-1",
    decision_id="dec-1",
    call_id="call-1",
    session_id="ses-1",
    tool="Bash",
    digest="00",
    trace_id="f" * 32,
    principal=Principal(name="agent"),
    agent="tester",
    profile="standard",
    programs=None,
)
ORIGINS = {LINK: Origin(sandbox_id="sb-1", call=CALL), OTHER: Origin(sandbox_id="sb-2")}


@pytest.fixture
def bench():
    made = types.SimpleNamespace(told=[], room=True, untold=[])

    def tell(connection):
        if made.room:
            made.told.append(connection)
        return made.room

    def untold():
        return made.untold.pop(0) if made.untold else 0

    made.packets = Packets(tell, {5: LINK, 6: OTHER}.get, ORIGINS.__getitem__, untold)
    return made


def refusal(link=LINK, came_by=5, *, protocol="tcp", address="8.8.8.8", port=25, source=None, why="closed"):
    return Refusal(source or link.guest, protocol, address, port, why, came_by)


def counts(bench):
    return [(one.sandbox_id, one.address, one.port, one.count) for one in bench.told]


def test_a_refusal_names_its_sandbox_and_the_call_that_runs_there(bench):
    bench.packets.take(refusal())
    (one,) = bench.told
    assert (one.state, one.layer, one.protocol, one.address, one.port) == ("refused", "packet", "tcp", "8.8.8.8", 25)
    assert (one.sandbox_id, one.exec_id, one.decision_id, one.call_id) == ("sb-1", "exec-1", "dec-1", "call-1")
    assert (one.session_id, one.principal, one.trace_id) == ("ses-1", "agent", "f" * 32)
    assert (one.rules, one.count) == (("gateway.port.closed",), 1)


def test_without_one_call_it_names_the_sandbox_alone(bench):
    bench.packets.take(refusal(OTHER, 6, protocol="icmp", port=0))
    (one,) = bench.told
    assert (one.sandbox_id, one.exec_id, one.call_id, one.port, one.protocol) == ("sb-2", "", "", None, "icmp")


def test_equal_ones_within_a_second_are_one_record_with_their_number(bench):
    for _ in range(5):
        bench.packets.take(refusal())
    bench.packets.take(refusal(port=26))
    assert counts(bench) == [("sb-1", "8.8.8.8", 25, 1), ("sb-1", "8.8.8.8", 26, 1)]
    bench.packets.flush()
    assert counts(bench)[2:] == [("sb-1", "8.8.8.8", 25, 4)]
    bench.packets.take(refusal())
    assert counts(bench)[3:] == [("sb-1", "8.8.8.8", 25, 1)]


def test_a_forged_source_is_on_record_under_the_sandbox_that_it_came_from(bench):
    for last in range(1, 101):
        bench.packets.take(refusal(source=f"192.0.2.{last}", port=last, why="spoofed"))
    bench.packets.flush()
    first, rest = bench.told
    assert (first.sandbox_id, first.rules, first.count) == ("sb-1", ("gateway.source.spoofed",), 1)
    assert first.reason.endswith(": 192.0.2.1")
    assert (rest.rules, rest.count) == (("gateway.source.spoofed",), 99)


def test_what_came_by_no_link_is_on_record_without_a_sandbox(bench):
    bench.packets.take(refusal(came_by=7))
    (one,) = bench.told
    assert (one.sandbox_id, one.rules) == ("", ("gateway.source.spoofed",))


@pytest.mark.parametrize(
    ("why", "rule"),
    [("full", "gateway.connections.most"), ("closed", "gateway.port.closed"), ("", "gateway.port.closed")],
)
def test_why_is_what_the_packet_rules_say(bench, why, rule):
    bench.packets.take(refusal(why=why))
    assert bench.told[0].rules == (rule,)


def test_a_scan_is_some_records_and_a_count_and_leaves_room_for_others(bench):
    for port in range(1, 1001):
        bench.packets.take(refusal(port=port))
    bench.packets.take(refusal(OTHER, 6))
    assert bench.told[-1].sandbox_id == "sb-2"
    assert len(bench.told) < 30
    bench.packets.flush()
    assert sum(one.count for one in bench.told if one.sandbox_id == "sb-1") == 1000
    assert len(bench.told) < 31


def test_what_nobody_told_and_what_found_no_room_is_counted_on_record(bench):
    bench.room = False
    for _ in range(3):
        bench.packets.take(refusal())
    bench.untold = [40]
    bench.packets.flush()
    assert bench.told == []
    bench.room = True
    bench.packets.flush()
    (one,) = bench.told
    assert (one.state, one.layer, one.rules, one.count) == ("refused", "packet", (), 43)


@contextlib.asynccontextmanager
async def running(bench, *refusals):
    async def told():
        for one in refusals:
            yield one
        await asyncio.Event().wait()

    task = asyncio.create_task(bench.packets.run(told()))
    async with asyncio.timeout(10):
        yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_reads_and_flushes_by_itself(bench, monkeypatch):
    monkeypatch.setattr(packets, "_SECOND_S", 0)
    bench.untold = [0, 2]  # the last ones come when none is told any more
    async with running(bench, refusal(), refusal()):
        while sum(one.count for one in bench.told) < 4:  # noqa: ASYNC110 - it tells a list
            await asyncio.sleep(0)
    assert [one.count for one in bench.told] == [1, 1, 2]


async def test_what_finds_no_room_is_told_when_there_is_some(bench, monkeypatch):
    monkeypatch.setattr(packets, "_SECOND_S", 0)
    bench.room = False
    async with running(bench, refusal()):
        for _ in range(100):
            await asyncio.sleep(0)
        assert bench.told == []
        bench.room = True
        while not bench.told:  # noqa: ASYNC110 - it tells a list
            await asyncio.sleep(0)
    assert [(one.rules, one.count) for one in bench.told] == [((), 1)]
