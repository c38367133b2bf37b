"""The dashboard: as its program makes it, and by the rules of Grafana's dashboard-linter."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tools import dashboard

ROOT = Path(__file__).resolve().parents[2]
PROMTOOL = ROOT / "build" / "bin" / "promtool"
BOARD = json.loads(dashboard.PATH.read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
TITLES = [panel["title"] for panel in PANELS]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
SELECTOR = re.compile(r"\b(?:opensafe|gen_ai|rpc|process)_[a-z0-9_]+(?![a-z0-9_(])(\{[^}]*\})?")
MATCHERS = {'job=~"$job"', 'instance=~"$instance"'}


def test_the_file_is_what_its_program_makes():
    assert dashboard.PATH.read_text() == dashboard.text(), "make it again: python -m tools.dashboard"


def test_it_is_the_same_wherever_it_is_imported():
    assert (BOARD["uid"], BOARD["editable"], BOARD["tags"]) == ("opensafe", False, ["opensafe"])
    assert "id" not in BOARD
    assert BOARD["schemaVersion"] >= 36


def test_source_job_and_instance_are_variables():
    variables = {one["name"]: one for one in BOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "instance"]
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    for name in ("job", "instance"):
        assert variables[name]["type"] == "query"
        assert variables[name]["datasource"]["uid"] == "${datasource}"
        assert variables[name]["multi"]
        assert variables[name]["allValue"] == ".+"


@pytest.mark.parametrize("panel", PANELS, ids=TITLES)
def test_a_panel_has_title_text_unit_and_the_chosen_source(panel):
    assert panel["type"] == "timeseries"
    assert panel["title"]
    assert re.fullmatch(r"\S.*\.", panel["description"])
    assert panel["fieldConfig"]["defaults"]["unit"]
    for part in (panel, *panel["targets"]):
        assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(target["legendFormat"] for target in panel["targets"])
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_are_told_apart():
    numbers = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    assert len(set(TITLES)) == len(TITLES)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_of_the_chosen_job_and_instance(query):
    selectors = [found[1] for found in SELECTOR.finditer(re.sub(r"by \([^)]*\)", "", query))]
    assert selectors
    for selector in selectors:
        assert selector is not None, query
        assert set(selector[1:-1].split(", ")) >= MATCHERS


@pytest.mark.parametrize("query", QUERIES)
def test_a_rate_is_over_what_the_scrape_allows(query):
    assert re.findall(r"\[([^\]]*)\]", query) == ["$__rate_interval"] * (
        query.count("rate(") + query.count("increase(")
    )


def test_every_query_is_promql(tmp_path):
    def plain(query):
        return query.replace("$__rate_interval", "5m").replace("$job", "opensafe").replace("$instance", ".+")

    rules = [{"record": f"query:{number}", "expr": plain(query)} for number, query in enumerate(QUERIES)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    checked = subprocess.run([PROMTOOL, "check", "rules", file], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(QUERIES)} rules found" in checked.stdout
