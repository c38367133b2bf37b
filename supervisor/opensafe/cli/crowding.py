"""`opensafe bench density`: very many idle sandboxes, and very many that come and go."""

from typing import TYPE_CHECKING, Annotated

import typer

from . import ending, figures, options

if TYPE_CHECKING:  # measuring brings the daemon's parts into the process
    from opensafe.bench.density import Look

_MB = 1e6


def density(
    idle: Annotated[int, typer.Option("--idle", min=1, help="Idle sandboxes.")] = 500,
    runs: Annotated[
        int, typer.Option("--runs", min=1, help="Calls alone, before and after; twice that crowded.")
    ] = 100,
    execs: Annotated[int, typer.Option("--execs", min=4, help="Calls in sandboxes that come and go.")] = 10_000,
    sandboxes: Annotated[int, typer.Option("--sandboxes", min=4, help="And how many of these.")] = 1000,
    max_ratio: Annotated[float, typer.Option("--max-ratio", help="Goal: median, crowded to alone.")] = 1.2,
    max_pss_mb: Annotated[float, typer.Option("--max-pss-mb", help="Goal: PSS without the sandboxes' share.")] = 200.0,
    max_each_kb: Annotated[float, typer.Option("--max-each-kb", help="Goal: PSS for each idle sandbox.")] = 100.0,
    max_growth_mb: Annotated[
        float, typer.Option("--max-growth-mb", help="Goal: a process's growth over the second half.")
    ] = 4.0,
    json: options.Json = False,
) -> int:
    """Time calls among many sandboxes, and look for what grows. Needs root: the daemons are its own."""
    from opensafe.bench import density as bench

    from . import exits, present
    from .report import encode, report

    ending.on_sigterm()
    host = figures.host()
    sizes = bench.Sizes(idle=idle, rounds=runs, calls=execs, sandboxes=sandboxes)
    with present.progress(f"{idle} sandboxes, then {sandboxes} with {execs} calls"):
        measured = bench.measure(sizes)
    growth = max(measured.growth().values()) / _MB
    pss = measured.crowd.pss / _MB
    allowed = max_pss_mb + idle * max_each_kb / 1000
    flat = not measured.grown() and growth <= max_growth_mb
    ok = measured.ratio <= max_ratio and pss <= allowed and flat
    if json:
        summary = {
            "ok": ok,
            "idle": idle,
            "alone_p50_ms": measured.alone.p50_ms,
            "crowded_p50_ms": measured.crowded.p50_ms,
            "crowded_ratio": measured.ratio,
            "pss_mb": pss,
            "pss_each_kb": measured.each / 1000,
            "execs": measured.wear[-1].calls,
            "sandboxes": measured.wear[-1].sandboxes,
            "flat": flat,
            "growth_mb": growth,
            "goal_ratio": max_ratio,
            "goal_pss_mb": allowed,
            "goal_growth_mb": max_growth_mb,
        }
        present.raw(encode(report("bench-density", summary, measured, runsc=measured.runsc, **host)))
    else:
        present.out(
            f"alone {figures.pair(measured.alone)} ms, among {idle} idle {figures.pair(measured.crowded)} ms: "
            f"{measured.ratio:.2f}"
        )
        present.out(f"made in {measured.filled:g} s, removed in {measured.emptied:g} s")
        present.out(
            f"PSS {measured.lone.pss / _MB:.0f} MB with one, {pss:.0f} MB then: {measured.each / 1000:.0f} kB each"
        )
        columns = ("calls", "sandboxes", "s", "warden", "front", "helper", "files", "threads")
        figures.show(figures.table(columns, [_row(look) for look in measured.wear]))
        present.out("resident, MB; files and threads of all three")
        goals = f"ratio at most {max_ratio:g}, PSS at most {allowed:g} MB, grown by at most {max_growth_mb:g} MB"
        present.out(f"goal: {goals}: {figures.verdict(ok)}")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


def _row(look: "Look") -> tuple[str, ...]:
    used = look.processes
    megabytes = (f"{used[name].rss / _MB:.1f}" for name in ("warden", "front", "helper"))
    counts = (str(sum(getattr(one, what) for one in used.values())) for what in ("descriptors", "threads"))
    return (f"{look.calls:,}", f"{look.sandboxes:,}", f"{look.seconds:.0f}", *megabytes, *counts)
