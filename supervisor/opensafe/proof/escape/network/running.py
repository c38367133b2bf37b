"""The network's suite with all it stands on: the small internet, and a daemon before it."""

import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Final

from opensafe.proof import private
from opensafe.proof.escape.ground import daemon
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
            async with daemon("escape", bundles, more=more) as begun:
                return await Suite(Stage(world, begun, bundles, _TEMPLATE), done=done).run(probes)
