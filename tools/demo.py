"""`make demo`: six tool calls of one agent session, judged, run in a real sandbox, recorded and verified.

Starts a daemon of its own and removes every trace of it: the demo must neither need nor disturb one that runs. What
is printed was measured in this run; a verdict other than the expected one fails the demo. Writes build/demo.json.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from opensafe.cli.exits import Exit
from opensafe.cli.report import encode, report
from opensafe.client import Client
from opensafe.errors import OpenSafeError
from opensafe.model.decision import Action
from opensafe.proof.private import PrivateDaemon
from opensafe.proof.seed import SEED, STEPS, DemoFailedError, Done, prepare, take

ROOT: Final = pathlib.Path(__file__).resolve().parents[1]
REPORT: Final = ROOT / "build" / "demo.json"
ROLES: Final = {"demo": ("developer",), "reviewer": ("reviewer",)}
STYLES: Final = {Action.ALLOW: "green", Action.REVIEW: "yellow", Action.BLOCK: "red"}


def main() -> int:
    """Run the demo. 0 where everything happened as it must."""
    console = Console(highlight=False, soft_wrap=False)
    daemon = PrivateDaemon("demo", ROLES)
    try:
        with daemon:
            return asyncio.run(_session(console, daemon))
    except OpenSafeError as error:
        console.print("\n[red]demo failed:[/red]", markup=True, end=" ")
        console.print(str(error), markup=False, soft_wrap=True)
        for line in daemon.log_tail():
            console.print(f"  | {line}", markup=False, style="dim", soft_wrap=True)
        return 1


async def _session(console: Console, daemon: PrivateDaemon) -> int:
    async with Client.connect(daemon.socket_of("demo")) as client:
        status = await client.status()
        console.print(f"Daemon ready: runsc {status.runsc_version} on {status.runsc_platform}")
        console.print(f"Policy: bundle {status.bundle_revision}")
        session = await client.create_session("demo-agent", "demo")
        made = await client.create_sandbox(session)
        place = (session, made.sandbox_id)
        console.print(f"Sandbox: {made.sandbox_id}, made in {made.create_ns / 1e6:.0f} ms")
        await prepare(client, *place)
        console.print(f"Workspace: seeded by gated Write calls of {', '.join(SEED)}\n")

        done = await take(client, *place)
        console.print(_table(done))
        _show_output(console, done[-1])
        await _show_reviews(console, daemon)
        audit = await _verify(console, daemon)
        console.print(f"Trace id: {_trace_id(done)}")
        await client.close_session(session)

    complaints = [complaint for item in done if (complaint := item.complaint())]
    if not audit["summary"]["ok"]:
        complaints.append("the record does not verify: " + json.dumps(audit["details"]["findings"]))
    _write_report(done, audit, made.sandbox_id, status.runsc_version, ok=not complaints)
    console.print(f"Report:   {REPORT.relative_to(ROOT)}")
    if complaints:
        raise DemoFailedError("\n".join(complaints))
    return 0


def _table(done: Sequence[Done]) -> Table:
    """Fits 80 columns: the rules stand under their call."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading, justify in (
        ("", "left"),
        ("call, rules", "left"),
        ("verdict", "left"),
        ("decision", "right"),
        ("run", "right"),
    ):
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]  # literals, seen as str
    for number, item in enumerate(done, 1):
        verdict, outcome = item.result.verdict, item.result.outcome
        call = Text(item.step.text())
        call.append("".join(f"\n  {rule}" for rule in item.fired()), style="dim")
        ran = f"{outcome.run_ns / 1e6:.1f} ms" if outcome.run_ns else "not run"
        action = Text(verdict.action, style=STYLES[verdict.action])
        table.add_row(str(number), call, action, f"{verdict.decision_ns / 1e6:.2f} ms", ran)
    return table


def _show_output(console: Console, last: Done) -> None:
    console.print(f"\nOutput of step {len(STEPS)}, {last.step.text()}:")
    for line in (last.result.stdout + last.result.stderr).decode(errors="replace").splitlines():
        console.print(f"  | {line}", markup=False, style="dim")


async def _show_reviews(console: Console, daemon: PrivateDaemon) -> None:
    console.print("\n$ opensafe review list")
    shown = await _opensafe(daemon, "reviewer", "review", "list")
    if "npm install" not in shown:
        raise DemoFailedError("`opensafe review list` does not list the parked npm install")
    console.print(shown.rstrip(), markup=False)


async def _verify(console: Console, daemon: PrivateDaemon) -> dict[str, Any]:
    console.print("\n$ opensafe audit verify --replay")
    verified: dict[str, Any] = json.loads(
        await _opensafe(daemon, "demo", "audit", "verify", "--replay", "--json", "--state", str(daemon.state))
    )
    found = verified["summary"]
    console.print(
        f"{found['records']} records and {found['ledger_entries']} ledger entries agree, "
        f"{found['replayed']} allows judged again: "
        + ("[green]verified[/green]" if found["ok"] else f"[red]NOT VERIFIED, {found['findings']} findings[/red]")
    )
    return verified


async def _opensafe(daemon: PrivateDaemon, principal: str, *arguments: str) -> str:
    """Run the real command line; its output. A goal that is missed (1) is for the caller to see."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "opensafe.cli", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of(principal))},
    )
    stdout, stderr = await process.communicate()
    if process.returncode not in (Exit.OK, Exit.GOAL_MISSED):
        said = (stderr or stdout).decode(errors="replace").strip()
        raise DemoFailedError(f"`opensafe {' '.join(arguments)}` ended with {process.returncode}: {said}")
    return stdout.decode()


def _trace_id(done: Sequence[Done]) -> str:
    """The trace that all calls of the session are in. Raises DemoFailedError where they are in several."""
    (trace_id, *others) = {item.result.verdict.trace_id for item in done}
    if others:
        raise DemoFailedError(f"the calls of one session are in {1 + len(others)} traces")
    return trace_id


def _write_report(done: Sequence[Done], audit: dict[str, Any], sandbox_id: str, runsc: str, *, ok: bool) -> None:
    actions = [item.result.verdict.action for item in done]
    summary = {
        "ok": ok,
        "steps": len(done),
        **{f"{action}s": actions.count(action) for action in Action},
        "audit_verified": audit["summary"]["ok"],
    }
    details = {
        "steps": [item.row() for item in done],
        "audit": {"verified": audit["summary"]["ok"], **audit["summary"]},
        "trace_id": _trace_id(done),
        "sandbox_id": sandbox_id,
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(encode(report("demo", summary, details, runsc=runsc)) + "\n")


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("demo: the daemon makes namespaces and needs root; run `make demo` as root")
    sys.exit(main())
