"""`opensafe bench egress`: connections through the gateway beside one that asks nobody."""

from typing import TYPE_CHECKING, Annotated

import typer

from . import ending, figures, options

if TYPE_CHECKING:  # measuring brings the daemon's parts into the process
    from collections.abc import Sequence

    from opensafe.bench.egress import Measured
    from opensafe.bench.timing import Times

_Connections = Annotated[int, typer.Option("--connections", min=1, help="New connections to each target.")]
_Requests = Annotated[int, typer.Option("--requests", min=1, help="Requests on a kept connection to each.")]
_Bulks = Annotated[int, typer.Option("--bulks", min=1, help="Downloads from each.")]
_Bulk = Annotated[int, typer.Option("--bulk-mb", min=1, help="Size of a download, 2^20 bytes.")]
_Crowd = Annotated[int, typer.Option("--sandboxes", min=1, help="Sandboxes with a tunnel open.")]
_Changes = Annotated[int, typer.Option("--changes", min=1, help="Changes of the policy.")]
_New = Annotated[float, typer.Option("--max-new-ratio", help="Goal: median of new connections to the baseline.")]
_Tail = Annotated[float, typer.Option("--max-new-p95-ratio", help="Goal: the same of the 95th percentiles.")]
_Request = Annotated[float, typer.Option("--max-request-ratio", help="Goal: median of requests to the baseline.")]
_Rate = Annotated[float, typer.Option("--min-bulk-ratio", help="Goal: rate of downloads to the baseline.")]
_Growth = Annotated[float, typer.Option("--max-growth", help="Goal: median of new connections in a crowd to alone.")]
_Change = Annotated[float, typer.Option("--max-change-ms", help="Goal: 95th percentile of a change of the policy.")]

#: How often the crowd comes and goes.
_TURNS = 3


def egress(
    connections: _Connections = 400,
    requests: _Requests = 2000,
    bulks: _Bulks = 40,
    bulk_mb: _Bulk = 64,
    sandboxes: _Crowd = 200,
    changes: _Changes = 20,
    max_new_ratio: _New = 1.5,
    max_new_p95_ratio: _Tail = 2.0,
    max_request_ratio: _Request = 2.5,
    min_bulk_ratio: _Rate = 0.9,
    max_growth: _Growth = 1.2,
    max_change_ms: _Change = 250.0,
    json: options.Json = False,
) -> int:
    """Time connections through a gateway. Needs root: gateways, servers and daemon are its own."""
    from opensafe.bench import egress as bench

    from . import exits, present
    from .report import encode, report

    ending.on_sigterm()
    host = figures.host()
    sizes = bench.Sizes(
        connections=connections,
        requests=requests,
        bulks=bulks,
        bulk_bytes=bulk_mb << 20,
        crowd=sandboxes,
        turns=min(_TURNS, connections),
        changes=changes,
        warm_up=max(1, round(connections * figures.WARM_UP)),
    )
    with present.progress(f"{connections} connections"):
        measured = bench.measure(sizes)
    found = headline(measured)
    most = {
        "new_p50_ratio": max_new_ratio,
        "new_p95_ratio": max_new_p95_ratio,
        "request_p50_ratio": max_request_ratio,
        "crowd_growth": max_growth,
        "change_p95_ms": max_change_ms,
    }
    least = {"bulk_ratio": min_bulk_ratio}
    missed = [
        *(name for name, goal in most.items() if found[name] > goal),
        *(name for name, goal in least.items() if found[name] < goal),
    ]
    if json:
        goals = {f"goal_{name}": goal for name, goal in (most | least).items()}
        summary: dict[str, object] = {"ok": not missed, **found, **goals}
        present.raw(encode(report("bench-egress", summary, measured, **host)))
    else:
        present.out("median/95th percentile, ms; ratios of the medians to the baseline")
        figures.show(figures.table(("", *bench.TARGETS, "ratio"), _rows(measured)))
        crowd = f"{figures.pair(measured.alone)} alone, {figures.pair(measured.crowded)} among {measured.crowd}"
        present.out(f"new connections through ours: {crowd}")
        present.out(f"a change of the policy: {figures.pair(measured.change)} ms to the first refusal")
        present.out(f"processor time of a check: {measured.check_cpu_us:.0f} us")
        for name, goal in (most | least).items():
            bound = "at most" if name in most else "at least"
            present.out(f"goal: {name} {found[name]:.2f}, {bound} {goal:g}: {figures.verdict(name not in missed)}")
    return exits.Exit.GOAL_MISSED if missed else exits.Exit.OK


def headline(measured: "Measured") -> dict[str, float]:
    """What the goals are about, and what says how large it is."""
    return {
        "new_p50_ratio": measured.ratio("handshake"),
        "new_p95_ratio": measured.ratio("handshake", "p95_ms"),
        "new_p50_to_direct": measured.ratio("handshake", to="direct"),
        "request_p50_ratio": measured.ratio("http"),
        "request_p95_ratio": measured.ratio("http", "p95_ms"),
        "bulk_ratio": 1 / measured.ratio("bulk"),
        "bulk_mb_per_s": measured.rate("ours"),
        "crowd_growth": measured.growth,
        "crowd_p95_growth": measured.crowded.p95_ms / measured.alone.p95_ms,
        "sandboxes": measured.crowd,
        "change_p50_ms": measured.change.p50_ms,
        "change_p95_ms": measured.change.p95_ms,
        "check_cpu_us": measured.check_cpu_us,
    }


def _rows(measured: "Measured") -> "Sequence[tuple[str, ...]]":
    kinds = {
        "new connection": ("handshake", measured.handshake),
        "to its first answer": ("https", measured.https),
        "request on a kept one": ("http", measured.http),
    }
    rows = [
        (name, *(_pair(one) for one in times.values()), f"{measured.ratio(kind):.2f}")
        for name, (kind, times) in kinds.items()
    ]
    rates = (f"{measured.rate(target):.0f}" for target in measured.bulk)
    return [*rows, ("download, MB/s", *rates, f"{1 / measured.ratio('bulk'):.2f}")]


def _pair(times: "Times") -> str:
    """Of something short."""
    return f"{times.p50_ms:.2f}/{times.p95_ms:.2f}"
