"""`opensafe bench`: figures beside a baseline in the same run, each with the goal that it has to meet."""

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from . import deciding, figures, options, soaking

if TYPE_CHECKING:  # measuring brings the daemon's parts into the process
    from rich.table import Table

    from opensafe.bench import exec as exec_bench

group = typer.Typer(help="Figures beside a baseline in the same run.", no_args_is_help=True)
group.command("decision")(deciding.decision)
group.command("load")(deciding.load)
group.command("soak")(soaking.soak)

Ratio = Annotated[float, typer.Option("--max-ratio", help="Goal: median of gated to raw `bash -c true`.")]
Memory = Annotated[float, typer.Option("--max-pss-mb", help="Goal: PSS of warden, front and helper together.")]


@group.command("exec")
def exec_(
    runs: Annotated[int, typer.Option("--runs", min=1, help="Rounds that count.")] = 200,
    max_ratio: Ratio = 2.5,
    max_pss_mb: Memory = 200.0,
    json: options.Json = False,
) -> int:
    """Time gated executions beside raw ones in one sandbox. Needs root: the daemon is one of its own."""
    from opensafe.bench import exec as bench

    from . import exits, present
    from .report import encode, report

    figures.end_on_sigterm()
    host = figures.host()
    with present.progress(f"{runs} rounds"):
        measured = bench.measure(runs, round(runs * figures.WARM_UP))
    bash = measured.rows["bash"]
    ok = bash.ratio <= max_ratio and measured.pss_mb <= max_pss_mb
    if json:
        summary = {
            "ok": ok,
            **{f"{name}_p50_ratio": row.ratio for name, row in measured.rows.items()},
            "gated_bash_p50_ms": bash.gated.p50_ms,
            "raw_bash_p50_ms": bash.raw.p50_ms,
            "pss_mb": measured.pss_mb,
            "goal_bash_p50_ratio": max_ratio,
            "goal_pss_mb": max_pss_mb,
        }
        present.raw(encode(report("bench-exec", summary, measured, runsc=measured.runsc, **host)))
    else:
        present.out("median/95th percentile, ms; of decision and run the median")
        figures.show(_exec_table(measured))
        parts = ", ".join(f"{name} {used.pss / 1e6:.0f}" for name, used in measured.memory.items())
        present.out(f"PSS {measured.pss_mb:.0f} MB ({parts})")
        present.out(f"goal: bash ratio at most {max_ratio:g}, PSS at most {max_pss_mb:g} MB: {figures.verdict(ok)}")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


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
    from opensafe.bench import private
    from opensafe.bench import reload as bench

    from . import exits, present
    from .report import encode, report

    figures.end_on_sigterm()
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


def _exec_table(measured: "exec_bench.Measured") -> "Table":
    return figures.table(
        ("program", "raw", "gated", "ratio", "decision", "run"),
        [
            (
                _short(row.argv),
                *map(figures.pair, (row.raw, row.gated)),
                f"{row.ratio:.2f}",
                f"{row.decision.p50_ms:.1f}",
                f"{row.run.p50_ms:.1f}",
            )
            for row in measured.rows.values()
        ],
    )


def _short(argv: tuple[str, ...]) -> str:
    return " ".join((pathlib.Path(argv[0]).name, *argv[1:]))
