"""`opensafe fuzz`: coverage-guided runs of the targets in fuzz/, and whether each target would see a fault."""

import enum
import os
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from . import ending, options

if TYPE_CHECKING:  # a target brings the code that it tries into the process
    from opensafe.proof.fuzzing.killing import Killed
    from opensafe.proof.fuzzing.running import Finding, Run


class Engines(enum.StrEnum):
    """Where the batches of a campaign run."""

    LOCAL = "local"
    RAY = "ray"


group = typer.Typer(help="Our parsers and our gate against inputs that coverage finds.", no_args_is_help=True)

_Target = Annotated[str, typer.Argument(metavar="TARGET", help="Its id, such as F5.")]
_Seconds = Annotated[int, typer.Option("--seconds", min=1, help="Until it ends, if not before.")]


@group.callback()
def fuzz() -> None:
    """Our parsers and our gate against inputs that coverage finds."""


@group.command("list")
def listed(json: options.Json = False) -> int:
    """Print the targets of this checkout."""
    from opensafe.proof.fuzzing.catalogue import targets

    from . import exits, present
    from .report import encode, report

    known = [(each.target, sum(1 for _ in each.kept())) for each in targets()]
    if json:
        rows = [
            {
                "id": one.id,
                "title": one.title,
                "modules": one.modules,
                "floor": one.floor,
                "mutants": [mutant.id for mutant in one.mutants],
                "kept": kept,
            }
            for one, kept in known
        ]
        present.raw(encode(report("fuzz-list", {"targets": len(rows)}, rows)))
    else:
        cells = [[one.id, str(len(one.mutants)), str(kept), one.title] for one, kept in known]
        for line in present.table(["target", "mutants", "kept", "what is tried"], cells):
            present.out(line)
    return exits.Exit.OK


