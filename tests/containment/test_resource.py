"""The resource boundary: every row of the catalogue has its probe, and the quick ones hold, each beside its control."""

import pytest
import pytest_asyncio

from opensafe.proof.escape import boundaries
from opensafe.proof.escape.probe import Boundary, Verdict
from opensafe.proof.escape.report import summary

pytestmark = [pytest.mark.root, pytest.mark.runsc]

ROWS = {
    *("RS-01", "RS-02", "RS-03", "RS-04", "RS-06", "RS-07", "RS-09", "RS-10", "RS-11", "RS-12", "RS-13"),
    *("RS-15", "RS-16", "RS-17", "RS-18", "RS-19", "RS-20"),
}
PROBES = {probe.id: probe for probe in boundaries.probes(Boundary.RESOURCE)}
#: In cells, and against one daemon of each of two kinds.
QUICK = ("RS-03", "RS-04", "RS-07", "RS-11", "RS-13", "RS-18")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def results():
    run = boundaries.runner(Boundary.RESOURCE)
    made = await run([PROBES[row] for row in QUICK], only_controls=False, done=lambda _: None)
    return {result.id: result for result in made}


def test_every_row_has_its_probe():
    assert PROBES.keys() == ROWS
    assert len(boundaries.probes(Boundary.RESOURCE)) == len(ROWS)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("row", QUICK)
async def test_it_is_contained_and_the_control_is_not(results, row):
    result = results[row]
    assert result.control_breached, result.control
    assert result.verdict is Verdict.CONTAINED, result.reason
    assert all(run.layer for run in result.runs)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_run_as_a_whole_holds(results):
    assert summary(len(QUICK), list(results.values()))["ok"]


@pytest.mark.asyncio(loop_scope="module")
async def test_rs_03_the_group_stops_what_has_no_limits_of_its_own(results):
    _, own, alone = results["RS-03"].runs
    assert "the call's address space" in own.layer
    assert "the call's limits" in alone.opened
    assert "the group's memory" in alone.layer
