"""How the campaign's places on a cluster begin and end: whatever goes wrong in one, all are ended, and it is told."""

import json
import pathlib
import subprocess
import sys

import pytest

WELL = '{"type": "Checked", "checks": []}'
FAULT = '{"type": "Fault", "message": "no room"}'


@pytest.mark.parametrize(
    ("begun", "ended", "raised"),
    [
        (WELL, WELL, ""),
        (FAULT, WELL, "HostUnsuitable: a node can't run batches"),
        (WELL, FAULT, "PlaceLostError: b/bbbbbbbb keeps what was made there: no room"),
        (FAULT, FAULT, "HostUnsuitable: a node can't run batches"),
    ],
    ids=["well", "can-not-begin", "can-not-end", "neither"],
)
def test_every_place_is_ended(begun, ended, raised):
    driver = pathlib.Path(__file__).with_name("places_driver.py")
    ran = subprocess.run([sys.executable, driver, begun, ended], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert sorted(seen["asked"]) == ["begin a", "begin b", "end a", "end b", "kill", "kill"]
    assert seen["raised"].startswith(raised)
    assert bool(seen["raised"]) == bool(raised)