@group.command("run")
def run(
    target: _Target,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Inputs to run, seeds and kept ones included.")] = 10_000,
    seconds: _Seconds = 60,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the mutations; 0 takes one and says which.")] = 0,
    keep: Annotated[
        pathlib.Path | None,
        typer.Option("--keep", metavar="DIR", help="Write inputs there that reach something new."),
    ] = None,
    save: Annotated[
        pathlib.Path | None, typer.Option("--save", metavar="FILE", help="Write an input that breaks an invariant.")
    ] = None,
    replay: Annotated[
        pathlib.Path | None, typer.Option("--input", metavar="FILE", help="Run this input alone, outside of atheris.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Run one target. Needs opensafe[fuzz], and no daemon.

    Exit status 0 only where inputs ran, reached something new and the target's floor, and broke no invariant.
    """
    from opensafe.proof.fuzzing import catalogue, running

    from . import exits, present
    from .report import encode, report

    located = catalogue.target(target)
    if replay is not None:
        broken = running.replay(located, [replay.read_bytes()])
        if json:
            present.raw(encode(report("fuzz-input", {"ok": broken is None}, broken)))
        else:
            _print_finding(located.target.id, broken) if broken else present.out("every invariant holds")
        return exits.Exit.OK if broken is None else exits.Exit.GOAL_MISSED
    ending.on_sigterm()
    with present.progress(f"{located.target.id}: {runs} inputs"):
        done = running.run(located, runs=runs, seconds=seconds, seed=seed, keep=keep)
    if save is not None and done.finding is not None:
        save.write_bytes(done.finding.input)
    if json:
        present.raw(encode(report("fuzz", _summary(done), done)))
    else:
        _print(done)
    return exits.Exit.OK if done.ok else exits.Exit.GOAL_MISSED


@group.command("mutants")
def mutants(
    target: Annotated[str | None, typer.Argument(metavar="TARGET", help="Default: every one.")] = None,
    seconds: _Seconds = 60,
    json: options.Json = False,
) -> int:
    """Put each target's faults into a copy of our code, one at a time, and see that the target finds each.

    Exit status 0 only where every one was found, by an input with which the code as it is has no trouble.
    """
    from opensafe.proof.fuzzing import catalogue, killing

    from . import exits, present
    from .report import encode, report

    chosen = [catalogue.target(target)] if target else list(catalogue.targets())
    planned = [(located, mutant) for located in chosen for mutant in located.target.mutants]
    ended: list[Killed] = []
    ending.on_sigterm()
    with present.counting(len(planned), "mutants") as told:
        for located, mutant in planned:
            ended.append(killing.kill(located, mutant, seconds=seconds))
            told(mutant.id)
    killed = sum(one.ok for one in ended)
    ok = killed == len(planned) > 0
    if json:
        summary = {"ok": ok, "targets": len(chosen), "planned": len(planned), "killed": killed}
        present.raw(encode(report("fuzz-mutants", summary, ended)))
    else:
        for one in ended:
            verdict = f"killed: {one.broken}" if one.ok else f"SURVIVED: {one.why}"
            present.out(f"{one.mutant} ({one.says}): {verdict}; {one.executed} inputs, {one.seconds:.1f} s")
        present.out(f"{killed} of {len(planned)} mutants killed")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


@group.command("campaign")
def campaign(
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs that must be complete.")] = 8000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed is the same runs; 0 takes one.")] = 0,
    size: Annotated[int, typer.Option("--size", min=2, max=100, help="Runs in one sandbox.")] = 100,
    width: Annotated[int, typer.Option("--width", min=1, help="Sandboxes at a time.")] = 2,
    engine: Annotated[Engines, typer.Option("--engine", help="Here, or on a Ray cluster's nodes.")] = Engines.LOCAL,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOST:PORT", help="Ray's. Default: RAY_ADDRESS.")
    ] = None,
    resume: Annotated[
        pathlib.Path | None, typer.Option("--resume", metavar="DIR", help="Keep progress there, and go on from it.")
    ] = None,
    html: Annotated[pathlib.Path | None, typer.Option("--html", metavar="FILE", help="Write a page.")] = None,
    json: options.Json = False,
) -> int:
    """Sequences of system calls in sandboxes, and of tool calls through a daemon, under oracles on the host.

    Needs root. Breaches are planted first, and each must be raised. Exit status 0 only where that many runs are
    complete, a quarter of them tool calls, and no oracle was raised.
    """
    from opensafe.errors import HostUnsuitable
    from opensafe.proof.campaign import corpus
    from opensafe.proof.campaign.progress import Settings

    from . import campaigning

    if os.geteuid() != 0:
        raise HostUnsuitable("sandboxes and namespaces need root", remedy="Run this as root.")
    settings = Settings(runs=runs, seed=campaigning.seed_or_new(seed), size=size, corpus=corpus.kept().digest)
    where = campaigning.Where(cluster=engine is Engines.RAY, address=address, width=width)
    return campaigning.run(settings, where, resume=resume, html=html, json=json)


def _summary(done: "Run") -> dict[str, object]:
    return {
        "ok": done.ok,
        "planned": done.planned,
        "executed": done.executed,
        "seconds": done.seconds,
        "coverage": done.coverage,
        "floor": done.floor,
        "features": done.features,
        "new_units": done.new_units,
        "vacuous": done.vacuous,
        "findings": int(done.finding is not None),
    }


def _print(done: "Run") -> None:
    from . import present

    present.out(
        f"{done.target}: {done.executed} of {done.planned} inputs in {done.seconds:.1f} s, {done.coverage} edges "
        f"(floor {done.floor}), {done.features} features, {done.new_units} inputs reached something new; "
        f"seed {done.seed}"
    )
    if done.vacuous:
        present.out(f"VACUOUS: {done.vacuous}")
    if done.finding is not None:
        _print_finding(done.target, done.finding)


def _print_finding(target: str, finding: "Finding") -> None:
    from . import present

    present.out(f"BROKEN: {finding.kind}")
    for line in (finding.trace or finding.message).splitlines():
        present.out(f"  | {line}")
    present.out(f"input, {len(finding.input)} bytes: {finding.input.hex()}")
    present.out("to run it again: put these bytes into a file,")
    present.out(f"  printf %s HEX | xxd -r -p > input && opensafe fuzz run {target} --input input")
