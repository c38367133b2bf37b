"""`opensafe bench pool`: warm and cold sandboxes beside runsc's own."""

from typing import Annotated

import typer

from . import ending, figures, options


def pool(
    runs: Annotated[int, typer.Option("--runs", min=1, help="Rounds that count.")] = 40,
    claims: Annotated[int, typer.Option("--claims", min=1, help="How many ask at once.")] = 200,
    ready: Annotated[int, typer.Option("--ready", min=1, help="How many the pool keeps ready.")] = 20,
    max_warm_ms: Annotated[float, typer.Option("--max-warm-ms", help="Goal: median, warm.")] = 15.0,
    max_cold_ratio: Annotated[float, typer.Option("--max-cold-ratio", help="Goal: median, cold to runsc.")] = 0.8,
    json: options.Json = False,
) -> int:
    """Time first programs in fresh sandboxes, and claims at once. Needs root: the daemon is one of its own."""
    from opensafe.bench import pool as bench

    from . import exits, present
    from .report import encode, report

    ending.on_sigterm()
    host = figures.host()
    with present.progress(f"{runs} rounds"):
        measured = bench.measure(runs, max(1, round(runs * figures.WARM_UP)), claims, ready)
    whole = measured.served == min(claims, measured.ready) and not measured.shared
    ok = measured.warm.p50_ms <= max_warm_ms and measured.ratio <= max_cold_ratio and whole
    if json:
        summary = {
            "ok": ok,
            "warm_p50_ms": measured.warm.p50_ms,
            "warm_p95_ms": measured.warm.p95_ms,
            "cold_p50_ms": measured.cold.p50_ms,
            "stock_p50_ms": measured.stock.p50_ms,
            "cold_to_stock_ratio": measured.ratio,
            "claims": measured.claims,
            "served": measured.served,
            "shared": measured.shared,
            "goal_warm_p50_ms": max_warm_ms,
            "goal_cold_to_stock_ratio": max_cold_ratio,
        }
        present.raw(encode(report("bench-pool", summary, measured, runsc=measured.runsc, **host)))
    else:
        present.out("to the end of the first program; median/95th percentile, ms")
        rows = [
            ("warm", figures.pair(measured.warm), figures.pair(measured.claim)),
            ("cold", figures.pair(measured.cold), figures.pair(measured.create)),
            ("runsc create, start, exec", figures.pair(measured.stock), ""),
        ]
        figures.show(figures.table(("sandbox", "all", "warden's part"), rows))
        present.out(f"cold to runsc: {measured.ratio:.2f}")
        present.out(
            f"{measured.claims} claims at once on {measured.ready} ready: {measured.served} served "
            f"({figures.pair(measured.burst)} ms), {measured.shared} shared"
        )
        goals = f"warm at most {max_warm_ms:g} ms, cold to runsc at most {max_cold_ratio:g}"
        present.out(f"goal: {goals}: {figures.verdict(ok)}")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED
