"""`opensafe redteam run`: what OpenSafe stops of what it must stop, and what of honest work with it."""

import enum
import pathlib
from typing import Annotated

import typer

from . import ending, options

group = typer.Typer(help="Attacks against what OpenSafe claims.", no_args_is_help=True)


class Sets(enum.StrEnum):
    """What is attacked, or with what."""

    POLICY = "policy"
    SCENARIOS = "scenarios"
    AGENTDOJO = "agentdojo"


class Halves(enum.StrEnum):
    """Which half of the data set is judged."""

    DEV = "dev"
    TEST = "test"
    ALL = "all"


@group.callback()
def redteam() -> None:
    """Attacks against what OpenSafe claims."""


@group.command("run")
def run(
    attacked: Annotated[
        Sets | None,
        typer.Option(
            "--set",
            help="policy: single calls, judged. scenarios: sessions with sandboxes. agentdojo: injected tasks. "
            "Default: all of them, in one summary.",
        ),
    ] = None,
    half: Annotated[
        Halves, typer.Option("--half", help="Of --set policy: half of the data set; the goal is that of test.")
    ] = Halves.ALL,
    bundle: Annotated[
        pathlib.Path | None,
        typer.Option("--bundle", metavar="FILE", help="For single calls. Default: this checkout's, or the installed."),
    ] = None,
    trust: Annotated[
        pathlib.Path | None, typer.Option("--trust", metavar="FILE", help="Public key that the bundle is signed for.")
    ] = None,
    cases: Annotated[
        pathlib.Path | None, typer.Option("--cases", metavar="DIR", help="The data set. Default: this checkout's.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Of --set scenarios or agentdojo: family or suite; repeatable."),
    ] = None,
    baseline: Annotated[
        pathlib.Path | None,
        typer.Option("--baseline", metavar="FILE", help="An earlier --json: say what changed, and fail where worse."),
    ] = None,
    reports: Annotated[
        pathlib.Path | None,
        typer.Option("--reports", metavar="DIR", help="Keep the report there; the last one there is the baseline."),
    ] = None,
    json: options.Json = False,
) -> int:
    """Attack, beside honest work. --set policy needs no daemon and no root; the others start daemons of their own.

    Exit status 0 only where the goals hold and, with a baseline, nothing is worse.
    """
    from opensafe.errors import InvalidArgument
    from opensafe.proof import baseline as proof

    from . import exits, present, redteam_sets
    from .report import encode

    if only and attacked not in (Sets.SCENARIOS, Sets.AGENTDOJO):
        raise InvalidArgument("--only goes with --set scenarios or agentdojo", value=", ".join(only))
    if half is not Halves.ALL and attacked is not Sets.POLICY:
        raise InvalidArgument("--half goes with --set policy", value=half)
    calls = redteam_sets.Calls(half=half, bundle=bundle, trust=trust, cases=cases)
    before = proof.read(baseline) if baseline else None  # a night is too long to learn then that it can't be read
    ending.on_sigterm()
    found = redteam_sets.RUNNERS[attacked or "all"](calls, tuple(only or ()))
    if before is None and reports:
        before = redteam_sets.last_report(reports, found.report["schema"])
    compared = proof.compare(before, found.report) if before else None
    ok = found.report["summary"]["ok"] and not (compared and compared.worse)
    found.add(compared, ok=ok)
    if reports:
        redteam_sets.keep_report(reports, encode(found.report))
    if json:
        present.raw(encode(found.report))
    else:
        for line in (*found.lines, *(proof.lines(compared) if compared else ())):
            present.out(line)
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED
