"""The network's suite with all it stands on: the small internet, and a daemon before it."""

import asyncio
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Final

from opensafe.proof import private
from opensafe.proof.escape.probe import Result
from opensafe.proof.world import World

from .policy import ENDED, Bundles
from .probe import NetworkProbe
from .stage import Stage
from .suite import Suite

_TEMPLATE: Final = "base"


async def run(
    probes: Sequence[NetworkProbe], *, only_controls: bool, done: Callable[[Result], None]
) -> tuple[Result, ...]:
    """Every probe and its control. Needs root."""
    async with World.open() as world:
        if only_controls:
            return await Suite(Stage(world, None, None, _TEMPLATE), only_controls=True, done=done).run(probes)
        with tempfile.TemporaryDirectory(prefix="opensafe-escape-") as path:
            bundles = Bundles(pathlib.Path(path), pathlib.Path(private.programs().bundle))
            bundles.activate(traps=True)
            more = f'[egress]\n{world.egress()}upstream_ca = "{world.ca_file}"\n'
            more += f'[[egress.terminate]]\nname = "{ENDED}"\n'
            roles = {"default": ("developer",)}
            daemon = private.PrivateDaemon("escape", roles, bundle=bundles.place, key=bundles.public, more=more)
            try:
                await asyncio.to_thread(daemon.start)
                return await Suite(Stage(world, daemon, bundles, _TEMPLATE), done=done).run(probes)
            finally:
                await asyncio.to_thread(daemon.stop)
                daemon.remove()
