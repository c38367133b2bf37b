"""docs/threat-model.md: each threat names what tests it, and everything named exists."""

import functools
import pathlib
import re

import pytest

from opensafe.proof.escape import boundaries

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = (ROOT / "docs/threat-model.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in MODEL.splitlines()
    if re.match(r"\| [STRIDE][0-9]+ \|", line)
]
THREATS = [row[0] for row in ROWS]


@functools.cache
def known():
    """Ids of all probes, fuzz targets and rules."""
    probes = {probe.id for boundary in boundaries.known() for probe in boundaries.probes(boundary)}
    targets = {f"F{int(path.name[1:3])}" for path in (ROOT / "fuzz/targets").glob("f[0-9][0-9]_*.py")}
    sources = "\n".join(path.read_text() for path in (ROOT / "policies/opensafe").glob("*/*.rego"))
    return probes | targets | {f"`{rule}`" for rule in re.findall(r"^#   id: (\S+)", sources, re.MULTILINE)}


def test_a_threat_has_one_row():
    assert len(THREATS) > 40
    assert len(set(THREATS)) == len(THREATS)


@pytest.mark.parametrize("row", ROWS, ids=THREATS)
def test_what_tests_a_threat_exists(row):
    assert len(row) == 5
    named = [name.strip() for name in row[4].split(",") if name.strip()]
    assert named
    assert [name for name in named if name not in known() and not (ROOT / name).is_file()] == []


def test_threats_and_probes_named_in_the_lists_of_others_exist():
    lists = MODEL.partition("## By the lists of OWASP")[2]
    named = re.findall(r"\b(?:[STRIDE][0-9]{1,2}|[A-Z]{2}-[0-9]{2}[a-z]?)\b", lists)
    assert len(named) > 30
    assert [name for name in named if name not in {*THREATS, *known()}] == []
    for prefix in ("LLM", "ASI"):
        assert re.findall(rf"^\| {prefix}([0-9]+) ", lists, re.MULTILINE) == [f"{n:02}" for n in range(1, 11)]
