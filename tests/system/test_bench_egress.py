"""`opensafe bench egress`: its report's form, an exit status that follows the goal, and what it leaves. No figures."""

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from opensafe.cli.exits import Exit
from tests.harness import directories
from tests.system.test_bench import LARGE, SMALL, bench, check_form

pytestmark = [pytest.mark.root, pytest.mark.runsc]

FEW = ("--connections", "3", "--requests", "4", "--bulks", "2", "--bulk-mb", "1", "--sandboxes", "2", "--changes", "1")
ANY = [
    word
    for goal in ("new-ratio", "new-p95-ratio", "request-ratio", "growth", "change-ms")
    for word in (f"--max-{goal}", LARGE)
]
ANY += ["--min-bulk-ratio", SMALL]
GATEWAY = pathlib.Path("/run/opensafe-bench-egress/ours/run/netns/gateway")


def left():
    """What a run could leave on this host."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    found = [line for line in (links + tables).splitlines() if "osb-" in line or "opensafe_b-" in line]
    found += [line for line in mounts.splitlines() if str(GATEWAY.parents[3]) in line]
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        found += [command] if "opensafe-bench-egress" in command or "opensafe.bench.egress" in command else []
    return found


def test_every_row_is_reported_and_nothing_left():
    before = directories.of("bench")
    ended, out, said = bench("egress", "--json", *FEW, *ANY)
    assert ended == Exit.OK, said
    assert directories.of("bench") <= before
    assert left() == []
    report = json.loads(out)
    check_form(report, "egress")
    summary, details = report["summary"], report["details"]
    assert summary["ok"] is True
    for kind, count in (("handshake", 3), ("https", 3), ("http", 4), ("bulk", 2)):
        assert {target: times["count"] for target, times in details[kind].items()} == {
            "direct": count,
            "baseline": count,
            "ours": count,
        }
    assert (details["alone"]["count"], details["crowded"]["count"], details["change"]["count"]) == (3, 3, 1)
    new = details["handshake"]
    assert summary["new_p50_ratio"] == new["ours"]["p50_ms"] / new["baseline"]["p50_ms"]
    assert summary["crowd_growth"] == details["crowded"]["p50_ms"] / details["alone"]["p50_ms"]
    assert {name.removeprefix("goal_") for name in summary if name.startswith("goal_")} <= summary.keys()


def test_for_people_and_its_status_follows_the_goal():
    ended, out, said = bench("egress", *FEW, *ANY, "--max-new-ratio", SMALL)
    assert ended == Exit.GOAL_MISSED, said
    assert [line.split()[1] for line in out.splitlines() if line.endswith("MISSED")] == ["new_p50_ratio"]
    assert max(map(len, out.splitlines())) <= 100


def test_one_that_is_ended_leaves_nothing():
    running = subprocess.Popen(
        [sys.executable, "-m", "opensafe.cli", "bench", "egress", *FEW], stdout=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 100
        while not GATEWAY.exists():
            assert time.monotonic() < until
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == Exit.TERMINATED
    finally:
        running.kill()
        running.wait()
    assert left() == []
    assert not GATEWAY.parents[3].exists()
