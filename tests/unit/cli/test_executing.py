"""`opensafe bench exec`: the exit status follows each goal, of figures that are given."""

import json

import pytest

from opensafe.bench import exec as bench_exec
from opensafe.bench.bulk import Bulk
from opensafe.bench.memory import Memory
from opensafe.bench.parallel import Parallel
from opensafe.bench.peers import Peer
from opensafe.bench.timing import Times
from opensafe.cli import executing
from opensafe.cli.exits import Exit


def times(p50, p95):
    return Times(count=2, p50_ms=p50, p95_ms=p95, p99_ms=p95)


def row(gated):
    ways = {"raw": times(10, 20), "watched": times(11, 22), "runner": times(15, 20), "runsc": times(20, 40)}
    return bench_exec.Row(
        argv=("/bin/program",), times={"gated": gated, **ways}, decision=times(1, 1), run=times(12, 12)
    )


MEASURED = bench_exec.Measured(
    rows={"true": row(times(30, 50)), "bash": row(times(18, 44)), "python": row(times(13, 90))},
    others={"gvisor": Peer(version="1"), "runc": Peer(error="not installed: apt-get install runc")},
    parallel=Parallel(streams=8, programs=64, ours_per_s=80.0, raw_per_s=100.0, ratio=0.8),
    bulk=Bulk(bytes=1, ours_mb_per_s=60.0, bare_mb_per_s=100.0, ratio=0.6),
    memory={"warden": Memory(pss=100_000_000, rss=0, private=0), "front": Memory(pss=50_000_000, rss=0, private=0)},
    runsc="1",
)


@pytest.fixture
def bench(monkeypatch, capsys):
    """Runs the command on the figures above; its exit status and what it printed."""
    monkeypatch.setattr(bench_exec, "measure", lambda *_: MEASURED)

    def run(*, json=True, **goals):
        return executing.exec_(json=json, **goals), capsys.readouterr().out

    return run


def test_goals_that_hold(bench):
    status, out = bench()
    assert status == Exit.OK
    summary = json.loads(out)["summary"]
    assert summary["ok"] is True
    assert {name: summary[name] for name in ("bash_p50_ratio", "bash_p95_ratio", "python_p50_ratio")} == {
        "bash_p50_ratio": 1.8,
        "bash_p95_ratio": 2.2,
        "python_p50_ratio": 1.3,
    }
    assert (summary["bash_to_runsc_exec"], summary["parallel_ratio"], summary["bulk_ratio"]) == (0.9, 0.8, 0.6)
    assert (summary["bash_runner_p50_ratio"], summary["bash_watched_p50_ratio"]) == (1.5, 1.1)
    assert summary["pss_mb"] == 150


@pytest.mark.parametrize(
    "goal",
    [
        {"max_ratio": 1.79},
        {"max_p95_ratio": 2.19},
        {"max_python_ratio": 1.29},
        {"max_runsc_ratio": 0.89},
        {"min_parallel": 0.81},
        {"min_bulk": 0.61},
        {"max_pss_mb": 149},
    ],
    ids=lambda goal: next(iter(goal)),
)
def test_one_goal_that_is_missed(bench, goal):
    status, out = bench(**goal)
    assert status == Exit.GOAL_MISSED
    assert json.loads(out)["summary"]["ok"] is False


def test_for_people_it_says_what_did_not_run_and_which_goal_is_missed(bench):
    status, out = bench(json=False, min_bulk=0.7)
    assert status == Exit.GOAL_MISSED
    assert "runc: not installed: apt-get install runc" in out
    assert [line for line in out.splitlines() if "MISSED" in line] == ["goal: bulk_ratio 0.60, at least 0.7: MISSED"]
    assert max(map(len, out.splitlines())) <= 80
