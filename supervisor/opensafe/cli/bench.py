"""`opensafe bench`: figures beside a baseline in the same run, each with the goal that it has to meet."""

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:  # measuring brings the daemon's parts into the process
    from rich.table import Table

    from opensafe.bench import decision as decision_bench
    from opensafe.bench import exec as exec_bench
    from opensafe.bench.timing import Times

group = typer.Typer(help="Figures beside a baseline in the same run.", no_args_is_help=True)

#: What is thrown away first, as a share of the rounds that count.
_WARM_UP = 0.1

Ratio = Annotated[float, typer.Option("--max-ratio", help="Goal: median of gated to raw `bash -c true`.")]
Memory = Annotated[float, typer.Option("--max-pss-mb", help="Goal: PSS of warden, front and helper together.")]
Decision = Annotated[float, typer.Option("--max-ms", help="Goal: median of the slowest call, bytes to verdict.")]
Policies = Annotated[
    pathlib.Path | None,
    typer.Option("--policies", metavar="DIR", help="The bundle's Rego sources. Default: this checkout's."),
]


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

    _end_on_sigterm()
    host = _host()
    with present.progress(f"{runs} rounds"):
        measured = bench.measure(runs, round(runs * _WARM_UP))
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
        _print(_exec_table(measured))
        parts = ", ".join(f"{name} {used.pss / 1e6:.0f}" for name, used in measured.memory.items())
        present.out(f"PSS {measured.pss_mb:.0f} MB ({parts})")
        present.out(f"goal: bash ratio at most {max_ratio:g}, PSS at most {max_pss_mb:g} MB: {_verdict(ok)}")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


@group.command("decision")
def decision(
    runs: Annotated[int, typer.Option("--runs", min=2, help="Rounds of each call that count.")] = 2000,
    max_ms: Decision = 1.0,
    policies: Policies = None,
    json: options.Json = False,
) -> int:
    """Time decisions beside OPA's own evaluator in Go. Needs no daemon and no root."""
    from opensafe.bench import decision as bench
    from opensafe.bench import private

    from . import exits, present
    from .report import encode, report

    host = _host()
    with present.progress(f"{len(bench.CALLS)} calls"):
        measured = bench.measure(
            pathlib.Path(private.programs().bundle),
            private.PREFIX / "bin" / "opa",
            policies or private.policies(),
            runs,
            round(runs * _WARM_UP),
        )
    rows = measured.rows.values()
    slowest = max(row.whole.p50_ms for row in rows)
    ok = slowest <= max_ms
    if json:
        summary = {
            "ok": ok,
            "decision_p50_ms": slowest,
            "evaluate_p50_ms": max(row.evaluate.p50_ms for row in rows),
            "ratio_to_opa_go": max(row.ratio_to_opa_go for row in rows),
            "goal_decision_p50_ms": max_ms,
        }
        present.raw(encode(report("bench-decision", summary, measured, **host)))
    else:
        present.out(f"bundle {measured.revision}; median/99th percentile, ms")
        _print(_decision_table(measured))
        present.out(f"goal: the slowest median at most {max_ms:g} ms: {_verdict(ok)}")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


@group.command("reload")
def reload_(
    runs: Annotated[int, typer.Option("--runs", min=1, help="Changes of each kind.")] = 40,
    max_bundle_ms: Annotated[float, typer.Option("--max-bundle-ms", help="Goal: 95th percentile, new module.")] = 200,
    max_cached_ms: Annotated[float, typer.Option("--max-cached-ms", help="Goal: the same, module cached.")] = 50,
    max_source_ms: Annotated[float, typer.Option("--max-source-ms", help="Goal: from a changed rule.")] = 500,
    policies: Policies = None,
    json: options.Json = False,
) -> int:
    """Time bundles, from being put in place to a verdict. Needs root: the daemon is one of its own."""
    from opensafe.bench import private
    from opensafe.bench import reload as bench

    from . import exits, present
    from .report import encode, report

    _end_on_sigterm()
    host = _host()
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
        rows = [(name.replace("_", " "), _pair(found), f"{goals[name]:g}") for name, found in times.items()]
        _print(_table(("change", "enforced", "goal"), rows))
        present.out(f"goal: 95th percentiles: {_verdict(ok)}")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


def _exec_table(measured: "exec_bench.Measured") -> "Table":
    return _table(
        ("program", "raw", "with runner", "gated", "ratio", "decision", "run"),
        [
            (_short(row.argv), _pair(row.raw), _pair(row.runner), _pair(row.gated), f"{row.ratio:.2f}",
             f"{row.decision.p50_ms:.1f}", f"{row.run.p50_ms:.1f}")
            for row in measured.rows.values()
        ],
    )  # fmt: skip


def _decision_table(measured: "decision_bench.Measured") -> "Table":
    return _table(
        ("call", "verdict", "whole way", "evaluation", "OPA in Go", "ratio"),
        [
            (
                name,
                row.action,
                _far(row.whole),
                _far(row.evaluate),
                f"{row.opa_go_ms:.3f}",
                f"{row.ratio_to_opa_go:.2f}",
            )
            for name, row in measured.rows.items()
        ],
    )


def _short(argv: tuple[str, ...]) -> str:
    return " ".join((pathlib.Path(argv[0]).name, *argv[1:]))


def _pair(times: "Times") -> str:
    return f"{times.p50_ms:.1f}/{times.p95_ms:.1f}"


def _far(times: "Times") -> str:
    return f"{times.p50_ms:.3f}/{times.p99_ms:.3f}"


def _verdict(ok: bool) -> str:
    return "met" if ok else "MISSED"


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _print(table: "Table") -> None:
    from rich.console import Console

    Console(highlight=False).print(table)


def _host() -> dict[str, str | float]:
    """What a figure depends on besides the versions; the load is that before the run."""
    import os

    models = [line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].partition(": ")[2] if models else "unknown"
    return {"cpu_model": model, "load_average_1m": round(os.getloadavg()[0], 2)}


def _end_on_sigterm() -> None:
    """As on SIGINT: the daemon is stopped and removed on the way out."""
    import signal

    from .exits import Exit

    def end(*_: object) -> None:
        raise typer.Exit(Exit.TERMINATED)

    signal.signal(signal.SIGTERM, end)
