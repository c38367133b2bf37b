"""Output between one writer and many readers: complete for a single one, bounded for all. R25, R27, R29."""

import asyncio

import pytest

from opensafe.errors import InvalidArgument
from opensafe.execution.journal import STDERR, STDOUT, Chunk, Gap, Journal

KIB = 1024
PIECE = b"x" * 64 * KIB


async def rest(reader):
    """Everything until the end."""
    pieces = []
    while not reader.ended:
        piece = reader.take()
        if piece is None:
            await reader.more()
        else:
            pieces.append(piece)
    reader.take()  # the last piece is delivered, too
    return pieces


def data(pieces):
    return b"".join(piece.data for piece in pieces)


async def writes(journal, count):
    """A task that writes `count` pieces and closes, once it had every chance to."""

    async def write():
        for _ in range(count):
            await journal.write(STDOUT, PIECE)
        journal.close()

    task = asyncio.create_task(write())
    for _ in range(4 * count):
        await asyncio.sleep(0)
    return task


async def test_a_reader_gets_what_was_and_what_comes():
    journal = Journal(1 << 20)
    await journal.write(STDOUT, b"one")
    reading = asyncio.create_task(rest(journal.reader()))
    await asyncio.sleep(0)
    await journal.write(STDERR, b"two")
    journal.close()
    assert await reading == [Chunk(STDOUT, 0, b"one"), Chunk(STDERR, 3, b"two")]


async def test_R25_a_single_reader_holds_the_writer_back_and_misses_nothing():
    journal = Journal(0)
    reader = journal.reader()
    writing = await writes(journal, 50)
    assert not writing.done()
    assert journal.size <= 512 * KIB
    pieces = await rest(reader)
    await writing
    assert [piece.offset for piece in pieces] == [number * len(PIECE) for number in range(50)]
    assert data(pieces) == 50 * PIECE


async def test_nobody_holds_the_writer_back_where_nobody_reads():
    journal = Journal(256 * KIB)
    assert (await writes(journal, 100)).done()
    assert journal.size <= 320 * KIB
    gap, *pieces = await rest(journal.reader())
    assert gap == Gap(0, journal.start)
    assert gap.end + len(data(pieces)) == journal.end == 100 * len(PIECE)


async def test_R27_a_stalled_reader_beside_another_gets_a_gap_and_harms_nobody():
    journal = Journal(256 * KIB)
    stalled, other = journal.reader(), journal.reader()
    reading = asyncio.create_task(rest(other))
    writing = await writes(journal, 100)
    assert writing.done()
    assert data(await reading) == 100 * PIECE
    gap, *pieces = await rest(stalled)
    assert (gap.offset, gap.end) == (0, journal.start)
    assert gap.end + len(data(pieces)) == journal.end


async def test_where_all_readers_stall_the_writer_waits_and_goes_on_with_the_first_that_reads():
    journal = Journal(256 * KIB)
    stalled, other = journal.reader(), journal.reader()
    writing = await writes(journal, 40)
    assert not writing.done()
    assert data(await rest(other)) == 40 * PIECE
    await writing
    assert isinstance(stalled.take(), Gap)


async def test_output_that_nobody_reads_keeps_nobody_from_running():
    journal = Journal(0)

    async def endless():
        while True:
            await journal.write(STDOUT, PIECE)

    writing = asyncio.create_task(endless())
    for _ in range(10):
        await asyncio.sleep(0)
    writing.cancel()
    assert 0 < journal.end < 100 * len(PIECE)


async def test_a_single_reader_that_leaves_frees_the_writer():
    journal = Journal(0)
    reader = journal.reader()
    writing = await writes(journal, 40)
    assert not writing.done()
    reader.close()
    await writing


@pytest.mark.parametrize("offset", [0, 1, 5, 4096, 4097, 9999, 10000])
async def test_R29_a_reader_goes_on_at_any_offset_without_gap_or_repeat(offset):
    journal = Journal(1 << 20)
    written = bytes(number % 251 for number in range(10_000))
    for at in range(0, len(written), 7):
        await journal.write(STDOUT, written[at : at + 7])
    journal.close()
    pieces = await rest(journal.reader(offset))
    assert data(pieces) == written[offset:]
    assert [piece.offset for piece in pieces] == [offset + len(data(pieces[:number])) for number in range(len(pieces))]


@pytest.mark.parametrize("offset", [-1, 4, 1 << 53])
async def test_an_offset_beyond_what_was_written_is_refused(offset):
    journal = Journal(0)
    await journal.write(STDOUT, b"one")
    with pytest.raises(InvalidArgument, match="beyond"):
        journal.reader(offset)
    assert journal.reader(3).take() is None


async def test_of_output_that_is_gone_all_is_a_gap():
    reader = Journal.gone(1000).reader(10)
    assert reader.take() == Gap(10, 1000)
    assert reader.ended
    assert Journal.gone(0).reader(500).ended  # of a lost call nobody knows how much there was


async def test_R25_single_bytes_cost_no_more_than_their_share():
    journal = Journal(256 * KIB)
    for _ in range(100_000):
        await journal.write(STDOUT, b"x")
    assert len(journal._chunks) < 100
    for _ in range(20_000):  # the worst a guest can do: nothing to join
        await journal.write(STDOUT, b"x")
        await journal.write(STDERR, b"x")
    assert len(journal._chunks) <= 1024
    assert journal.size <= 256 * KIB


async def test_R25_single_bytes_of_both_streams_wait_for_a_single_reader_too():
    journal = Journal(0)
    reader = journal.reader()

    async def write():
        for _ in range(2000):
            await journal.write(STDOUT, b"o")
            await journal.write(STDERR, b"e")
        journal.close()

    writing = asyncio.create_task(write())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not writing.done()
    assert data(await rest(reader)) == b"oe" * 2000
    await writing


async def test_of_a_program_that_is_gone_the_rest_waits_for_no_reader_and_reaches_it_whole():
    journal = Journal(0)
    reader = journal.reader()
    writing = await writes(journal, 8)
    assert not writing.done()
    journal.hurry()
    await writing
    assert data(await rest(reader)) == 8 * PIECE


async def test_a_reader_that_gives_up_waiting_takes_nothing_from_the_others():
    journal = Journal(KIB)
    leaving, staying = journal.reader(), journal.reader()

    async def wait(reader):
        await reader.more()

    waiting = [asyncio.create_task(wait(reader)) for reader in (leaving, staying)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    leaving.close()
    assert not waiting[1].done()
    await journal.write(STDOUT, b"x")
    await waiting[1]
    journal.close()
    assert data(await rest(staying)) == b"x"


async def test_the_head_is_the_first_of_standard_output_alone():
    journal = Journal(1 << 20)
    for stream, data in ((STDERR, b"no"), (STDOUT, b"abc"), (STDERR, b"no"), (STDOUT, b"def")):
        await journal.write(stream, data)
    assert (journal.head(4), journal.head(100), journal.end) == (b"abcd", b"abcdef", 10)
