"""`opensafe bench soak`: that nothing grows over a million evaluations and a thousand reloads."""

from typing import TYPE_CHECKING, Annotated

import typer

from . import ending, figures, options

if TYPE_CHECKING:  # measuring brings the daemon's parts into the process
    from opensafe.bench.soak import Look


def soak(
    evaluations: Annotated[int, typer.Option("--evaluations", min=1, help="How many in all.")] = 1_000_000,
    reloads: Annotated[int, typer.Option("--reloads", min=4, help="Spread evenly between them.")] = 1000,
    max_growth_mb: Annotated[
        float, typer.Option("--max-growth-mb", help="Goal: growth of resident memory, from the first look on.")
    ] = 4.0,
    json: options.Json = False,
) -> int:
    """Judge and reload for minutes and look at memory, descriptors and threads. Needs no daemon and no root."""
    from opensafe.bench import soak as bench

    from . import exits, present
    from .report import encode, report

    ending.on_sigterm()
    host = figures.host()
    measured = bench.measure(evaluations, reloads)
    flat = measured.flat(round(max_growth_mb * 1e6))
    ok = flat and not measured.wrong
    last = measured.looks[-1]
    if json:
        summary: dict[str, bool | float] = {
            "ok": ok,
            "flat": flat,
            "wrong": measured.wrong,
            "evaluations": last.evaluations,
            "reloads": last.reloads,
            "seconds": last.seconds,
            "growth_mb": measured.growth / 1e6,
            "goal_growth_mb": max_growth_mb,
        }
        present.raw(encode(report("bench-soak", summary, measured, **host)))
    else:
        columns = ("evaluations", "reloads", "s", "here", "preparer", "guest", "files", "threads")
        figures.show(figures.table(columns, [_row(look) for look in measured.looks]))
        present.out(f"resident and guest's memory in MB; {measured.wrong} verdicts differed")
        present.out(f"goal: grown by at most {max_growth_mb:g} MB, nothing else at all: {figures.verdict(ok)}")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


def _row(look: "Look") -> tuple[str, ...]:
    megabytes = (f"{size / 1e6:.1f}" for size in (look.rss, look.preparer, look.guest))
    counts = (str(look.descriptors), str(look.threads))
    return (f"{look.evaluations:,}", str(look.reloads), f"{look.seconds:.0f}", *megabytes, *counts)
