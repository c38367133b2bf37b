"""`opensafe bench exec`: gated executions beside other ways to run a program."""

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from . import ending, figures, options

if TYPE_CHECKING:  # measuring brings the daemon's parts into the process
    from collections.abc import Iterator

    from rich.table import Table

    from opensafe.bench.exec import Measured, Row

Ratio = Annotated[float, typer.Option("--max-ratio", help="Goal: median of gated to raw `bash -c true`.")]
Tail = Annotated[float, typer.Option("--max-p95-ratio", help="Goal: the same of the 95th percentiles.")]
Python = Annotated[float, typer.Option("--max-python-ratio", help="Goal: median of gated to raw `python3 -c pass`.")]
Runsc = Annotated[float, typer.Option("--max-runsc-ratio", help="Goal: median of `bash -c true` to `runsc exec`.")]
Parallel = Annotated[float, typer.Option("--min-parallel", help="Goal: throughput of eight streams to raw.")]
Bulk = Annotated[float, typer.Option("--min-bulk", help="Goal: bulk output to a bare gRPC stream.")]
Memory = Annotated[float, typer.Option("--max-pss-mb", help="Goal: PSS of warden, front and helper together.")]

#: Rounds to one batch of a parallel stream: four batches are run both ways.
_ROUNDS_A_BATCH = 16


def exec_(
    runs: Annotated[int, typer.Option("--runs", min=1, help="Rounds that count.")] = 200,
    bulk_mb: Annotated[int, typer.Option("--bulk-mb", min=1, help="Bulk output, 2^20 bytes.")] = 256,
    max_ratio: Ratio = 2.0,
    max_p95_ratio: Tail = 2.5,
    max_python_ratio: Python = 1.35,
    max_runsc_ratio: Runsc = 1.0,
    min_parallel: Parallel = 0.75,
    min_bulk: Bulk = 0.5,
    max_pss_mb: Memory = 200.0,
    peers: Annotated[
        pathlib.Path | None, typer.Option("--peers", metavar="DIR", help="The libraries' environment; `make peers`.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Time gated executions beside raw ones and other ways. Needs root: the daemon is one of its own."""
    from opensafe.bench import exec as bench
    from opensafe.bench.peers import environment

    from . import exits, present
    from .report import encode, report

    ending.on_sigterm()
    host = figures.host()
    sizes = bench.Sizes(
        rounds=runs,
        warm_up=round(runs * figures.WARM_UP),
        each=-(-runs // _ROUNDS_A_BATCH),
        bulk=bulk_mb << 20,
    )
    with present.progress(f"{runs} rounds"):
        measured = bench.measure(sizes, peers or environment())
    found = headline(measured)
    most = {
        "bash_p50_ratio": max_ratio,
        "bash_p95_ratio": max_p95_ratio,
        "python_p50_ratio": max_python_ratio,
        "bash_to_runsc_exec": max_runsc_ratio,
        "pss_mb": max_pss_mb,
    }
    least = {"parallel_ratio": min_parallel, "bulk_ratio": min_bulk}
    missed = [
        *(name for name, goal in most.items() if found[name] > goal),
        *(name for name, goal in least.items() if found[name] < goal),
    ]
    if json:
        goals = {f"goal_{name}": goal for name, goal in (most | least).items()}
        summary: dict[str, object] = {"ok": not missed, **found, **goals}
        present.raw(encode(report("bench-exec", summary, measured, runsc=measured.runsc, **host)))
    else:
        present.out("median/95th percentile, ms; ratios to raw")
        for row in measured.rows.values():
            figures.show(_table(row))
        for line in _remarks(measured):
            present.out(line)
        for name, goal in (most | least).items():
            bound = "at most" if name in most else "at least"
            present.out(f"goal: {name} {found[name]:.2f}, {bound} {goal:g}: {figures.verdict(name not in missed)}")
    return exits.Exit.GOAL_MISSED if missed else exits.Exit.OK


def headline(measured: "Measured") -> dict[str, float]:
    """What the goals are about, and the shares of what is around a program."""
    rows = measured.rows
    bash = rows["bash"]
    return {
        **{f"{name}_p50_ratio": row.ratio() for name, row in rows.items()},
        **{f"{name}_p95_ratio": row.ratio(percentile="p95_ms") for name, row in rows.items()},
        "bash_to_runsc_exec": bash.ratio(to="runsc"),
        "bash_runner_p50_ratio": bash.ratio("runner"),
        "bash_watched_p50_ratio": bash.ratio("watched"),
        "gated_bash_p50_ms": bash.times["gated"].p50_ms,
        "raw_bash_p50_ms": bash.times["raw"].p50_ms,
        "parallel_ratio": measured.parallel.ratio,
        "bulk_ratio": measured.bulk.ratio,
        "pss_mb": measured.pss_mb,
    }


def _table(row: "Row") -> "Table":
    name = " ".join((pathlib.Path(row.argv[0]).name, *row.argv[1:]))
    return figures.table(
        (name, "time", "p50", "p95"),
        [
            (way, figures.pair(times), f"{row.ratio(way):.2f}", f"{row.ratio(way, percentile='p95_ms'):.2f}")
            for way, times in row.times.items()
        ],
    )


def _remarks(measured: "Measured") -> "Iterator[str]":
    for name, row in measured.rows.items():
        yield f"gated {name}: decision {row.decision.p50_ms:.1f} ms, run {row.run.p50_ms:.1f} ms"
    for name, other in measured.others.items():
        if other.error:
            yield f"{name} {other.version}: {other.error}".replace(" :", ":")
    side, bulk = measured.parallel, measured.bulk
    yield f"{side.streams} streams: {side.ours_per_s:.0f} programs a second, raw {side.raw_per_s:.0f}"
    yield f"bulk: {bulk.ours_mb_per_s:.0f} MB/s, a bare gRPC stream {bulk.bare_mb_per_s:.0f}"
    yield f"PSS: {', '.join(f'{name} {used.pss / 1e6:.0f} MB' for name, used in measured.memory.items())}"
