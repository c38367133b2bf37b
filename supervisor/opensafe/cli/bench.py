"""`opensafe bench`: figures beside a baseline in the same run, each with the goal that it has to meet."""

from typing import Annotated

import typer

from . import (
    auditing,
    browsing,
    connecting,
    crowding,
    deciding,
    ending,
    executing,
    figures,
    options,
    pooling,
    soaking,
    stressing,
)

group = typer.Typer(help="Figures beside a baseline in the same run.", no_args_is_help=True)
group.command("decision")(deciding.decision)
group.command("load")(deciding.load)
group.command("exec")(executing.exec_)
group.command("soak")(soaking.soak)
group.command("stress")(stressing.stress)
group.command("pool")(pooling.pool)
group.command("density")(crowding.density)
group.command("audit")(auditing.audit)
group.command("console")(browsing.console)
group.command("egress")(connecting.egress)


@group.command("reload")
def reload_(
    runs: Annotated[int, typer.Option("--runs", min=1, help="Changes of each kind.")] = 40,
    max_bundle_ms: Annotated[float, typer.Option("--max-bundle-ms", help="Goal: 95th percentile, new module.")] = 200,
    max_cached_ms: Annotated[float, typer.Option("--max-cached-ms", help="Goal: the same, module cached.")] = 50,
    max_source_ms: Annotated[float, typer.Option("--max-source-ms", help="Goal: from a changed rule.")] = 500,
    policies: figures.Policies = None,
    json: options.Json = False,
) -> int:
    """Time bundles, from being put in place to a verdict. Needs root: the daemon is one of its own."""
    from opensafe.bench import reload as bench
    from opensafe.proof import private

    from . import exits, present
    from .report import encode, report

    ending.on_sigterm()
    host = figures.host()
    with present.progress(f"{3 * runs} changes"):
        measured = bench.measure(private.PREFIX / "bin/opa", policies or private.policies(), runs)
    goals = {"bundle": max_bundle_ms, "bundle_cached": max_cached_ms, "source": max_source_ms}
    times = {"bundle": measured.bundle, "bundle_cached": measured.cached, "source": measured.source}
    ok = all(times[name].p95_ms <= goal for name, goal in goals.items())
    if json:
        summary: dict[str, bool | float] = {"ok": ok}
        for name, found in times.items():
            summary |= {f"{name}_p50_ms": found.p50_ms, f"{name}_p95_ms": found.p95_ms}
        summary |= {f"goal_{name}_p95_ms": goal for name, goal in goals.items()}
        present.raw(encode(report("bench-reload", summary, measured, **host)))
    else:
        present.out(f"{runs} changes of each kind; median/95th percentile, ms")
        rows = [(name.replace("_", " "), figures.pair(found), f"{goals[name]:g}") for name, found in times.items()]
        figures.show(figures.table(("change", "enforced", "goal"), rows))
        present.out(f"goal: 95th percentiles: {figures.verdict(ok)}")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED
