"""The alerts: checked and tested by promtool, in one style, each with its page."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROMTOOL = ROOT / "build" / "bin" / "promtool"
RULES = ROOT / "deploy" / "prometheus" / "opensafe.rules.yml"
TESTS = ROOT / "deploy" / "prometheus" / "tests" / "opensafe.test.yml"
RUNBOOKS = ROOT / "docs" / "runbooks.md"

ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
NAMES = [rule["alert"] for rule in ALERTS]


def promtool(*arguments):
    return subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True)


def test_promtool_finds_the_rules_well_formed():
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_fires_when_it_should_and_is_quiet_when_not():
    tested = promtool("test", "rules", TESTS)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("name", NAMES)
def test_there_is_a_test_in_which_it_fires_and_one_in_which_it_does_not(name):
    asked = [case for test in yaml.safe_load(TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    ours = [case for case in asked if case["alertname"] == name]
    assert any(case.get("exp_alerts") for case in ours)
    assert any(not case.get("exp_alerts") for case in ours)


def test_a_threshold_that_moved_is_noticed(tmp_path):
    """The positive control: promtool does read our rules."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "t.yml").write_text(TESTS.read_text())
    (tmp_path / "opensafe.rules.yml").write_text(RULES.read_text().replace("> 1800", "> 9000"))
    tested = promtool("test", "rules", tmp_path / "tests" / "t.yml")
    assert tested.returncode == 1
    assert "OpenSafeReviewsWaitLong" in tested.stdout + tested.stderr


@pytest.mark.parametrize("rule", ALERTS, ids=NAMES)
def test_an_alert_is_in_the_style_of_all(rule):
    assert re.fullmatch(r"OpenSafe([A-Z][a-z]+)+", rule["alert"])
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url"}
    assert re.fullmatch(r"[A-Z][^{}]*\.", notes["summary"]), "a sentence that is the same for all"
    assert "$labels.instance" in notes["description"]
    assert notes["description"].endswith(".")
    assert notes["runbook_url"] == f"file:///opt/opensafe/share/doc/runbooks.md#{rule['alert'].lower()}"


def test_there_is_one_page_for_each_and_each_page_has_its_alert():
    pages = re.findall(r"^## (\w+)$", RUNBOOKS.read_text(), re.MULTILINE)
    assert pages == list(dict.fromkeys(pages))
    assert sorted(pages) == sorted(set(NAMES))


@pytest.mark.parametrize("rule", ALERTS, ids=NAMES)
def test_a_page_begins_with_the_severity(rule):
    page = RUNBOOKS.read_text().split(f"\n## {rule['alert']}\n")[1]
    assert page.strip().startswith(f"{rule['labels']['severity']}. ")


def test_pages_refer_to_pages():
    text = RUNBOOKS.read_text()
    pages = {page.lower() for page in re.findall(r"^## (\w+)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", text)) <= pages


def test_prometheus_takes_the_configuration():
    checked = promtool("check", "config", ROOT / "deploy" / "prometheus" / "prometheus.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
