"""A program's output comes whole and in order, in larger pieces where it fills its pipe."""

import asyncio
import fcntl
import os

import pytest

from opensafe.execution.streams import Output

DEFAULT = 64 * 1024


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    yield reader, writer
    os.close(reader)


async def read_all(output):
    pieces = []
    while piece := await output.read():
        pieces.append(piece)
    return pieces


def test_a_full_pipe_is_made_larger_once_and_nothing_is_lost(pipe):
    reader, writer = pipe
    text = os.urandom(DEFAULT)

    async def run():
        output = Output(reader)
        os.write(writer, text)
        first = await output.read()
        assert fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ) == 4 * DEFAULT
        assert os.write(writer, text * 4) == 4 * DEFAULT
        os.close(writer)
        return [first, *await read_all(output)]

    assert asyncio.run(run()) == [text, text * 4]


def test_a_program_that_writes_little_keeps_its_pipe(pipe):
    reader, writer = pipe

    async def run():
        output = Output(reader)
        reading = asyncio.create_task(read_all(output))
        for piece in (b"a", b"b" * (DEFAULT - 1)):
            await asyncio.sleep(0)
            os.write(writer, piece)
        os.close(writer)
        return b"".join(await reading)

    assert asyncio.run(run()) == b"a" + b"b" * (DEFAULT - 1)


def test_without_a_larger_pipe_all_goes_on(pipe, monkeypatch):
    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(fcntl, "fcntl", refused)
    reader, writer = pipe

    async def run():
        output = Output(reader)
        os.write(writer, bytes(DEFAULT))
        first = await output.read()
        os.write(writer, b"end")
        os.close(writer)
        return [first, *await read_all(output)]

    assert asyncio.run(run()) == [bytes(DEFAULT), b"end"]
