"""`opensafe escape`: attempts to get out of a sandbox, each beside a control that does get out."""

import os
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from opensafe.proof.escape.probe import Boundary

from . import ending, options

if TYPE_CHECKING:  # a boundary brings netlink, DNS and certificates into the process
    from collections.abc import Callable, Mapping, Sequence

    from opensafe.proof.escape.probe import Probe, Result

group = typer.Typer(help="Attempts to get out of a sandbox.", no_args_is_help=True)


@group.callback()
def escape() -> None:
    """Attempts to get out of a sandbox."""


@group.command("run")
def run(
    boundary: Annotated[
        list[Boundary] | None,
        typer.Option("--boundary", help="What is to be crossed; repeatable. Default: every one."),
    ] = None,
    probe: Annotated[list[str] | None, typer.Option("--probe", metavar="ID", help="Only this one; repeatable.")] = None,
    only_controls: Annotated[
        bool, typer.Option("--only-controls", help="Only see that every control gets out; nothing is contained.")
    ] = False,
    html: Annotated[
        pathlib.Path | None, typer.Option("--html", metavar="FILE", help="Also write the results as one HTML page.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Run every probe in a sandbox and its control in the open. Needs root: daemon and internet are its own.

    Exit status 0 only where all ran, none got out, none is inconclusive and every control got out.
    """
    # Netlink sockets in other namespaces are made by a fork, which gRPC's own handlers, set up at its import, may end.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    import asyncio

    from opensafe.errors import HostUnsuitable, InvalidArgument
    from opensafe.proof.escape import boundaries
    from opensafe.proof.escape import report as figures
    from opensafe.proof.escape.html import render

    from . import exits, present
    from .report import encode, report

    wanted = {one: boundaries.probes(one) for one in boundaries.known() if not boundary or one in boundary}
    if missing := set(boundary or ()) - wanted.keys():
        raise InvalidArgument("there is no probe of it", value=", ".join(sorted(missing)))
    if probe:
        wanted = {one: tuple(p for p in probes if p.id in probe) for one, probes in wanted.items()}
    planned = [one for probes in wanted.values() for one in probes]
    if unknown := set(probe or ()) - {one.id for one in planned}:
        raise InvalidArgument("there is no such probe", value=", ".join(sorted(unknown)))
    if os.geteuid() != 0:
        raise HostUnsuitable("sandboxes and namespaces need root", remedy="Run this as root.")
    if html is not None:
        html.touch()  # what can't be written is told now, and not after minutes
    ending.on_sigterm()
    with present.counting(len(planned), "probes") as ended:
        results = asyncio.run(_run(wanted, only_controls=only_controls, done=lambda result: ended(result.id)))
    summary = figures.summary(len(planned), results)
    ok = summary["controls_breached"] == len(planned) if only_controls else summary["ok"]
    made = report("escape", summary | {"ok": ok}, results)
    if html is not None:
        html.write_text(render(made["summary"], made["environment"], results))
    if json:
        present.raw(encode(made))
    else:
        for line in figures.lines(results):
            present.out(line)
        present.out(", ".join(f"{value} {name}" for name, value in summary.items() if name != "ok"))
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


@group.command("syscalls")
def syscalls(
    profile: Annotated[
        list[str] | None, typer.Option("--profile", help="Only this one; repeatable. Default: every one.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Put the answers down as those expected of this runsc, where all hold.")
    ] = False,
    json: options.Json = False,
) -> int:
    """Make every system call under every profile, by number: x86-64, x32 and int 0x80, with and without arguments.

    Exit status 0 only where all were made, each that is out of policy was answered as its profile states, the same
    without a filter were not, and all are as this version's table has them. Needs root.
    """
    import asyncio

    from opensafe.errors import HostUnsuitable, InvalidArgument
    from opensafe.proof.escape.syscall import figures, table, whole

    from . import exits, present
    from .report import encode, report

    if unknown := set(profile or ()) - set(whole.ALL):
        known = ", ".join(whole.ALL)
        raise InvalidArgument("there is no such profile", value=", ".join(sorted(unknown)), limit=known)
    if os.geteuid() != 0:
        raise HostUnsuitable("sandboxes need root", remedy="Run this as root.")
    profiles = tuple(one for one in whole.ALL if not profile or one in profile)
    ending.on_sigterm()
    with present.counting(len(profiles) + 1, "profiles") as ended:
        found = asyncio.run(whole.run(profiles, ignore_table=write, done=ended))
    if json:
        present.raw(encode(report("escape-syscalls", found.summary, found.swept, runsc=found.version)))
    else:
        for line in figures.lines(found.swept, found.open_differs):
            present.out(line)
        counted = {name: value for name, value in found.summary.items() if name not in ("ok", "runsc", "table")}
        present.out(f"runsc {found.version}: " + ", ".join(f"{value} {name}" for name, value in counted.items()))
    if not found.summary["table"]:
        present.say(f"nobody has looked at this runsc yet: there is no {table.path(found.version).name}; see --write")
    if write and found.summary["ok"]:
        present.say(f"written: {table.write(found.version, found.answers)}")
    return exits.Exit.OK if found.summary["ok"] else exits.Exit.GOAL_MISSED


async def _run(
    wanted: "Mapping[Boundary, Sequence[Probe]]", *, only_controls: bool, done: "Callable[[Result], None]"
) -> "tuple[Result, ...]":
    from opensafe.proof.escape import boundaries

    results: list[Result] = []
    for boundary, probes in wanted.items():
        if probes:
            results += await boundaries.runner(boundary)(probes, only_controls=only_controls, done=done)
    return tuple(results)
