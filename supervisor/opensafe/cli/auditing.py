"""`opensafe bench audit`: what evidence costs a call, and how fast it verifies."""

from typing import Annotated

import typer

from . import ending, figures, options


def audit(
    runs: Annotated[int, typer.Option("--runs", min=1, help="Calls and bare syncs, by turns.")] = 300,
    records: Annotated[int, typer.Option("--records", min=64, help="Appended by 64 callers at once.")] = 20_000,
    verify_mb: Annotated[int, typer.Option("--verify-mb", min=1, help="Size of the log that is verified.")] = 1000,
    max_wait_ratio: Annotated[
        float, typer.Option("--max-wait-ratio", help="Goal: a call's wait to one fdatasync, median.")
    ] = 1.5,
    min_records_per_s: Annotated[float, typer.Option("--min-records-per-s", help="Goal: of the 64 callers.")] = 2000,
    max_telemetry_ratio: Annotated[
        float, typer.Option("--max-telemetry-ratio", help="Goal: an execution with telemetry to one without, median.")
    ] = 1.05,
    min_verify_mb_per_s: Annotated[float, typer.Option("--min-verify-mb-per-s", help="Goal: of `audit verify`.")] = 100,
    json: options.Json = False,
) -> int:
    """Time records, ledger entries and their verification. Needs root, for the warden's side of them."""
    from opensafe.bench import audit as bench

    from . import exits, present
    from .report import encode, report

    ending.on_sigterm()
    host = figures.host()
    with present.progress(f"{runs} calls, {records} records, {verify_mb} MB"):
        measured = bench.measure(runs, max(1, round(runs * figures.WARM_UP)), records, verify_mb)
    goals = {
        "wait_ratio": (measured.wait_ratio, max_wait_ratio, measured.wait_ratio <= max_wait_ratio),
        "records_per_s": (measured.records_per_s, min_records_per_s, measured.records_per_s >= min_records_per_s),
        "telemetry_ratio": (
            measured.telemetry_ratio,
            max_telemetry_ratio,
            measured.telemetry_ratio <= max_telemetry_ratio,
        ),
        "verify_mb_per_s": (
            measured.verify_mb_per_s,
            min_verify_mb_per_s,
            measured.verify_mb_per_s >= min_verify_mb_per_s,
        ),
    }
    ok = all(met for _, _, met in goals.values())
    if json:
        summary: dict[str, bool | float] = {"ok": ok}
        for name, (value, goal, _) in goals.items():
            summary |= {name: value, f"goal_{name}": goal}
        summary |= {
            "write_p50_ms": measured.write.p50_ms,
            "wait_p50_ms": measured.wait.p50_ms,
            "bare_p50_ms": measured.bare.p50_ms,
        }
        present.raw(encode(report("bench-audit", summary, measured, **host)))
    else:
        written, waited, bare = (figures.three(times) for times in (measured.write, measured.wait, measured.bare))
        present.out(f"a call writes {written}, waits {waited}; one fdatasync {bare}: median/95th/99th percentile, ms")
        present.out(f"a decision's record has {measured.record_bytes} bytes; {measured.verified_records} were verified")
        rows = [
            (name.replace("_", " "), f"{value:.2f}", f"{goal:g}", figures.verdict(met))
            for name, (value, goal, met) in goals.items()
        ]
        figures.show(figures.table(("figure", "here", "goal", ""), rows))
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED
