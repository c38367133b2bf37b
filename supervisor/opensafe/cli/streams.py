"""Our own standard streams as bytes: read without a thread, written without a buffer.

Standard input is never made non-blocking, since the flag belongs to the open file and would change it for the shell
that shares it. A reader waits for readiness instead; a regular file is always ready and can't be waited for.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from typing import Final

_CHUNK: Final = 64 * 1024


def is_piped(descriptor: int) -> bool:
    """Whether somebody feeds `descriptor`: a pipe, a socket or a file, not a terminal, a device or nothing at all."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)


async def read(descriptor: int) -> AsyncIterator[bytes]:
    """Yield what arrives on `descriptor` until its end, in pieces of at most 64 KiB."""
    while True:
        await _readable(descriptor)
        data = os.read(descriptor, _CHUNK)
        if not data:
            return
        yield data


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # epoll does not take regular files
        await asyncio.sleep(0)  # let the call go on between two pieces
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def write(descriptor: int, data: bytes) -> None:
    """Write all of `data`. Blocks while the reader is slow; raises BrokenPipeError when it is gone."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
