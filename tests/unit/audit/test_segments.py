"""The log goes on in another segment when one is full, and a start reads no further back than its index needs."""

import asyncio
import json
import os

import pytest

from opensafe.audit.log import AuditLog
from opensafe.audit.segment import segment_path, segment_paths
from opensafe.errors import StaleIndex, Unavailable
from opensafe.model.chain import verify
from opensafe.model.records import DaemonRecord


def record(number):
    return DaemonRecord(time_us=number, state="started", version="0" * 100, bundles={})


class Place:
    """A directory of segments, what was folded of them, and who makes the next."""

    def __init__(self, state):
        self.state = state
        (state / "audit").mkdir()
        segment_path(state, 0).touch()
        self.folded = []
        self.asked = 0
        self.refuse = False

    async def next_segment(self):
        self.asked += 1
        if self.refuse:
            raise Unavailable("no")
        number = len(segment_paths(self.state))
        return number, os.open(segment_path(self.state, number), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def log(self):
        paths = segment_paths(self.state)
        return AuditLog(
            os.open(paths[-1], os.O_WRONLY | os.O_APPEND),
            paths,
            lambda index, record, leaf: self.folded.append((index, leaf)),
            segment_bytes=1000,
            next_segment=self.next_segment,
        )

    def lines(self):
        return [line for path in segment_paths(self.state) for line in path.read_bytes().splitlines()]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


async def filled(place, count=20):
    """A log of several segments, closed; how many records of it its index holds and the last leaf."""
    log = place.log()
    await log.open()
    written = [await log.append(record(number)) for number in range(count)]
    await log.close()
    return [(one.head.size, one.leaf) for one in written]


async def test_a_full_segment_is_followed_by_another_and_the_chain_goes_on(place):
    log = place.log()
    await log.open()
    for number in range(20):
        written = await log.append(record(number))
        path = segment_path(place.state, written.segment)
        assert path.read_bytes()[written.offset :].startswith(written.line + b"\n")
    await log.close()
    assert len(segment_paths(place.state)) == 1 + place.asked >= 5
    assert [link.index for link in verify(place.lines())] == list(range(20))
    assert all(path.stat().st_size < 1500 for path in segment_paths(place.state))


async def test_records_at_once_keep_their_chain_across_segments(place):
    log = place.log()
    await log.open()
    await asyncio.gather(*(log.append(record(number)) for number in range(200)))
    await asyncio.gather(*(log.append(record(number)) for number in range(200)))
    await log.close()
    assert [link.index for link in verify(place.lines())] == list(range(400))
    assert place.asked > 0


async def test_without_another_the_log_goes_on_in_the_one_it_has(place):
    place.refuse = True
    await filled(place)
    assert len(segment_paths(place.state)) == 1
    assert 1 < place.asked < 10
    assert [link.index for link in verify(place.lines())] == list(range(20))


async def test_a_start_reads_the_segments_that_its_index_does_not_cover(place):
    known = await filled(place)
    begun = [path.read_bytes().splitlines() for path in segment_paths(place.state)]
    first_of_last = json.loads([lines for lines in begun if lines][-1][0])["index"]
    for count in (0, 1, 10, 19, 20):
        place.folded.clear()
        log = place.log()
        await log.open(known[count - 1] if count else (0, ""))
        await log.close()
        indices = [index for index, _ in place.folded]
        assert indices == list(range(indices[0], 20))
        assert indices[0] <= count
        assert indices[0] == first_of_last or count < first_of_last
        assert log.head.size == 20


async def test_an_index_of_another_log_is_refused_at_a_segments_border_too(place):
    known = await filled(place)
    for size, _ in known:
        log = place.log()
        with pytest.raises(StaleIndex):
            await log.open((size, "ab" * 32))
        await log.close()
    log = place.log()
    with pytest.raises(StaleIndex):
        await log.open((21, known[-1][1]))
    await log.close()


@pytest.mark.parametrize("begun", [True, False])
async def test_what_a_crash_left_before_the_next_segment_is_accounted_for(place, begun):
    known = await filled(place)
    with segment_paths(place.state)[-1].open("ab") as file:
        file.write(b'{"half')
    if begun:
        os.close((await place.next_segment())[1])
    log = place.log()
    await log.open(known[-1])
    await log.append(record(20))
    await log.close()
    again = place.log()
    await again.open((log.head.size, log.head.leaf))
    await again.close()
    assert [link.record["kind"] for link in verify(place.lines())][-2:] == ["torn", "daemon"]


async def test_an_empty_last_segment_continues_the_one_before(place):
    known = await filled(place)
    os.close((await place.next_segment())[1])
    log = place.log()
    await log.open(known[-1])
    await log.append(record(20))
    await log.close()
    assert [link.index for link in verify(place.lines())] == list(range(21))
