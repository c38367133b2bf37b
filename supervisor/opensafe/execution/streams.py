"""Pipes of a running program, made by the front and handed to the sentry by descriptor.

Output never passes through the warden. Each pipe has one owner here; the far ends are closed on our side as soon
as the sentry holds them, so that end of file means what it says.
"""

import asyncio
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

#: A pipe's capacity, and what is asked for where a program fills it.
_CHUNK: Final = 64 * 1024
_LARGE: Final = 256 * 1024


class Pipes:
    """Three pipes. `guest` are the ends for the program (stdin, stdout, stderr), `ours` the others."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        try:
            stdin = self._pipe()
            stdout = self._pipe()
            stderr = self._pipe()
        except OSError:
            self.close()
            raise
        self.guest = (stdin[0], stdout[1], stderr[1])
        self.stdin, self.stdout, self.stderr = stdin[1], stdout[0], stderr[0]
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(descriptor, False)

    def close_guest(self) -> None:
        """Forget the program's ends, after they were passed on."""
        for descriptor in self.guest:
            self.close_one(descriptor)

    def close_one(self, descriptor: int) -> None:
        """Close one end, once."""
        if descriptor in self._open:
            self._open.discard(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Close all that is open."""
        for descriptor in list(self._open):
            self.close_one(descriptor)

    def _pipe(self) -> tuple[int, int]:
        pair = os.pipe2(os.O_CLOEXEC)
        self._open.update(pair)
        return pair


@contextmanager
def open_pipes() -> Iterator[Pipes]:
    """Pipes that are closed on every way out."""
    pipes = Pipes()
    try:
        yield pipes
    finally:
        pipes.close()


class Output:
    """One stream of a program's output. A pipe that is found full is made larger, once: each piece costs the same."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._most = _CHUNK

    async def read(self) -> bytes:
        """Up to 64 KiB, or 256 from a program that writes much; b"" at the end of file."""
        while True:
            with suppress(BlockingIOError):
                data = os.read(self._descriptor, self._most)
                if len(data) == _CHUNK == self._most:
                    self._enlarge()
                return data
            await _ready(self._descriptor, write=False)

    def _enlarge(self) -> None:
        self._most = _LARGE
        with suppress(OSError):  # all that the service user may have is in use (pipe(7), pipe-user-pages-soft)
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _LARGE)


async def write_all(descriptor: int, data: bytes) -> bool:
    """Write all of `data`; False where the program no longer reads (its end is closed)."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            await _ready(descriptor, write=True)
        except OSError as error:
            if error.errno == errno.EPIPE:
                return False
            raise
    return True


async def _ready(descriptor: int, *, write: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
