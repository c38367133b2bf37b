"""The daemon's main process: the warden, and the ground its children stand on.

Runs as root and stays small: it reads the settings and the trusted keys, archives these where a replay can find them,
starts the warden, reports readiness, and stops everything on a signal.
"""

import asyncio
import os
import pathlib
import signal
import sys
from typing import Final

import msgspec
import structlog

from opensafe import __version__
from opensafe.config import Config, load
from opensafe.errors import OpenSafeError
from opensafe.warden.children import Code, Role
from opensafe.warden.protocol import REFUSES
from opensafe.warden.warden import Warden

from . import ground
from .log import configure
from .notify import Notifier

#: A front silent for longer than this many watchdog periods no longer counts as alive.
_SILENCE_S: Final = 30.0

_log = structlog.get_logger()


def main(path: pathlib.Path) -> int:
    """Run until a signal; 0 after a clean stop, 78 (EX_CONFIG) where the daemon refuses to serve."""
    configure("warden")
    refusals: list[OpenSafeError] = []
    try:
        asyncio.run(_run(load(path)))
    except* OpenSafeError as group:
        refusals = _leaves(group)
    for error in refusals:
        print(f"opensafe: {error}", file=sys.stderr)  # noqa: T201 - the operator reads it where the command was given
    return REFUSES if refusals else 0


async def _run(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    notifier = Notifier()
    root = os.geteuid() == 0  # without it the warden refuses, with the reason
    keys = msgspec.json.encode(ground.lay(config) if root else ()).decode()
    settings = msgspec.json.encode(config).decode()

    def child_command(role: Role, code: Code, connection: int, further: int) -> list[str]:
        return code.module(f"opensafe.daemon.{role.value}", str(connection), str(further), settings, keys)

    async with await Warden.start(config, child_command=child_command) as warden:
        serving = asyncio.create_task(warden.serve(), name="children")
        stopping = asyncio.create_task(stop.wait(), name="signal")
        ready = asyncio.create_task(_announce(warden, notifier), name="readiness")
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            notifier.send("STOPPING=1")
            if serving.done():
                await serving
        finally:
            for task in (stopping, ready):
                task.cancel()
            await asyncio.gather(stopping, ready, return_exceptions=True)
            await warden.stop_children()
            await asyncio.gather(serving, return_exceptions=True)
    _log.info("stopped")


async def _announce(warden: Warden, notifier: Notifier) -> None:
    """Report readiness, then life for as long as the front shows some."""
    await warden.front_serves.wait()
    _log.info("serving", version=__version__)
    notifier.send("READY=1", f"STATUS=serving, OpenSafe {__version__}")
    loop = asyncio.get_running_loop()
    while notifier.watchdog_s is not None:
        if loop.time() - warden.heartbeat < _SILENCE_S:
            notifier.send("WATCHDOG=1")
        await asyncio.sleep(notifier.watchdog_s / 3)


def _leaves(group: BaseExceptionGroup[OpenSafeError]) -> list[OpenSafeError]:
    found: list[OpenSafeError] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found
