"""The control plane's probes: each row of the catalogue has one, and a handful is run as the whole suite is."""

import pytest

from opensafe.proof import mutants
from opensafe.proof.escape import boundaries, wire
from opensafe.proof.escape.control import judged, lag
from opensafe.proof.escape.control import mutants as planted
from opensafe.proof.escape.probe import Boundary, Verdict
from opensafe.proof.escape.report import summary

#: The ids of the catalogue's rows.
ROWS = {
    *("CP-01", "CP-02", "CP-03", "CP-04", "CP-05", "CP-07", "CP-08", "CP-09", "CP-10", "CP-12", "CP-13"),
    *("CP-14", "CP-15", "CP-16", "CP-18", "CP-19", "CP-20", "CP-21", "CP-23", "CP-24", "CP-25"),
}
#: Another's session, hooks, directories, an edited log, one written anew, and what is told to everybody.
SHORT = {"CP-03", "CP-05", "CP-07", "CP-14", "CP-16", "CP-23"}
PROBES = boundaries.probes(Boundary.CONTROL)
FAULTS = [
    *(*planted.REAPER, *planted.ACKNOWLEDGED),
    *(
        mutant
        for table in (planted.DAEMONS, planted.VERIFIERS, planted.SUITE)
        for faults in table.values()
        for mutant in faults
    ),
]


def test_every_row_has_its_probe():
    assert sorted(probe.id for probe in PROBES) == sorted(ROWS)
    assert all(probe.boundary is Boundary.CONTROL and probe.attacks for probe in PROBES)
    assert all(probe in PROBES for probe in lag.TRIALS)


@pytest.mark.parametrize("mutant", FAULTS, ids=lambda mutant: mutant.id)
def test_the_controls_faults_can_still_be_planted(mutant):
    mutants.check(mutant)


def test_CP25_what_proves_nothing_is_green_for_no_probe(capsys):
    judged.main()
    assert capsys.readouterr().out == ""


def test_CP25_and_would_be_told(monkeypatch, capsys):
    monkeypatch.setattr(judged, "summary", lambda *_: {"ok": True})
    judged.main()
    assert "a suite without probes is green" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "data"),
    [
        ({"f1": 0}, b"\x08\x00"),
        ({"f1": 300}, b"\x08\xac\x02"),
        ({"f2": -1}, b"\x10" + b"\xff" * 9 + b"\x01"),
        ({"f900": "é"}, b"\xa2\x38\x02\xc3\xa9"),
    ],
)
def test_fields_are_written_as_protocol_buffers_has_them(fields, data):
    assert wire.message(**fields) == data


def test_what_was_written_is_read():
    assert wire.read(wire.message(f1="a", f2=5, f3=b"b" * 300)) == {1: b"a", 3: b"b" * 300}


@pytest.mark.root
@pytest.mark.runsc
async def test_a_handful_is_contained_and_its_controls_get_out():
    planned = [probe for probe in PROBES if probe.id in SHORT]
    results = await boundaries.runner(Boundary.CONTROL)(planned, only_controls=False, done=lambda _: None)
    told = {result.id: (result.verdict, result.reason, result.control.found) for result in results}
    assert summary(len(planned), results)["ok"], told
    assert {result.verdict for result in results} == {Verdict.CONTAINED}
    assert all(run.layer for result in results for run in result.runs)
