"""`opensafe bench stress`: that nothing is left of very many sandboxes, whatever was killed."""

import asyncio
import os
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from . import ending, figures, options

if TYPE_CHECKING:  # running it brings the daemon's parts into the process
    from .leftovers import Leftover


def stress(
    creates: Annotated[int, typer.Option("--creates", min=1, help="How many sandboxes in all.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="What is done with each follows from it.")] = 1,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="How many at once.")] = 4,
    json: options.Json = False,
) -> int:
    """Make, use and kill sandboxes at random, the daemon included; then nothing may be left. Needs root."""
    from opensafe.bench import stress as bench
    from opensafe.errors import HostUnsuitable

    from . import exits, present, verification
    from .report import encode, report

    if os.geteuid() != 0:
        raise HostUnsuitable("the daemon that is stressed needs root", remedy="Run this as root.")
    ending.on_sigterm()
    host = figures.host()
    with bench.daemon() as daemon, present.progress(f"{creates} sandboxes"):
        measured = asyncio.run(bench.run(daemon, creates, seed, workers))
        serving = _left(daemon.run, daemon.state)
        status = daemon.stop()
        stopped = _left(daemon.run, daemon.state)
        verified = verification.run(daemon.state, replay=False).report
    ok = verified.ok and not (serving or stopped or measured.left or measured.wrong or status)
    noticed = measured.noticed_ms or (0.0,)
    summary: dict[str, bool | int | float] = {
        "ok": ok,
        "creates": creates,
        "made": measured.creations.get("made", 0),
        "calls": sum(measured.calls.values()),
        "kills": sum(measured.kills.values()),
        "seed": seed,
        "seconds": measured.seconds,
        "leftovers_serving": len(serving),
        "leftovers_stopped": len(stopped),
        "sandboxes_left": measured.left,
        "stop_status": status,
        "wrong": len(measured.wrong),
        "audit_ok": verified.ok,
        "audit_records": verified.records,
        "audit_executions": verified.executions,
        "noticed_p50_ms": noticed[len(noticed) // 2],
        "noticed_max_ms": noticed[-1],
    }
    if json:
        details = {
            "measured": measured,
            "leftovers_serving": serving,
            "leftovers_stopped": stopped,
            "findings": verified.findings,
        }
        present.raw(encode(report("bench-stress", summary, details, **host)))
    else:
        for name, counts in ("creations", measured.creations), ("calls", measured.calls), ("kills", measured.kills):
            present.out(name)
            figures.show(figures.table(("how", "times"), [(how, str(times)) for how, times in counts.items()]))
        present.out(
            f"a dead sandbox was told of within {summary['noticed_p50_ms']} ms (median), {noticed[-1]} ms at most"
        )
        present.out(f"audit log and ledger: {verified.records} records, {verified.executions} executions")
        for line in (*measured.wrong, *(f"left: {one.kind} {one.name} {one.said}" for one in (*serving, *stopped))):
            present.out(line)
        present.out(
            f"{creates} sandboxes in {measured.seconds:.0f} s; nothing left, all verified: {figures.verdict(ok)}"
        )
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


def _left(run: pathlib.Path, state: pathlib.Path) -> "list[Leftover]":
    """What `doctor` finds and this daemon has made: other daemons of this host are none of this run's business."""
    import msgspec

    from . import leftovers

    entries = (msgspec.json.decode(line) for line in (state / "ledger.jsonl").read_bytes().splitlines())
    ours = {run.name, (state / "instance").read_text(), *(entry["sandbox_id"] for entry in entries)}
    return [one for one in leftovers.find(run, state) if any(name in f"{one.name} {one.said}" for name in ours)]
