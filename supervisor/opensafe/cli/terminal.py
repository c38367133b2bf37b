"""Our terminal lent to a call: raw while it runs, so that every key reaches the program, and always given back.

The keys that end a command elsewhere (Ctrl-C, Ctrl-Z) are the program's then; what ends the call from outside is its
deadline, SIGTERM, or `opensafe exec signal` from another terminal.
"""

import asyncio
import os
import signal
import termios
import tty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opensafe.client import Call, Terminal
from opensafe.errors import InvalidArgument

from . import streams


def is_here() -> bool:
    """Whether both our standard input and output are a terminal."""
    return os.isatty(0) and os.isatty(1)


def size() -> Terminal:
    """Its size. Raises InvalidArgument where there is none."""
    if not is_here():
        raise InvalidArgument(
            "standard input and output are no terminal", remedy="Leave --tty out, or run it in a terminal."
        )
    columns, rows = os.get_terminal_size(1)
    return Terminal(columns=max(columns, 1), rows=max(rows, 1))


@asynccontextmanager
async def lent(call: Call) -> AsyncIterator[None]:
    """Pass keys and sizes on to `call` until the context ends."""
    loop, before, resized = asyncio.get_running_loop(), termios.tcgetattr(0), asyncio.Event()
    resized.set()  # the size may have changed since the call was sent, or be another terminal's
    loop.add_signal_handler(signal.SIGWINCH, resized.set)
    tty.setraw(0)
    passing = [asyncio.create_task(_keys(call)), asyncio.create_task(_sizes(call, resized))]
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        loop.remove_signal_handler(signal.SIGWINCH)
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)


async def _keys(call: Call) -> None:
    async for data in streams.read(0):
        await call.send(data)


async def _sizes(call: Call, resized: asyncio.Event) -> None:
    while True:
        await resized.wait()
        resized.clear()
        now = size()
        await call.resize(now.columns, now.rows)
