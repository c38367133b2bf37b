"""The egress helper: an unprivileged process of its own, so that streams never delay what connections wait for.

    helper CONNECTION SETTINGS KEYS

It holds an engine of its own and changes its bundle where the front leads, one step after the other: prepare, swap.
Sandboxes have no way out yet, so nothing asks this engine.
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
from opensafe.policy.preparer import Preparer
from opensafe.policy.reload import Loaded, Loader
from opensafe.warden.client import WardenClient

from .log import configure

_log = structlog.get_logger()


class Helper:
    """Follows the front's steps. `serving` is what connections are judged by; None until the first swap."""

    def __init__(self, loader: Loader, warden: WardenClient) -> None:
        self._loader = loader
        self._warden = warden
        self._prepared: Loaded | None = None
        self._optimising: asyncio.Task[None] | None = None
        self.serving: Loaded | None = None

    async def follow(self) -> None:
        """Take steps until cancelled. Raises Unavailable: the warden is gone."""
        finished, error = 0, ""
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
            self._drop(old)
            _log.info("bundle swapped", revision=self.serving.bundle.revision)
            if self.serving.quick:
                self._optimising = asyncio.create_task(self._exchange(self.serving), name="optimise")

    async def _exchange(self, quick: Loaded) -> None:
        with contextlib.suppress(OpenSafeError):  # the quick one serves on
            self.serving = await self._loader.load(quick.bundle.digest, optimise=True)
            quick.engine.close()

    async def _stop_optimising(self) -> None:
        if self._optimising is not None:
            self._optimising.cancel()
            await asyncio.gather(self._optimising, return_exceptions=True)
            self._optimising = None

    @staticmethod
    def _drop(loaded: Loaded | None) -> None:
        if loaded is not None:
            loaded.engine.close()


async def _run(preparer: Preparer, connection: int, config: Config, keys: tuple[str, ...]) -> None:
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
    helper = Helper(loader, warden)
    following = asyncio.create_task(helper.follow())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((following, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (following, stopping):
            task.cancel()
        await asyncio.gather(following, stopping, return_exceptions=True)
        await helper.close()
        await warden.close()


def main(arguments: list[str]) -> int:
    """Run the helper until SIGTERM or until the warden is gone."""
    preparer = Preparer()  # before there are threads or a loop
    configure("helper")
    connection, settings, keys = arguments
    try:
        config = msgspec.json.decode(settings, type=Config)
        asyncio.run(_run(preparer, int(connection), config, msgspec.json.decode(keys, type=tuple[str, ...])))
    finally:
        preparer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
