"""An escape campaign over a Ray cluster: a worker that is killed within a batch loses none, and none counts twice."""

import json
import pathlib

import pytest

from tests.harness.ray_driver import driven

pytestmark = [pytest.mark.root, pytest.mark.runsc]

RUNS, SIZE = 48, 6
MADE = ("run/opensafe-campaign*", "var/lib/opensafe-campaign-*", "tmp/opensafe-canary-*", "tmp/opensafe-campaign-*")


def made():
    return {path for pattern in MADE for path in pathlib.Path("/").glob(pattern)}


@pytest.fixture(scope="module")
def seen():
    before = made()
    driver = pathlib.Path(__file__).with_name("campaign_driver.py")
    with driven(driver, str(RUNS), str(SIZE), timeout=240) as (directory, _):
        lines = (directory / "batches.jsonl").read_text().splitlines()
        told = json.loads((directory / "seen.json").read_text())
        yield told | {"kept": [json.loads(line)["number"] for line in lines], "left": made() - before}


def test_a_worker_was_killed_within_a_batch_and_replaced(seen):
    assert seen["killed"] == 2
    assert seen["within"]
    assert sorted(seen["places"]) == [0, 1]


def test_no_batch_is_lost_and_none_counts_twice(seen):
    assert seen["faults"] == []
    assert sorted(seen["answers"]) == sorted(set(seen["answers"])) == list(range(len(seen["answers"])))
    assert sorted(seen["kept"]) == sorted(seen["answers"])
    assert set(seen["within"]) <= set(seen["kept"])


def test_the_campaign_is_whole_and_every_worker_raised_what_was_planted(seen):
    summary = seen["summary"]
    assert seen["findings"] == []
    assert summary["ok"]
    assert summary["completed"] >= RUNS
    assert summary["inconclusive"] == 0
    assert summary["planted_raised"] == summary["planted"] == 2 * 7


def test_nothing_is_left_not_even_of_the_worker_that_was_killed(seen):
    assert seen["left"] == set()
