"""`bench stress` at a small size, too small for the death of the whole daemon; and that it sees what is left."""

import json
import pathlib
import subprocess
import sys

import pytest

from opensafe.bench import plan
from opensafe.cli import stressing
from opensafe.cli.exits import Exit
from opensafe.model.ids import new_id
from tests.harness import directories

pytestmark = [pytest.mark.root, pytest.mark.runsc]


def test_a_plan_follows_from_seed_and_number():
    drawn = [plan.draw(7, number) for number in range(1000)]
    assert drawn == [plan.draw(7, number) for number in range(1000)]
    assert drawn != [plan.draw(8, number) for number in range(1000)]
    assert {one.victim for one in drawn} == {"", "client", "sentry", "gofer", "front", "helper", "daemon"}
    assert [one.number for one in drawn if one.victim == "daemon"] == list(range(99, 1000, 100))


def test_a_small_stress_leaves_nothing():
    command = [sys.executable, "-m", "opensafe.cli", "bench", "stress", "--creates", "24", "--json"]
    before = directories.of("stress")
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert done.returncode == Exit.OK, report
    summary = report["summary"]
    assert summary["made"] > 0
    assert summary["kills"] > 0
    assert (summary["leftovers_serving"], summary["leftovers_stopped"], summary["audit_ok"]) == (0, 0, True)
    assert report["details"]["measured"]["kills"].keys() <= {
        *("client", "sentry", "gofer", "front", "helper"),
        *("sentry: gone already", "gofer: gone already", "front: gone already", "helper: gone already"),
    }
    assert directories.of("stress") <= before


def test_what_is_left_of_its_own_is_seen_and_of_others_is_not(tmp_path):
    ours, others = new_id("sb"), new_id("sb")
    (tmp_path / "ledger.jsonl").write_text(json.dumps({"kind": "sandbox", "sandbox_id": ours}) + "\n")
    (tmp_path / "instance").write_text("no cgroup is named so")
    planted = [pathlib.Path("/dev/shm", sandbox) for sandbox in (ours, others)]
    try:
        for path in planted:
            path.touch()
        assert [one.name for one in stressing._left(tmp_path / "run-of-this-test", tmp_path)] == [str(planted[0])]
    finally:
        for path in planted:
            path.unlink()
