"""The daemon's main process: the warden, and the ground its children stand on.

Runs as root and stays small: it reads the settings and the trusted keys, puts both and the bundle where a replay can
find them, starts the warden, reports readiness, and stops everything on a signal.
"""

import asyncio
import hashlib
import os
import pathlib
import signal
import sys
from typing import Final

import msgspec
import structlog

from opensafe import __version__
from opensafe.config import Config, load
from opensafe.errors import ConfigError, OpenSafeError
from opensafe.policy.location import archived_path
from opensafe.warden.children import Code, Role
from opensafe.warden.protocol import REFUSES
from opensafe.warden.warden import Warden

from . import ground
from .log import configure
from .notify import Notifier

_BUNDLE_MAX: Final = 64 << 20
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
    digest = _archive_bundle(config) if root else ""

    def child_command(role: Role, code: Code, connection: int, audit: int | None) -> list[str]:
        if role is Role.HELPER:
            return code.module("opensafe.daemon.helper", str(connection))
        settings = msgspec.json.encode(config).decode()
        return code.module("opensafe.daemon.front", str(connection), str(audit), digest, settings, keys)

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


def _archive_bundle(config: Config) -> str:
    """Archive the bundle for the front and for replays; its SHA-256."""
    state = pathlib.Path(config.paths.state)
    try:
        with pathlib.Path(config.paths.bundle).open("rb") as file:
            content = file.read(_BUNDLE_MAX + 1)
    except OSError as error:
        raise ConfigError(
            f"the policy bundle can't be read: {error.strerror}",
            value=config.paths.bundle,
            remedy="Build it with `make bundle`, or set paths.bundle.",
        ) from error
    if len(content) > _BUNDLE_MAX:
        raise ConfigError("the policy bundle is too large", value=config.paths.bundle, limit=f"{_BUNDLE_MAX} bytes")
    digest = hashlib.sha256(content).hexdigest()
    path = archived_path(state, digest)
    path.parent.mkdir(mode=0o755, exist_ok=True)
    ground.keep(path, content)
    return digest


def _leaves(group: BaseExceptionGroup[OpenSafeError]) -> list[OpenSafeError]:
    found: list[OpenSafeError] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found
