"""`opensafe bench`: the reports' form, and an exit status that follows the goal. Figures are not tested."""

import json
import subprocess
import sys

import pytest

from opensafe.bench import decision
from opensafe.cli.exits import Exit
from tests.harness import directories

SMALL, LARGE = "0.000001", "1000000"


def bench(*arguments):
    """Exit status, output and messages of `opensafe bench`."""
    done = subprocess.run(
        [sys.executable, "-m", "opensafe.cli", "bench", *arguments], capture_output=True, text=True, timeout=110
    )
    return done.returncode, done.stdout, done.stderr


def check_form(report, subject):
    assert list(report) == ["schema", "version", "environment", "summary", "details"]
    assert report["schema"] == f"opensafe.bench-{subject}/1"
    assert {"kernel", "cores", "cpu_model", "python", "load_average_1m"} <= report["environment"].keys()
    assert all(not isinstance(value, dict | list) for value in report["summary"].values())


WAYS = ("gated", "raw", "watched", "runner", "runsc")
ANY = [
    word
    for goal in ("ratio", "p95-ratio", "python-ratio", "runsc-ratio", "pss-mb")
    for word in (f"--max-{goal}", LARGE)
]
ANY += ["--min-parallel", SMALL, "--min-bulk", SMALL]


@pytest.mark.root
@pytest.mark.runsc
def test_exec_reports_all_ways_and_leaves_nothing():
    before = directories.of("bench")
    ended, out, said = bench("exec", "--json", "--runs", "2", "--bulk-mb", "1", *ANY)
    assert ended == Exit.OK, said
    assert directories.of("bench") <= before
    report = json.loads(out)
    check_form(report, "exec")
    assert report["environment"]["runsc"]
    summary, details = report["summary"], report["details"]
    assert summary["ok"] is True
    assert details["rows"].keys() == {"true", "bash", "python"}
    others = details["others"]
    assert others.keys() == {"gvisor", "temenos", "runc", "bubblewrap"}
    for name, row in details["rows"].items():
        assert row["times"].keys() == {*WAYS, *(other for other, found in others.items() if not found["error"])}
        assert all(times["count"] == 2 for times in (*row["times"].values(), row["decision"], row["run"]))
        ratio = row["times"]["gated"]["p50_ms"] / row["times"]["raw"]["p50_ms"]
        assert summary[f"{name}_p50_ratio"] == ratio
    assert details["parallel"]["programs"] == 32
    assert details["bulk"]["bytes"] == 1 << 20
    used = details["memory"]
    assert used.keys() == {"warden", "front", "helper"}
    assert summary["pss_mb"] == pytest.approx(sum(one["pss"] for one in used.values()) / 1e6)


@pytest.mark.root
@pytest.mark.runsc
def test_exec_without_peers_says_so_and_its_status_follows_the_goal(tmp_path):
    peers = ("--peers", str(tmp_path))
    ended, out, said = bench("exec", "--runs", "1", "--bulk-mb", "1", *peers, *ANY, "--max-ratio", SMALL)
    assert ended == Exit.GOAL_MISSED, said
    assert all(program in out for program in ("true", "bash -c true", "python3 -c pass"))
    assert "gvisor: not installed: run `make peers`" in out
    assert [line.split()[1] for line in out.splitlines() if line.endswith("MISSED")] == ["bash_p50_ratio"]
    assert max(map(len, out.splitlines())) <= 80


GOALS = ("ratio", "p50-ms", "worst-ms", "p99-ms", "ms")


def test_decision_reports_ours_and_its_peers():
    large = [word for goal in GOALS for word in (f"--max-{goal}", LARGE)]
    ended, out, said = bench("decision", "--json", "--runs", "4", "--no-coverage", *large)
    assert ended == Exit.OK, said
    report = json.loads(out)
    check_form(report, "decision")
    summary, rows = report["summary"], report["details"]["rows"]
    assert summary["ok"] is True
    assert summary["rules"] >= 68
    assert rows.keys() == {*decision.CALLS, decision.WORST}
    assert rows[decision.WORST]["case"]
    assert summary["ratio_to_opa_go"] == max(row["ratio_to_opa_go"] for row in rows.values())
    assert summary["decision_p50_ms"] == max(row["whole"]["p50_ms"] for row in rows.values() if row["whole"])
    peers = report["details"]["peers"]
    assert peers.keys() == {"opa-py-wasm", "regopy"}
    for row in rows.values():
        assert row["evaluate"]["count"] == 4
        assert row["ratio_to_opa_go"] == pytest.approx(row["evaluate"]["p50_ms"] / row["opa_go"]["p50_ms"])
        assert row["peers"].keys() == {name for name, peer in peers.items() if not peer["error"]}


