"""The syscall boundary: every row of the catalogue has its probe, the sweep holds, and a short form of the rest."""

import asyncio
import json
import subprocess
import sys

import pytest

from opensafe.proof import mutants
from opensafe.proof.escape import boundaries, report
from opensafe.proof.escape.probe import Boundary, Verdict
from opensafe.proof.escape.syscall.mutants import COPYING, NO_ARGUMENTS, TAKING
from opensafe.proof.escape.syscall.probes import PROBES
from opensafe.proof.escape.syscall.running import run

ROWS = {
    *("SY-01", "SY-02", "SY-04", "SY-05", "SY-06", "SY-08", "SY-09", "SY-10", "SY-11", "SY-12", "SY-14"),
}
#: Those that need no second daemon.
SHORT = ("SY-06", "SY-09", "SY-10")


def test_every_row_has_its_probe():
    assert {probe.id for probe in PROBES} == ROWS
    assert len(PROBES) == len(ROWS)
    assert boundaries.probes(Boundary.SYSCALL) == PROBES


@pytest.mark.parametrize("probe", PROBES, ids=[probe.id for probe in PROBES])
def test_each_is_tried_as_shipped_and_with_layers_opened(probe):
    assert probe.boundary is Boundary.SYSCALL
    assert len(probe.attempts) >= 2
    assert not probe.limit


@pytest.mark.parametrize("mutant", [NO_ARGUMENTS, *COPYING, TAKING], ids=lambda mutant: mutant.id)
def test_mutants_can_be_planted(mutant):
    mutants.check(mutant)


@pytest.mark.root
@pytest.mark.runsc
def test_SY_01_SY_02_every_number_is_answered_as_each_profile_states():
    """The whole sweep: 3 profiles and none, some seconds."""
    words = [sys.executable, "-m", "opensafe.cli", "escape", "syscalls", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    summary = told["summary"]
    assert (summary["wrong"], summary["other"]) == (0, 0), told["details"]
    assert summary["ran"] == summary["planned"] > 10_000
    assert summary["EXDEV"] + summary["ENOSYS"] + summary["SIGSYS"] == summary["out_of_policy"] > 10_000
    assert all(one["open_done"] > 100 for one in told["details"])
    if summary["table"]:  # of this version of runsc somebody has looked at the answers
        assert summary["differs"] == 0, told["details"]
        assert done.returncode == 0


@pytest.mark.root
@pytest.mark.runsc
def test_the_short_form_is_contained_and_its_controls_get_out():
    chosen = [probe for probe in PROBES if probe.id in SHORT]
    results = asyncio.run(run(chosen, only_controls=False, done=lambda _: None))
    assert report.summary(len(chosen), results)["ok"], report.lines(results)
    assert all(result.verdict is Verdict.CONTAINED and result.layer for result in results)
    for result in results:
        assert any("policy" in one.opened for one in result.runs), result.id


@pytest.mark.parametrize(
    ("words", "says"), [(["--profile", "nope"], "no such profile"), (["--boundary", "syscall"], "No such option")]
)
def test_wrong_usage_runs_nothing(words, says):
    done = subprocess.run(
        [sys.executable, "-m", "opensafe.cli", "escape", "syscalls", *words], capture_output=True, text=True
    )
    assert done.returncode not in (0, 1)
    assert says in done.stderr
