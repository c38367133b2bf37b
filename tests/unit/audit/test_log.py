"""The audit log's writer: in order, durable when it says so, closed by its first failure, honest about a torn tail."""

import asyncio
import json
import os

import pytest

from opensafe.audit.log import AuditLog
from opensafe.errors import AuditError, StaleIndex
from opensafe.model.chain import seal_torn, verify
from opensafe.model.records import DaemonRecord


def record(number):
    return DaemonRecord(time_us=number, state="started", version="0", bundles={})


class Place:
    """A segment file and what was folded from it."""

    def __init__(self, tmp_path):
        self.path = tmp_path / "segment-000000.jsonl"
        self.path.touch()
        self.folded = []

    def log(self):
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        return AuditLog(descriptor, (self.path,), lambda index, record, _leaf: self.folded.append((index, record)))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


async def test_a_record_is_on_disk_and_folded_when_append_returns(place):
    log = place.log()
    await log.open()
    written = await log.append(record(1))
    assert place.path.read_bytes() == written.line + b"\n"
    assert place.folded == [(0, record(1))]
    assert (written.kind, written.record) == ("daemon", record(1))
    await log.close()


async def test_a_written_record_is_folded_at_once_and_counts_as_durable_after_its_sync(place):
    log = place.log()
    await log.open()
    written = log.write(record(1))
    assert place.folded == [(0, record(1))]
    assert log.durable == 0
    await log.sync(written)
    assert log.durable == 1
    await log.sync(written)
    await log.close()


async def test_a_failed_sync_fails_all_that_wait_and_every_later_record(tmp_path):
    place = Place(tmp_path)
    reader, writer = os.pipe()  # takes bytes, and can't be synced
    log = AuditLog(writer, (place.path,), lambda *_: None)
    await log.open()
    first, second = log.write(record(1)), log.write(record(2))
    for written in (second, first):
        with pytest.raises(AuditError, match="can't be written"):
            await log.sync(written)
    with pytest.raises(AuditError):
        log.write(record(3))
    assert log.failed.is_set()
    assert log.durable == 0
    await log.close()
    os.close(reader)


async def test_many_at_once_keep_their_order_and_their_chain(place):
    log = place.log()
    await log.open()
    written = await asyncio.gather(*(log.append(record(number)) for number in range(200)))
    await log.close()
    lines = place.path.read_bytes().splitlines()
    assert [link.record["time_us"] for link in verify(lines)] == list(range(200))
    assert [index for index, _ in place.folded] == list(range(200))
    whole = place.path.read_bytes()
    for one in written:
        assert whole[one.offset : one.offset + len(one.line)] == one.line


async def test_a_caller_that_goes_away_leaves_no_gap(place):
    log = place.log()
    await log.open()
    gone = asyncio.create_task(log.append(record(1)))
    await asyncio.sleep(0)
    gone.cancel()
    await log.append(record(2))
    await log.close()
    assert [index for index, _ in place.folded] == [0, 1]


