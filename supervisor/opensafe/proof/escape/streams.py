"""A program's three streams, read while it runs: its output is what the host sees of it."""

import asyncio
import contextlib
import io
import os
from collections.abc import Iterator
from typing import Final, Self

#: Of each stream is kept.
OUTPUT_MAX: Final = 8 << 20
#: What a pipe holds, and so what can be written to one before anybody reads.
_PIPE_BYTES: Final = 1 << 16


class Streams:
    """A program's three streams. passed: the ends that go to it."""

    def __init__(self, stdin: int) -> None:
        out, out_end = os.pipe2(os.O_CLOEXEC)
        err, err_end = os.pipe2(os.O_CLOEXEC)
        self.passed = (stdin, out_end, err_end)
        self._theirs = list(self.passed)
        self._ours = [out, err]

    @classmethod
    @contextlib.contextmanager
    def open(cls, stdin: bytes) -> Iterator[Self]:
        """Those of a program that reads this."""
        streams = cls(_holding(stdin))
        try:
            yield streams
        finally:
            streams.given()
            _close(streams._ours)

    def given(self) -> None:
        """The program has its own: the end of the file comes when it has ended."""
        _close(self._theirs)

    async def output(self) -> tuple[bytes, bytes]:
        """What was written until all that hold the streams have ended; what exceeds the cap is read and dropped."""
        out, err = (os.fdopen(end, "rb", buffering=0) for end in self._ours)
        self._ours.clear()
        stdout, stderr = await asyncio.gather(_read(out), _read(err))
        return stdout, stderr


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def _holding(content: bytes) -> int:
    """A descriptor from which this is read, and then nothing: a pipe where it fits into one."""
    if len(content) > _PIPE_BYTES:
        held = os.memfd_create("stdin", os.MFD_CLOEXEC)
        with os.fdopen(os.dup(held), "wb") as file:
            file.write(content)
        os.lseek(held, 0, os.SEEK_SET)
        return held
    read, write = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(write, "wb") as file:
        file.write(content)
    return read


async def _read(file: io.FileIO) -> bytes:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    kept = bytearray()
    try:
        while chunk := await reader.read(_PIPE_BYTES):
            kept += chunk[: max(0, OUTPUT_MAX - len(kept))]
    finally:
        transport.close()
    return bytes(kept)
