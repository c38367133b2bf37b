"""The scenarios of a benchmark that probes name: those there are, and which probes as the page says."""

import re
from pathlib import Path
from typing import get_args

from opensafe.proof.escape import boundaries
from opensafe.proof.escape.probe import Boundary, Challenge

PAGE = Path(__file__).resolve().parents[3] / "docs/escape.md"
PROBES = [probe for boundary in Boundary for probe in boundaries.probes(boundary)]


def test_probes_name_scenarios_that_there_are():
    assert len(set(get_args(Challenge))) == 18
    assert {name for probe in PROBES for name in probe.benchmark} <= set(get_args(Challenge))


def test_the_page_has_every_scenario_with_its_probes():
    rows = dict(
        re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text().split("## SandboxEscapeBench")[1], re.MULTILINE)
    )
    named = {
        name: ", ".join(sorted(probe.id for probe in PROBES if name in probe.benchmark)) for name in get_args(Challenge)
    }
    assert {name: "" if says.startswith("none: ") else says for name, says in rows.items()} == named
