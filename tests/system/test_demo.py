"""`make demo`'s program, for real: six verdicts, a verified record, nothing left behind."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from opensafe.cli import leftovers
from opensafe.client import CallResult, Verdict
from opensafe.model.decision import Action, RuleHit, Severity
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.proof.seed import STEPS, Done
from tests.harness import directories

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.root, pytest.mark.runsc]


@pytest.fixture(scope="module")
def demo():
    """The demo, run once without a terminal at 80 columns: what it printed and what it reported."""
    before = directories.of("demo")
    ended = subprocess.run(
        [sys.executable, "-m", "tools.demo"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert directories.of("demo") <= before
    return ended.stdout, json.loads((ROOT / "build/demo.json").read_text())


def test_the_six_verdicts_are_these(demo):
    _, report = demo
    assert [(step["tool"], step["action"], step["outcome"]) for step in report["details"]["steps"]] == [
        ("Read", "allow", "exited"),
        ("Bash", "review", "review_pending"),
        ("Bash", "block", "blocked"),
        ("Write", "allow", "exited"),
        ("Read", "block", "blocked"),
        ("Bash", "allow", "exited"),
    ]


def test_the_rules_behind_the_verdicts_are_named(demo):
    rules = [step["rules"] for step in demo[1]["details"]["steps"]]
    assert all(rules)
    assert {"egress.domain.allowlist", "tool.bash.network.deny"} <= set(rules[2])
    assert "tool.read.secrets.block" in rules[4]


def test_what_ran_took_time_and_what_did_not_run_took_none(demo):
    for step in demo[1]["details"]["steps"]:
        assert step["decision_ms"] > 0
        assert (step["run_ms"] > 0) == (step["action"] == "allow")


def test_the_record_verifies_and_every_allow_was_judged_again(demo):
    audit = demo[1]["details"]["audit"]
    assert audit["verified"] is True
    assert audit["replayed"] == audit["executions"] + 1  # and the sandbox, which is no execution
    assert audit["findings"] == 0


def test_the_report_has_the_one_form_and_the_trace_id(demo):
    assert list(demo[1]) == ["schema", "version", "environment", "summary", "details"]
    assert demo[1]["schema"] == "opensafe.demo/1"
    assert len(bytes.fromhex(demo[1]["details"]["trace_id"])) == 16


def test_what_a_newcomer_sees_fits_80_columns_and_shows_the_run(demo):
    lines = demo[0].splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in demo[0]
    assert any("Ran 6 tests in" in line for line in lines)
    assert any("npm install" in line for line in lines[lines.index("$ opensafe review list") :])
    assert any(demo[1]["details"]["trace_id"] in line for line in lines)


def test_nothing_is_left_behind(demo):
    """Neither processes nor mounts nor cgroups of the demo's sandbox; others may run sandboxes meanwhile."""
    sandbox_id = demo[1]["details"]["sandbox_id"]
    found = leftovers.find(pathlib.Path("/run/opensafe"))
    assert [one for one in found if sandbox_id in f"{one.name} {one.said}"] == []


def _done(step, action, rules, **outcome):
    hits = tuple(RuleHit(id=rule, severity=Severity.HIGH, action=action, reason="") for rule in rules)
    verdict = Verdict(decision_id="dec-1", action=action, rules=hits)
    return Done(step, CallResult(verdict=verdict, outcome=Outcome(**outcome), stdout=b"# Till"))


@pytest.mark.parametrize(
    ("step", "action", "rules", "outcome", "complaint"),
    [
        (1, Action.ALLOW, ["a"], {"kind": OutcomeKind.EXITED, "exit_code": 0}, ""),
        (1, Action.BLOCK, ["a"], {"kind": OutcomeKind.BLOCKED}, "expected allow, got block by a"),
        (1, Action.ALLOW, ["a"], {"kind": OutcomeKind.EXITED, "exit_code": 1}, "ended exited 1"),
        (1, Action.ALLOW, ["a"], {"kind": OutcomeKind.LOST, "detail": "gone"}, "ended lost None gone"),
        (
            3,
            Action.BLOCK,
            ["tool.bash.network.deny"],
            {"kind": OutcomeKind.BLOCKED},
            "expected egress.domain.allowlist",
        ),
        (6, Action.ALLOW, ["a"], {"kind": OutcomeKind.EXITED, "exit_code": 0}, "its output lacks 'Ran 6 tests in'"),
    ],
    ids=["as expected", "verdict", "failed", "lost", "rule missing", "no output"],
)
def test_a_demo_that_goes_otherwise_says_how(step, action, rules, outcome, complaint):
    said = _done(STEPS[step - 1], action, rules, **outcome).complaint()
    assert complaint in said
    assert bool(said) == bool(complaint)
