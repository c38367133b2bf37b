"""`opensafe bench console`: how soon a person at a browser sees something."""

from typing import Annotated

import typer

from . import ending, figures, options


def console(
    runs: Annotated[int, typer.Option("--runs", min=1, help="Page loads, and single calls.")] = 30,
    events: Annotated[int, typer.Option("--events", min=60, help="Records a minute, of the busy part.")] = 10_000,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long the busy part lasts.")] = 20,
    max_paint_ms: Annotated[float, typer.Option("--max-paint-ms", help="Goal: first paint, 95th percentile.")] = 300,
    max_screen_ms: Annotated[
        float, typer.Option("--max-screen-ms", help="Goal: from record to screen, 95th percentile, busy or not.")
    ] = 500,
    json: options.Json = False,
) -> int:
    """Time a console's pages in Chromium. Needs root: the daemon is one of its own."""
    from opensafe.bench import console as bench

    from . import exits, present
    from .report import encode, report

    ending.on_sigterm()
    host = figures.host()
    with present.progress("pages and calls"):
        measured = bench.measure(runs, events, seconds)
    times = {"paint": measured.paint, "screen": measured.screen, "busy_screen": measured.busy_screen}
    goals = {"paint": max_paint_ms, "screen": max_screen_ms, "busy_screen": max_screen_ms}
    ok = all(times[name].p95_ms <= goal for name, goal in goals.items())
    if json:
        summary: dict[str, bool | float] = {"ok": ok}
        for name, found in times.items():
            summary |= {f"{name}_p50_ms": found.p50_ms, f"{name}_p95_ms": found.p95_ms}
            summary[f"goal_{name}_p95_ms"] = goals[name]
        summary |= {
            "bare_paint_p50_ms": measured.bare_paint.p50_ms,
            "paint_ratio": round(measured.paint_ratio, 2),
            "record_p50_ms": measured.record.p50_ms,
            "busy_per_min": round(measured.busy_per_min),
            "busy_unseen": measured.busy_unseen,
            "busy_nodes": measured.busy_nodes,
            "busy_longest_frame_ms": round(measured.busy_longest_ms, 1),
        }
        present.raw(encode(report("bench-console", summary, measured, **host)))
    else:
        rows = [(name.replace("_", " "), figures.pair(found), f"{goals[name]:g}") for name, found in times.items()]
        rows.append(("a page of one line", figures.pair(measured.bare_paint), ""))
        rows.append(("record at a client", figures.pair(measured.record), ""))
        figures.show(figures.table(("median/95th, ms", "here", "goal"), rows))
        present.out(
            f"busy: {measured.busy_per_min:,.0f} records a minute, {measured.busy_unseen} never shown, "
            f"{measured.busy_nodes} elements at the end, longest frame {measured.busy_longest_ms:.0f} ms"
        )
        present.out(f"goal: 95th percentiles: {figures.verdict(ok)}")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED
