"""From a command's synchronous body to the asynchronous client, with an orderly end on SIGINT and SIGTERM."""

import asyncio
import pathlib
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from opensafe.client import Client, find_socket

from .exits import Exit

T = TypeVar("T")
RUN = pathlib.Path("/run/opensafe")


def ask(
    principal: str | None,
    work: Callable[[Client], Awaitable[T]],
    *,
    prefer: str = "default",
    run: pathlib.Path = RUN,
) -> T:
    """Connect as `principal` and do `work`. Raises the exceptions of opensafe.errors.

    SIGINT and SIGTERM cancel `work`, which still cleans up; then typer.Exit with 130 or 143 is raised.
    """
    path = find_socket(principal, prefer=prefer, run=run)
    ended_by: list[Exit] = []

    async def connected() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine run by asyncio.run has one

        def end(status: Exit) -> None:
            ended_by.append(status)
            task.cancel()

        loop.add_signal_handler(signal.SIGINT, end, Exit.INTERRUPTED)
        loop.add_signal_handler(signal.SIGTERM, end, Exit.TERMINATED)
        async with Client.connect(path) as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except asyncio.CancelledError:
        raise typer.Exit(ended_by[0] if ended_by else Exit.INTERRUPTED) from None
