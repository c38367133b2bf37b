"""Output between one writer and many readers: complete for the paced, bounded for the rest. R25, R27, R29."""

import asyncio

from opensafe.execution.journal import STDERR, STDOUT, Journal

KIB = 1024


async def read(journal, *, paced=False):
    return [chunk async for chunk in journal.read(paced=paced)]


async def test_a_reader_gets_what_was_and_what_comes():
    journal = Journal(1 << 20)
    await journal.write(STDOUT, b"one")
    reading = asyncio.create_task(read(journal))
    await asyncio.sleep(0)
    await journal.write(STDERR, b"two")
    journal.close()
    assert [(chunk.stream, chunk.offset, chunk.data) for chunk in await reading] == [
        (STDOUT, 0, b"one"),
        (STDERR, 3, b"two"),
    ]


async def test_a_paced_reader_holds_the_writer_back_and_misses_nothing():
    journal = Journal(0)
    chunk = b"x" * 64 * KIB
    stream = journal.read(paced=True)
    await journal.write(STDOUT, chunk)
    got = [await anext(stream)]  # the reader is there, and stalls

    async def write():
        for _ in range(50):
            await journal.write(STDOUT, chunk)
        journal.close()

    writing = asyncio.create_task(write())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not writing.done()
    assert journal.size <= 512 * KIB
    got += [one async for one in stream]
    await writing
    assert sum(len(one.data) for one in got) == 51 * len(chunk)
    assert [one.offset for one in got] == [number * len(chunk) for number in range(51)]


async def test_without_a_paced_reader_old_output_makes_room():
    journal = Journal(256 * KIB)
    for _ in range(100):
        await journal.write(STDOUT, b"x" * 64 * KIB)
    journal.close()
    assert journal.size <= 320 * KIB
    (first, *_) = await read(journal)
    assert first.offset > 0  # which is how a late reader knows what it missed


async def test_a_paced_reader_that_leaves_frees_the_writer():
    journal = Journal(0)
    stream = journal.read(paced=True)
    await journal.write(STDOUT, b"x" * 64 * KIB)
    await anext(stream)

    async def write():
        for _ in range(20):
            await journal.write(STDOUT, b"x" * 64 * KIB)

    writing = asyncio.create_task(write())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not writing.done()
    await stream.aclose()
    await writing
