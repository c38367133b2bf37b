"""Bundles are prepared by processes of their own, so that nobody's verdict waits for a compiler.

`Preparer` forks the one that waits for jobs (crew.py) before its own process has threads or an event loop. What comes
back is data: the machine code is taken from the cache directory of the process's own user.
"""

import asyncio
import os
import socket
from typing import Final

import msgspec

from opensafe.errors import BundleRefused

from .job import DEADLINE_S, Job, Prepared, Refused

_ANSWER_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 20

_decode: Final = msgspec.msgpack.Decoder(Prepared | Refused).decode


class Preparer:
    """The waiting child. Make it before anything else in the process; `close` ends and reaps it."""

    def __init__(self) -> None:
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._child = os.fork()
        if self._child == 0:
            self._end.close()
            from . import crew  # its code is the child's alone

            crew.wait(theirs)
        theirs.close()

    async def prepare(self, job: Job) -> Prepared:
        """Raises BundleRefused: with what `load` found, or because the preparation ended without a word."""
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            try:
                socket.send_fds(self._end, [msgspec.msgpack.encode(job)], [writing])
            except OSError as error:
                raise BundleRefused(f"preparation: its process is gone: {error}") from error
            finally:
                os.close(writing)
            answer = await _read(reading)
        finally:
            os.close(reading)
        try:
            result = _decode(answer)
        except msgspec.DecodeError as error:
            raise BundleRefused(
                "preparation: it ended without a result, killed or out of time", limit=f"{DEADLINE_S} s"
            ) from error
        if isinstance(result, Refused):
            raise BundleRefused(result.message, value=result.value, limit=result.limit, remedy=result.remedy)
        return result

    def close(self) -> None:
        """End the child and wait for it."""
        self._end.close()
        os.waitpid(self._child, 0)


async def _read(descriptor: int) -> bytes:
    """Everything up to the end of the pipe."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    while len(data) <= _ANSWER_BYTES:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(descriptor, _settle, ready)
            try:
                await ready
            finally:
                loop.remove_reader(descriptor)
            continue
        if not chunk:
            break
        data += chunk
    return bytes(data)


def _settle(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
