"""`opensafe escape run`: attempts to get out of a sandbox, each beside a control that does get out."""

import enum
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:  # the suite brings netlink, DNS and certificates into the process
    from collections.abc import Sequence

    from opensafe.proof.escape.probe import Probe, Result

_TEMPLATE = "base"

group = typer.Typer(help="Attempts to get out of a sandbox.", no_args_is_help=True)


class Boundaries(enum.StrEnum):
    """What is to be crossed."""

    NETWORK = "network"


@group.callback()
def escape() -> None:
    """Attempts to get out of a sandbox."""


@group.command("run")
def run(
    boundary: Annotated[Boundaries, typer.Option("--boundary", help="What is to be crossed.")] = Boundaries.NETWORK,
    probe: Annotated[list[str] | None, typer.Option("--probe", metavar="ID", help="Only this one; repeatable.")] = None,
    only_controls: Annotated[
        bool, typer.Option("--only-controls", help="Run no daemon: only see that every control gets out.")
    ] = False,
    json: options.Json = False,
) -> int:
    """Run every probe in a sandbox and its control in the open. Needs root: daemon and internet are its own.

    Exit status 0 only where all ran, none got out, none is inconclusive and every control got out.
    """
    import asyncio

    from opensafe.errors import InvalidArgument
    from opensafe.proof.escape import report as figures
    from opensafe.proof.escape.network import PROBES

    from . import exits, present
    from .report import encode, report

    del boundary  # one so far; naming it keeps the command true when there are more
    wanted = [one for one in PROBES if not probe or one.id in probe]
    if unknown := set(probe or ()) - {one.id for one in wanted}:
        raise InvalidArgument("there is no such probe", value=", ".join(sorted(unknown)))
    with present.progress(f"{len(wanted)} probes"):
        results = asyncio.run(_run(wanted, only_controls=only_controls))
    summary = figures.summary(len(wanted), results)
    ok = summary["controls_breached"] == len(wanted) if only_controls else summary["ok"]
    if json:
        present.raw(encode(report("escape-network", summary | {"ok": ok}, results)))
    else:
        for line in figures.lines(results):
            present.out(line)
        present.out(", ".join(f"{value} {name}" for name, value in summary.items() if name != "ok"))
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


async def _run(probes: "Sequence[Probe]", *, only_controls: bool) -> "tuple[Result, ...]":
    import asyncio
    import tempfile

    from opensafe.bench import private
    from opensafe.proof.escape.policy import ENDED, Bundles
    from opensafe.proof.escape.stage import Stage
    from opensafe.proof.escape.suite import Suite
    from opensafe.proof.world import World

    async with World.open() as world:
        if only_controls:
            return await Suite(Stage(world, None, None, _TEMPLATE), only_controls=True).run(probes)
        with tempfile.TemporaryDirectory(prefix="opensafe-escape-") as path:
            bundles = Bundles(pathlib.Path(path), pathlib.Path(private.programs().bundle))
            bundles.activate(traps=True)
            more = f'[egress]\n{world.egress()}upstream_ca = "{world.ca_file}"\n'
            more += f'[[egress.terminate]]\nname = "{ENDED}"\n'
            roles = {"default": ("developer",)}
            daemon = private.PrivateDaemon("escape", roles, bundle=bundles.place, key=bundles.public, more=more)
            try:
                await asyncio.to_thread(daemon.start)
                return await Suite(Stage(world, daemon, bundles, _TEMPLATE)).run(probes)
            finally:
                await asyncio.to_thread(daemon.stop)
                daemon.remove()
