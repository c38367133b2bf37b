"""The helper: an unprivileged process of its own, so that streams never delay what must be judged at once.

    helper CONNECTION FEED SETTINGS KEYS

It holds an engine of its own and changes its bundle where the front leads, one step after the other: prepare, swap.
By that bundle it judges what the sentries report (FEED, docs/monitor.md) and, where sandboxes have a way out, each
connection and DNS question (doors.py, docs/egress.md).
"""

import asyncio
import contextlib
import pathlib
import signal
import socket
import sys

import msgspec
import structlog

from opensafe.config import Config
from opensafe.errors import OpenSafeError
from opensafe.monitor.judge import Judge
from opensafe.monitor.watcher import Watcher
from opensafe.policy.preparer import Preparer
from opensafe.policy.reload import Loaded, Loader
from opensafe.warden.client import WardenClient

from .doors import Doors
from .log import configure

_log = structlog.get_logger()


class Helper:
    """Follows the front's steps. `serving` is what connections are judged by; None until the first swap."""

    def __init__(self, loader: Loader, warden: WardenClient, judge: Judge, doors: Doors | None) -> None:
        self._loader = loader
        self._judge = judge
        self._doors = doors
        self._warden = warden
        self._prepared: Loaded | None = None
        self._optimising: asyncio.Task[None] | None = None
        self.serving: Loaded | None = None

    async def follow(self) -> None:
        """Take steps until cancelled. Raises Unavailable: the warden is gone."""
        finished, error = 0, ""
        if self._doors is not None:
            await self._doors.open.wait()  # who judges must be asked: no call starts before the first swap
        while True:
            step = await self._warden.next_step(finished, error)
            finished, error = step.number, ""
            try:
                await self._take(step.digest, swap=step.swap)
            except OpenSafeError as problem:
                error = str(problem)
                _log.error("a bundle is refused", digest=step.digest, error=error)

    async def close(self) -> None:
        """Free the engines."""
        await self._stop_optimising()
        await self._lead(None)
        self._drop(self._prepared)
        self._drop(self.serving)

    async def _take(self, digest: str, *, swap: bool) -> None:
        await self._stop_optimising()
        if self.serving is not None and self.serving.bundle.digest == digest:
            return
        if self._prepared is None or self._prepared.bundle.digest != digest:
            self._drop(self._prepared)
            self._prepared = None
            self._prepared = await self._loader.load(digest)
        if swap:
            old, self.serving, self._prepared = self.serving, self._prepared, None
            await self._lead(self.serving)
            self._drop(old)
            _log.info("bundle swapped", revision=self.serving.bundle.revision)
            if self.serving.quick:
                self._optimising = asyncio.create_task(self._exchange(self.serving), name="optimise")

    async def _exchange(self, quick: Loaded) -> None:
        with contextlib.suppress(OpenSafeError):  # the quick one serves on
            self.serving = await self._loader.load(quick.bundle.digest, optimise=True)
            await self._lead(self.serving)
            quick.engine.close()

    async def _lead(self, loaded: Loaded | None) -> None:
        """Whoever judges, judges by this; nobody by another once it returns."""
        self._judge.lead(loaded)
        if self._doors is not None:
            await self._doors.lead(loaded)

    async def _stop_optimising(self) -> None:
        if self._optimising is not None:
            self._optimising.cancel()
            await asyncio.gather(self._optimising, return_exceptions=True)
            self._optimising = None

    @staticmethod
    def _drop(loaded: Loaded | None) -> None:
        if loaded is not None:
            loaded.engine.close()


async def _run(preparer: Preparer, connection: int, feed: int, config: Config, keys: tuple[str, ...]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    state = pathlib.Path(config.paths.state)
    cache = state / "helper" / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    loader = Loader(
        preparer,
        state,
        keys,
        cache,
        deadline_ms=config.policy.deadline_ms,
        memory_bytes=config.policy.memory_bytes,
    )
    warden = WardenClient(socket.socket(fileno=connection))
    judge, doors = Judge(), Doors(warden, config.egress) if config.egress.enabled else None
    helper = Helper(loader, warden, judge, doors)
    watcher = Watcher(socket.socket(fileno=feed), judge, doors.callers if doors is not None else None)
    if doors is not None:
        doors.callers.hear_first(watcher.hear)
    work = [asyncio.create_task(one) for one in (helper.follow(), watcher.run(), stop.wait())]
    if doors is not None:
        work.append(asyncio.create_task(doors.run()))
    try:
        await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in work:
            task.cancel()
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, Exception):
                _log.error("the helper ends", error=str(result) or type(result).__name__)
        watcher.close()
        await helper.close()
        await warden.close()


def main(arguments: list[str]) -> int:
    """Run the helper until SIGTERM or until the warden is gone."""
    preparer = Preparer()  # before there are threads or a loop
    configure("helper")
    connection, feed, settings, keys = arguments
    try:
        config = msgspec.json.decode(settings, type=Config)
        asyncio.run(_run(preparer, int(connection), int(feed), config, msgspec.json.decode(keys, type=tuple[str, ...])))
    finally:
        preparer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
