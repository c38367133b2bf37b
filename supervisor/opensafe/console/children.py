"""Commands that are run for a person's request and end with it: what works on candidate bundles.

What a child prints is read up to a bound, and what it is worth is for the caller to say: a bundle may have it in hand.
"""

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from opensafe.errors import Conflict, LimitExceeded

from .owned import How, command

T = TypeVar("T")

#: Seconds of one; children at once; bytes of what one prints, and of what it says on stderr.
TIME_S: Final = 300.0
AT_ONCE: Final = 2
OUT_MAX: Final = 8 << 20
ERROR_MAX: Final = 4096


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. status: as waitpid tells it, negative for a signal. said: the end of its stderr."""

    status: int
    out: bytes
    said: str


class Turns:
    """One at a time for each person; a few in all."""

    def __init__(self) -> None:
        self._whose: set[str] = set()

    @contextlib.contextmanager
    def turn(self, whose: str) -> Iterator[None]:
        """For what a person has worked on, to the end of the block. Raises Conflict, LimitExceeded."""
        if whose in self._whose:
            raise Conflict("one of your candidates is worked on already", remedy="Wait for its end.")
        if len(self._whose) >= AT_ONCE:
            raise LimitExceeded(
                "others have candidates worked on", limit=f"{AT_ONCE} at once", remedy="Try again soon."
            )
        self._whose.add(whose)
        try:
            yield
        finally:
            self._whose.remove(whose)


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` returns; None where the browser went before: then it was cancelled. The body has to be read first."""
    working, gone = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def run(words: Sequence[str | pathlib.Path], **environment: str) -> Done:
    """Run `opensafe WORDS`. Whatever ends the task ends the child and what that began. Raises LimitExceeded."""
    process = await asyncio.create_subprocess_exec(
        *command(How.CONFINED, words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    assert process.stdout is not None  # noqa: S101 - it was asked for; for the type checker
    assert process.stderr is not None  # noqa: S101 - likewise
    try:
        async with asyncio.timeout(TIME_S):
            out, said = await asyncio.gather(_whole(process.stdout), _end(process.stderr))
            return Done(status=await process.wait(), out=out, said=said.decode(errors="replace"))
    except TimeoutError as error:
        raise LimitExceeded("it took too long", limit=f"{TIME_S:.0f} s", remedy="Take fewer decisions.") from error
    finally:
        with contextlib.suppress(ProcessLookupError):  # whatever it began is of its group
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _whole(stream: asyncio.StreamReader) -> bytes:
    read = bytearray()
    while piece := await stream.read(1 << 16):
        read += piece
        if len(read) > OUT_MAX:
            raise LimitExceeded("it printed too much", limit=f"{OUT_MAX} bytes")
    return bytes(read)


async def _end(stream: asyncio.StreamReader) -> bytes:
    last = b""
    while piece := await stream.read(1 << 16):
        last = (last + piece)[-ERROR_MAX:]
    return last
