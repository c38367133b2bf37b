"""The file system's probes: each row of the catalogue has one, and a handful is run as the whole suite is."""

import pytest

from opensafe.proof import mutants
from opensafe.proof.escape import boundaries
from opensafe.proof.escape.filesystem import archives, exports, file_api, images
from opensafe.proof.escape.probe import Boundary, Verdict
from opensafe.proof.escape.report import summary

#: The ids of the catalogue's rows.
ROWS = {
    *("FS-01", "FS-02", "FS-03", "FS-04", "FS-05", "FS-06", "FS-08", "FS-09", "FS-11", "FS-12"),
    *("FS-14", "FS-15", "FS-16", "FS-17", "FS-18", "FS-20", "FS-22", "FS-23", "FS-24", "FS-25"),
}
#: A path, the root, an archive, a descriptor, another session, a set-id program.
SHORT = {"FS-01", "FS-04", "FS-11", "FS-18", "FS-20", "FS-24"}
PROBES = boundaries.probes(Boundary.FILESYSTEM)


def test_every_row_has_its_probe():
    assert sorted(probe.id for probe in PROBES) == sorted(ROWS)
    assert all(probe.boundary is Boundary.FILESYSTEM and probe.attacks for probe in PROBES)


@pytest.mark.parametrize(
    "mutant",
    [*file_api.MUTANTS, *exports.MUTANTS, *images.MUTANTS, archives.PLAIN],
    ids=lambda mutant: mutant.id,
)
def test_the_controls_faults_can_still_be_planted(mutant):
    mutants.check(mutant)


@pytest.mark.root
@pytest.mark.runsc
async def test_a_handful_is_contained_and_its_controls_get_out():
    planned = [probe for probe in PROBES if probe.id in SHORT]
    results = await boundaries.runner(Boundary.FILESYSTEM)(planned, only_controls=False, done=lambda _: None)
    told = {result.id: (result.verdict, result.reason, result.control.found) for result in results}
    assert summary(len(planned), results)["ok"], told
    assert {result.verdict for result in results} == {Verdict.CONTAINED}
    assert all(run.layer for result in results for run in result.runs)
