"""The process boundary's probes: each row of the catalogue has one, and a handful is run as the whole suite is."""

import pytest

from opensafe.proof.escape import boundaries
from opensafe.proof.escape.probe import Boundary, Verdict
from opensafe.proof.escape.report import summary

#: The ids of the catalogue's rows.
ROWS = {"PR-01", "PR-02", "PR-03", "PR-04", "PR-06", "PR-07", "PR-09", "PR-10", "PR-12", "PR-13"}
SHORT = {"PR-01", "PR-02", "PR-03", "PR-06", "PR-10"}
PROBES = boundaries.probes(Boundary.PROCESS)


def test_every_row_has_its_probe():
    assert sorted(probe.id for probe in PROBES) == sorted(ROWS)
    assert all(probe.boundary is Boundary.PROCESS and probe.attacks for probe in PROBES)


@pytest.mark.root
@pytest.mark.runsc
async def test_a_handful_is_contained_and_its_controls_get_out():
    planned = [probe for probe in PROBES if probe.id in SHORT]
    results = await boundaries.runner(Boundary.PROCESS)(planned, only_controls=False, done=lambda _: None)
    told = {result.id: (result.verdict, result.reason, result.control.found) for result in results}
    assert summary(len(planned), results)["ok"], told
    assert {result.verdict for result in results} == {Verdict.CONTAINED}
    assert all(run.layer for result in results for run in result.runs)