async def test_one_that_stops_waiting_takes_nobody_along(place):
    log = place.log()
    await log.open()
    written = log.write(record(1))
    gone, stays = (asyncio.create_task(log.sync(written)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await stays
    assert gone.cancelled()
    assert log.durable == 1
    await log.close()


async def test_what_was_written_is_folded_at_the_next_start(place):
    for number in range(3):
        log = place.log()
        await log.open()
        assert log.head.size == number
        await log.append(record(number))
        await log.close()
        place.folded.clear()
    log = place.log()
    await log.open()
    await log.close()
    assert [index for index, _ in place.folded] == [0, 1, 2]


async def test_a_torn_tail_is_accounted_for_and_kept(place):
    log = place.log()
    await log.open()
    await log.append(record(1))
    await log.close()
    with place.path.open("ab") as file:
        file.write(b'{"torn')
    log = place.log()
    await log.open()
    await log.append(record(2))
    await log.close()
    lines = place.path.read_bytes().splitlines()
    assert b'{"torn' in lines
    assert [link.record["kind"] for link in verify(lines)] == ["daemon", "torn", "daemon"]


@pytest.mark.parametrize("torn_before", [b"", b'{"half":', b'{"half":\n{"index":1,"ki'])
async def test_R45_wherever_a_line_tore_the_next_start_goes_on(place, torn_before):
    log = place.log()
    await log.open()
    first, second = await log.append(record(1)), await log.append(record(2))
    await log.close()
    begin = first.line + b"\n"
    tearing, kind = second.line, "daemon"
    if torn_before:
        begin += torn_before + b"\n"
        tearing, kind = seal_torn(first.head, torn_before).line, "torn"
    for cut in range(len(tearing) + 1):
        place.path.write_bytes(begin + tearing[:cut])
        log = place.log()
        await log.open()
        await log.append(record(3))
        await log.close()
        kinds = [link.record["kind"] for link in verify(place.path.read_bytes().splitlines())]
        if cut == len(tearing):  # it lacks its newline and nothing else
            assert kinds == ["daemon", kind, "daemon"]
        elif cut or torn_before:
            assert kinds == ["daemon", "torn", "daemon"]
        else:
            assert kinds == ["daemon", "daemon"]


async def test_RS_19_a_torn_tail_that_there_is_no_room_to_account_for_refuses_the_start(place):
    place.path.write_bytes(b'{"half":')
    log = AuditLog(os.open("/dev/full", os.O_WRONLY), (place.path,), lambda *_: None)
    with pytest.raises(AuditError, match=r"can't be continued.*No space left"):
        await log.open()
    await log.close()


async def test_a_clock_that_goes_back_changes_no_order(place):
    log = place.log()
    await log.open()
    for time_us in (7_200_000_000, 3_600_000_000, 0):
        await log.append(record(time_us))
    await log.close()
    log = place.log()
    await log.open()
    await log.append(record(1))
    await log.close()
    links = list(verify(place.path.read_bytes().splitlines()))
    assert [(link.index, link.record["time_us"]) for link in links] == [
        (0, 7_200_000_000), (1, 3_600_000_000), (2, 0), (3, 1),
    ]  # fmt: skip


async def test_a_log_that_was_changed_is_not_continued(place):
    log = place.log()
    await log.open()
    for number in range(3):
        await log.append(record(number))
    await log.close()
    content = place.path.read_bytes().replace(b'"time_us":1', b'"time_us":7')
    place.path.write_bytes(content)
    log = place.log()
    with pytest.raises(AuditError, match="record 1"):
        await log.open()
    await log.close()
    assert place.path.read_bytes() == content


async def test_RS_19_a_full_disk_fails_this_record_and_every_later_one(tmp_path):
    place = Place(tmp_path)
    log = AuditLog(os.open("/dev/full", os.O_WRONLY), (place.path,), lambda *_: None)
    await log.open()
    with pytest.raises(AuditError, match="No space left"):
        await log.append(record(1))
    with pytest.raises(AuditError):
        await log.append(record(2))
    assert log.failure is not None
    await log.close()


async def test_a_record_that_can_not_be_folded_fails_the_log(place):
    def refuse(index, record, leaf):
        raise AuditError("no")

    log = AuditLog(os.open(place.path, os.O_WRONLY | os.O_APPEND), (place.path,), refuse)
    await log.open()
    with pytest.raises(AuditError):
        await log.append(record(1))
    assert log.failure is not None
    await log.close()


async def test_CP_18_hostile_text_forges_no_record(place):
    log = place.log()
    await log.open()
    text = 'x"}\n{"kind":"daemon"}\x1b[31m\u202e'
    await log.append(DaemonRecord(time_us=1, state=text, version="0", bundles={}))
    await log.close()
    (line,) = place.path.read_bytes().splitlines()
    assert json.loads(line)["state"] == text


async def test_read_follows_without_gap(place):
    log = place.log()
    await log.open()
    for number in range(3):
        await log.append(record(number))
    assert [one.record.time_us async for one in log.read(2, follow=False)] == [1, 2]
    seen = []

    async def follow():
        async for one in log.read(1, follow=True):
            seen.append(one.record.time_us)
            if len(seen) == 3:
                return

    following = asyncio.create_task(follow())
    await asyncio.sleep(0)
    await log.append(record(3))
    await log.append(record(4))
    await following
    assert seen == [2, 3, 4]
    await log.close()


async def test_an_index_of_another_log_is_noticed(place):
    log = place.log()
    await log.open()
    first = await log.append(record(1))
    await log.close()
    for known in ((1, "f" * 64), (2, first.leaf)):
        log = place.log()
        with pytest.raises(StaleIndex):
            await log.open(known)
        await log.close()
    log = place.log()
    await log.open((1, first.leaf))
    await log.close()