def test_decision_refuses_sources_that_judge_otherwise(tmp_path):
    (tmp_path / "opensafe").mkdir()
    (tmp_path / "opensafe" / "gate.rego").write_text('package opensafe.gate\n\nread := {"action": "block"}\n')
    ended, out, said = bench("decision", "--runs", "2", "--policies", str(tmp_path))
    assert ended == Exit.REQUEST
    assert out == ""
    assert "not the bundle's sources" in said


def test_decision_says_where_sources_are_missing(tmp_path):
    ended, _, said = bench("decision", "--runs", "2", "--policies", str(tmp_path))
    assert ended == Exit.REQUEST
    assert str(tmp_path / "opensafe") in said


@pytest.mark.root
@pytest.mark.runsc
@pytest.mark.parametrize(("goal", "status"), [(LARGE, Exit.OK), (SMALL, Exit.GOAL_MISSED)])
def test_load_reports_and_its_status_follows_the_goal(goal, status):
    before = directories.of("bench")
    goals = ("--max-streams-p99-ms", LARGE, "--max-saturated-p99-ms", goal)
    ended, out, said = bench("load", "--json", "--seconds", "0.5", *goals)
    assert ended == status, said
    assert directories.of("bench") <= before
    report = json.loads(out)
    check_form(report, "load")
    summary, details = report["summary"], report["details"]
    assert summary["ok"] == (status is Exit.OK)
    assert [details[name]["streams"] for name in ("idle", "ordinary", "saturated")] == [0, 50, 4]
    assert details["ordinary"]["mb_per_s"] > 0
    assert details["saturated"]["mb_per_s"] > 0
    assert summary["streams_p99_ms"] == details["ordinary"]["decide"]["p99_ms"]
    assert summary["saturated_p99_ms"] == details["saturated"]["decide"]["p99_ms"]


@pytest.mark.root
@pytest.mark.runsc
@pytest.mark.parametrize(("cached", "status"), [(LARGE, Exit.OK), (SMALL, Exit.GOAL_MISSED)])
def test_reload_reports_and_its_status_follows_the_goal(cached, status):
    before = directories.of("bench")
    goals = ("--max-bundle-ms", LARGE, "--max-source-ms", LARGE, "--max-cached-ms", cached)
    ended, out, said = bench("reload", "--json", "--runs", "1", *goals)
    assert ended == status, said
    assert directories.of("bench") <= before
    report = json.loads(out)
    check_form(report, "reload")
    summary, details = report["summary"], report["details"]
    assert summary["ok"] == (status is Exit.OK)
    assert {name: times["count"] for name, times in details.items()} == {"bundle": 1, "cached": 1, "source": 1}
    assert summary["bundle_cached_p95_ms"] == details["cached"]["p95_ms"]
    assert (summary["bundle_p95_ms"], summary["source_p95_ms"]) == (
        details["bundle"]["p95_ms"],
        details["source"]["p95_ms"],
    )


@pytest.mark.parametrize(
    ("growth", "status"), [(LARGE, Exit.OK), ("-1000", Exit.GOAL_MISSED)], ids=["flat", "grown by more"]
)
def test_soak_reports_and_its_status_follows_the_goal(growth, status):
    ended, out, said = bench("soak", "--json", "--evaluations", "3000", "--reloads", "9", "--max-growth-mb", growth)
    assert ended == status, said
    report = json.loads(out)
    check_form(report, "soak")
    summary, looks = report["summary"], report["details"]["looks"]
    assert (summary["ok"], summary["wrong"]) == (status is Exit.OK, 0)
    assert (summary["evaluations"], summary["reloads"]) == (3000, 9)
    assert [look["reloads"] for look in looks] == [0, 3, 5, 7, 9]
    assert [look["evaluations"] for look in looks] == [0, 1000, 1666, 2333, 3000]
    for name in ("guest", "descriptors", "threads"):
        assert len({look[name] for look in looks}) == 1, name


def test_soak_for_people():
    ended, out, said = bench("soak", "--evaluations", "100", "--reloads", "4", "--max-growth-mb", LARGE)
    assert ended == Exit.OK, said
    assert "0 verdicts differed" in out
    assert out.rstrip().endswith("met")
    assert max(map(len, out.splitlines())) <= 80
