"""`opensafe bench pool` and `density`: their reports' form, and an exit status that follows the goal. No figures."""

import json

import pytest

from opensafe.cli.exits import Exit
from tests.harness import directories
from tests.system.test_bench import LARGE, SMALL, bench, check_form

pytestmark = [pytest.mark.root, pytest.mark.runsc]


@pytest.mark.parametrize(("ratio", "status"), [(LARGE, Exit.OK), (SMALL, Exit.GOAL_MISSED)], ids=["holds", "missed"])
def test_pool_reports_and_its_status_follows_the_goal(ratio, status):
    before = directories.of("bench")
    small = ("--runs", "2", "--ready", "2", "--claims", "6")
    ended, out, said = bench("pool", "--json", *small, "--max-warm-ms", LARGE, "--max-cold-ratio", ratio)
    assert ended == status, said
    assert directories.of("bench") <= before
    report = json.loads(out)
    check_form(report, "pool")
    summary, details = report["summary"], report["details"]
    assert summary["ok"] == (status is Exit.OK)
    assert (summary["claims"], summary["served"], summary["shared"]) == (6, 2, 0)
    assert {details[way]["count"] for way in ("warm", "cold", "stock", "claim", "create", "burst")} == {2}
    assert summary["cold_to_stock_ratio"] == details["cold"]["p50_ms"] / details["stock"]["p50_ms"]


DENSITY = ("--idle", "3", "--runs", "2", "--execs", "9", "--sandboxes", "5")


@pytest.mark.parametrize(("ratio", "status"), [(LARGE, Exit.OK), (SMALL, Exit.GOAL_MISSED)], ids=["holds", "missed"])
def test_density_reports_and_its_status_follows_the_goal(ratio, status):
    before = directories.of("bench")
    goals = ("--max-ratio", ratio, "--max-pss-mb", LARGE, "--max-growth-mb", LARGE)
    ended, out, said = bench("density", "--json", *DENSITY, *goals)
    report = json.loads(out)
    check_form(report, "density")
    summary, details = report["summary"], report["details"]
    # So few calls fill nothing, so a descriptor more is possible: that misses a goal too.
    assert ended == (status if summary["flat"] else Exit.GOAL_MISSED), said
    assert summary["ok"] == (ended == Exit.OK)
    assert directories.of("bench") <= before
    assert (summary["idle"], summary["execs"], summary["sandboxes"]) == (3, 9, 5)
    assert [look["sandboxes"] for look in details["wear"]] == [0, 1, 2, 3, 5]
    assert [look["calls"] for look in details["wear"]] == [0, 2, 4, 6, 9]
    assert all(look["processes"].keys() == {"warden", "front", "helper"} for look in details["wear"])
    assert summary["crowded_ratio"] == details["crowded"]["p50_ms"] / details["alone"]["p50_ms"]
    assert summary["pss_mb"] == pytest.approx(sum(one["pss"] for one in details["crowd"]["processes"].values()) / 1e6)


def test_both_for_people():
    goals = ("--max-warm-ms", LARGE, "--max-cold-ratio", LARGE)
    ended, out, said = bench("pool", "--runs", "1", "--ready", "1", "--claims", "1", *goals)
    assert ended == Exit.OK, said
    assert out.rstrip().endswith("met")
    assert max(map(len, out.splitlines())) <= 100
    ended, out, said = bench("density", *DENSITY, "--max-ratio", SMALL)
    assert ended == Exit.GOAL_MISSED, said
    assert out.rstrip().endswith("MISSED")
