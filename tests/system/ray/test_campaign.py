"""An escape campaign over a Ray cluster: a worker that is killed within a batch loses none, and none counts twice."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

pytestmark = [pytest.mark.root, pytest.mark.runsc]

RUNS, SIZE = 48, 6
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_LOG_TO_DRIVER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_MEMORY_MONITOR": "1",
    "PYTHONWARNINGS": "ignore",
}
MADE = ("run/opensafe-campaign*", "var/lib/opensafe-campaign-*", "tmp/opensafe-canary-*", "tmp/opensafe-campaign-*")


def made():
    return {path for pattern in MADE for path in pathlib.Path("/").glob(pattern)}


@pytest.fixture(scope="module")
def seen():
    before = made()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # a short path: sockets lie in it
    driver = pathlib.Path(__file__).with_name("campaign_driver.py")
    try:
        ran = subprocess.run(
            [sys.executable, driver, directory, str(RUNS), str(SIZE)],
            env={**os.environ, **QUIET, "RAY_TMPDIR": os.fspath(directory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
        assert ran.returncode == 0, ran.stdout
        lines = (directory / "batches.jsonl").read_text().splitlines()
        told = json.loads((directory / "seen.json").read_text())
        yield told | {"kept": [json.loads(line)["number"] for line in lines], "left": made() - before}
    finally:
        for pid in _named(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        shutil.rmtree(directory)


def _named(directory):
    """Processes that have the directory in their command line."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(directory) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


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
    assert summary["planted_raised"] == summary["planted"] == 2 * 5


def test_nothing_is_left_not_even_of_the_worker_that_was_killed(seen):
    assert seen["left"] == set()
