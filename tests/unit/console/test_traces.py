"""Traces are read back once and followed: no record is missed and none counts twice, whenever it comes."""

import asyncio

import msgspec
import pytest

from opensafe.client import AuditPage, AuditRecord
from opensafe.console import traces as room
from opensafe.console.traces import FOLLOWED_MAX, Traces
from opensafe.errors import InvalidArgument, NotFound
from opensafe.model.records import SessionRecord
from tests.harness.records import TIME_US, decision


class Log:
    """What a daemon answers to a search of its log: `records`, by index; page: how many at once.

    asked: before which indices it was asked. during: called with each request.
    """

    def __init__(self, *records, page=3):
        self.records, self.page = list(records), page
        self.asked = []
        self.during = lambda: None

    async def search_audit(self, *, session_id, before_index=0, page_size=0):
        await asyncio.sleep(0)
        if not session_id.startswith("ses-"):
            raise InvalidArgument("no session")
        self.asked.append(before_index)
        end = min(before_index or len(self.records), len(self.records))
        begin = max(0, end - min(self.page, page_size))
        found = [
            AuditRecord(index=index, leaf="", line=msgspec.json.encode(self.records[index]))
            for index in reversed(range(begin, end))
            if self.records[index].session_id == session_id
        ]
        self.during()
        return AuditPage(records=tuple(found), next_before=begin)


def following(log):
    traces = Traces()
    traces.client = log
    return traces


def begun(session="ses-1"):
    return SessionRecord(time_us=TIME_US, session_id=session, principal="agent", state="open", agent="tester")


def calls(number, session="ses-1"):
    return [decision(decision_id=f"dec-{index}", session_id=session) for index in range(number)]


def indices(trace):
    return [step.index for step in trace.steps]


async def test_a_session_is_read_to_its_beginning_and_no_further():
    log = Log(*calls(9, "ses-2"), begun(), *calls(7))
    trace = await following(log).of("ses-1")
    assert (indices(trace), trace.older, trace.agent) == (list(range(10, 17)), 0, "tester")
    assert log.asked == [0, 14, 11]


async def test_it_is_read_once_and_then_followed():
    log = Log(begun(), *calls(3))
    traces = following(log)
    first = await traces.of("ses-1")
    asked = len(log.asked)
    traces.take(4, decision(decision_id="new"))
    traces.take(5, decision(decision_id="other", session_id="ses-2"))
    assert await traces.of("ses-1") is first
    assert (indices(first), len(log.asked)) == ([1, 2, 3, 4], asked)


async def test_what_comes_while_it_is_read_is_there_once():
    log = Log(begun(), *calls(4))
    traces = following(log)

    def more():
        """One that the search has too, one that it has not, one of another session."""
        log.during = lambda: None
        traces.take(4, log.records[4])
        traces.take(5, decision(decision_id="late"))
        traces.take(6, decision(decision_id="other", session_id="ses-2"))

    log.during = more
    assert indices(await traces.of("ses-1")) == [1, 2, 3, 4, 5]


async def test_where_more_came_than_is_kept_the_newest_part_is_whole(monkeypatch):
    monkeypatch.setattr(room, "_RECORDS_MAX", 3)
    log = Log(begun(), *calls(2))
    traces = following(log)

    def flood():
        log.during = lambda: None
        for index in range(3, 9):
            traces.take(index, decision(decision_id=f"late-{index}"))

    log.during = flood
    trace = await traces.of("ses-1")
    assert (indices(trace), trace.older) == ([6, 7, 8], 6)


async def test_two_who_ask_at_once_get_the_same():
    log = Log(begun(), *calls(2))
    traces = following(log)
    one, other = await asyncio.gather(traces.of("ses-1"), traces.of("ses-1"))
    assert one is other
    assert log.asked == [0]


@pytest.mark.parametrize("name", ["ses-9", "../../etc/passwd", "", "x" * 1000])
async def test_one_that_is_not_there_is_not_found_and_not_kept(name):
    traces = following(Log(begun(), *calls(2)))
    with pytest.raises(NotFound):
        await traces.of(name)
    assert indices(await traces.of("ses-1")) == [1, 2]


async def test_an_older_part_is_read_for_whoever_asks(monkeypatch):
    monkeypatch.setattr(room, "_RECORDS_MAX", 4)
    monkeypatch.setattr(room, "_BEHIND", 2)
    traces = following(Log(begun(), *calls(12), page=2))
    newest = await traces.of("ses-1")
    assert (indices(newest), newest.older) == ([9, 10, 11, 12], 9)
    assert await traces.before("ses-1", 11) is newest
    older = await traces.before("ses-1", 9)
    assert (indices(older), older.older) == ([7, 8], 7)
    assert await traces.of("ses-1") is newest


async def test_only_so_many_are_followed():
    sessions = [f"ses-{number}" for number in range(FOLLOWED_MAX + 1)]
    log = Log(*[record for name in sessions for record in (begun(name), *calls(1, name))], page=100)
    traces = following(log)
    first = await traces.of(sessions[0])
    for name in sessions[1:]:
        await traces.of(name)
    assert await traces.of(sessions[0]) is not first


async def test_one_record_by_its_index():
    traces = following(Log(begun(), *calls(2)))
    assert (await traces.record("ses-1", 1)).index == 1
    with pytest.raises(NotFound):
        await traces.record("ses-1", 99)
    with pytest.raises(NotFound):
        await traces.record("ses-2", 1)
    with pytest.raises(NotFound):
        await traces.record("nonsense", 1)
