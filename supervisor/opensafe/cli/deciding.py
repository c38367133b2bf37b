"""`opensafe bench decision` and `load`: our evaluator beside its peers, and decisions beside other work."""

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from . import ending, figures, options

if TYPE_CHECKING:  # measuring brings the daemon's parts into the process
    from collections.abc import Iterator

    from opensafe.bench.decision import Measured

Ratio = Annotated[float, typer.Option("--max-ratio", help="Goal: evaluation to OPA in Go, of the worst row's medians.")]
Ordinary = Annotated[float, typer.Option("--max-p50-ms", help="Goal: median evaluation of each ordinary call.")]
Worst = Annotated[float, typer.Option("--max-worst-ms", help="Goal: the same of the worst of the data set.")]
Tail = Annotated[float, typer.Option("--max-p99-ms", help="Goal: 99th percentile of each evaluation.")]
Whole = Annotated[float, typer.Option("--max-ms", help="Goal: median of the slowest call, bytes to verdict.")]


def decision(
    runs: Annotated[int, typer.Option("--runs", min=2, help="Rounds of each call that count.")] = 2000,
    max_ratio: Ratio = 0.35,
    max_p50_ms: Ordinary = 0.15,
    max_worst_ms: Worst = 0.25,
    max_p99_ms: Tail = 0.5,
    max_ms: Whole = 1.0,
    coverage: Annotated[bool, typer.Option(help="Run the rules' tests for their coverage.")] = True,
    policies: figures.Policies = None,
    peers: Annotated[
        pathlib.Path | None, typer.Option("--peers", metavar="DIR", help="The peers' environment; `make peers`.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Time decisions beside OPA in Go and evaluators for Python. Needs no daemon and no root."""
    from opensafe.bench import decision as bench
    from opensafe.bench.peers import environment
    from opensafe.policy.sources import Sources
    from opensafe.proof import private

    from . import exits, present
    from .report import encode, report

    host = figures.host()
    sources = policies or private.policies()
    opa = private.PREFIX / "bin" / "opa"
    with present.progress(f"{len(bench.CALLS) + 1} calls"):
        measured = bench.measure(
            pathlib.Path(private.programs().bundle),
            opa,
            sources,
            peers or environment(),
            runs,
            round(runs * figures.WARM_UP),
        )
        covered = round(Sources(opa, sources).test().coverage, 2) if coverage else None
    found = headline(measured)
    goals = {
        "ratio_to_opa_go": max_ratio,
        "ordinary_p50_ms": max_p50_ms,
        "worst_p50_ms": max_worst_ms,
        "evaluate_p99_ms": max_p99_ms,
        "decision_p50_ms": max_ms,
    }
    missed = [name for name, goal in goals.items() if found[name] > goal]
    if json:
        summary: dict[str, object] = {"ok": not missed, "rules": measured.rules}
        if covered is not None:
            summary["coverage"] = covered
        summary |= found | {f"goal_{name}": goal for name, goal in goals.items()}
        present.raw(encode(report("bench-decision", summary, measured, **host)))
    else:
        covers = "" if covered is None else f", {covered:.1f} % of lines covered"
        present.out(f"bundle {measured.revision}, {measured.rules} rules{covers}; median/95th/99th percentile, ms")
        figures.show(figures.table(("call and evaluator", "verdict", "time", "ours to it"), list(_lines(measured))))
        for name, peer in measured.peers.items():
            if peer.error:
                present.out(f"{name} {peer.version}: no figure. {peer.error}")
        for name, goal in goals.items():
            present.out(f"goal: {name} {found[name]:.3f}, at most {goal:g}: {figures.verdict(name not in missed)}")
    return exits.Exit.GOAL_MISSED if missed else exits.Exit.OK


def load(
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, max=300, help="Of each of the three parts.")] = 15.0,
    max_streams_p99_ms: Annotated[
        float, typer.Option("--max-streams-p99-ms", help="Goal: 99th percentile beside ordinary streams.")
    ] = 5.0,
    max_saturated_p99_ms: Annotated[
        float, typer.Option("--max-saturated-p99-ms", help="Goal: the same beside saturating streams.")
    ] = 30.0,
    json: options.Json = False,
) -> int:
    """Time decisions through gRPC while programs write. Needs root: the daemon is one of its own."""
    from opensafe.bench import load as bench

    from . import exits, present
    from .report import encode, report

    ending.on_sigterm()
    host = figures.host()
    with present.progress(f"three times {seconds:g} s"):
        measured = bench.measure(seconds)
    rows = {"idle": measured.idle, "streams": measured.ordinary, "saturated": measured.saturated}
    goals = {"streams": max_streams_p99_ms, "saturated": max_saturated_p99_ms}
    missed = [name for name, goal in goals.items() if rows[name].decide.p99_ms > goal]
    if json:
        summary: dict[str, object] = {"ok": not missed}
        for name, row in rows.items():
            summary |= {f"{name}_p50_ms": row.decide.p50_ms, f"{name}_p99_ms": row.decide.p99_ms}
            summary[f"{name}_mb_per_s"] = row.mb_per_s
        summary |= {f"goal_{name}_p99_ms": goal for name, goal in goals.items()}
        present.raw(encode(report("bench-load", summary, measured, runsc=measured.runsc, **host)))
    else:
        present.out("one client's decisions; median/95th/99th percentile, ms")
        lines = [
            (name, str(row.streams), f"{row.mb_per_s:.1f}", str(row.decide.count), figures.three(row.decide))
            for name, row in rows.items()
        ]
        figures.show(figures.table(("beside", "streams", "MB/s", "decisions", "time"), lines))
        for name, goal in goals.items():
            present.out(f"goal: {name} p99 at most {goal:g} ms: {figures.verdict(name not in missed)}")
    return exits.Exit.GOAL_MISSED if missed else exits.Exit.OK


def headline(measured: "Measured") -> dict[str, float]:
    """The figures that have goals. Without a data set the worst is the slowest of the ordinary calls."""
    rows = measured.rows.values()
    return {
        "ratio_to_opa_go": max(row.ratio_to_opa_go for row in rows),
        "ordinary_p50_ms": max(row.evaluate.p50_ms for row in measured.ordinary),
        "worst_p50_ms": max(row.evaluate.p50_ms for row in rows),
        "evaluate_p99_ms": max(row.evaluate.p99_ms for row in rows),
        "decision_p50_ms": max(row.whole.p50_ms for row in rows if row.whole is not None),
    }


def _lines(measured: "Measured") -> "Iterator[tuple[str, ...]]":
    for name, row in measured.rows.items():
        yield (f"{name} {row.case}".rstrip(), row.action, "", "")
        if row.whole is not None:
            yield ("  whole way", "", figures.three(row.whole), "")
        yield ("  evaluation", "", figures.three(row.evaluate), "")
        for peer, times in {"OPA in Go": row.opa_go, **row.peers}.items():
            yield (f"  {peer}", "", figures.three(times), f"{row.evaluate.p50_ms / times.p50_ms:.2f}")
