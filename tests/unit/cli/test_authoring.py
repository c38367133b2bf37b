"""`opensafe policy build|test|lint`: what is wrong is named with its place and a remedy; the exit status says so."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opensafe.cli.exits import Exit

POLICIES = Path(__file__).resolve().parents[3] / "policies"

PLANTED = """# METADATA
# title: Planted
# description: A rule of this test.
package opensafe.planted

import data.opensafe.hit

# METADATA
# title: Planted
# description: A rule of this test.
# custom:
#   id: tool.planted.deny
#   severity: low
#   threat: none
blocks contains hit.block(
	"tool.planted.deny", "low",
	"planted", "", "Do without.",
) if {
	input.call.tool == "Planted"
}
"""
TESTS = """# METADATA
# title: Planted, tested
# description: All but the missing field.
package opensafe.planted_test

import data.opensafe.planted

test_block_tool_planted_deny if {
	count(planted.blocks) == 1 with input as {"call": {"tool": "Planted"}}
}

test_allow_tool_planted_deny if {
	count(planted.blocks) == 0 with input as {"call": {"tool": "Read"}}
}
"""
LINE = PLANTED[: PLANTED.index("blocks contains")].count("\n") + 1


@pytest.fixture
def tree(tmp_path):
    """A copy of the policies without their data set, to be spoiled."""
    return Path(shutil.copytree(POLICIES, tmp_path / "policies", ignore=shutil.ignore_patterns("cases")))


def plant(tree, text=PLANTED):
    """A rule with tests, but none of a missing field. Returns its file; LINE is what is to be named."""
    rules = tree / "opensafe/planted/planted.rego"
    rules.parent.mkdir()
    rules.write_text(text)
    rules.with_name("planted_test.rego").write_text(TESTS)
    return rules


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle of the shipped policies, and the report of its build."""
    out = tmp_path_factory.mktemp("bundle") / "bundle.tar.gz"
    words = ["policy", "build", "--policies", POLICIES, "--out", out, "--number", "7", "--json"]
    done = subprocess.run([sys.executable, "-m", "opensafe.cli", *words], capture_output=True, check=True)
    return out, json.loads(done.stdout)


async def test_the_shipped_rules_are_clean(opensafe):
    ended = await opensafe("policy", "lint", "--policies", str(POLICIES), "--json")
    report = json.loads(ended.stdout)
    assert (ended.status, report["details"]["findings"]) == (0, [])
    assert report["summary"]["rules"] >= 68


async def test_a_rule_without_a_missing_field_test_is_named_by_place_and_remedy(opensafe, tree):
    rules = plant(tree)
    ended = await opensafe("policy", "lint", "--policies", str(tree), "--json")
    report = json.loads(ended.stdout)
    assert ended.status == Exit.GOAL_MISSED
    (finding,) = report["details"]["findings"]
    assert (finding["file"], finding["line"], finding["rule"]) == (str(rules), LINE, "tool.planted.deny")
    assert "test_missing_tool_planted_deny" in finding["message"]
    assert finding["remedy"]

    shown = await opensafe("policy", "lint", "--policies", str(tree))
    assert shown.status == Exit.GOAL_MISSED
    assert f"{rules}:{LINE}: tool.planted.deny: no test_missing" in shown.stdout.decode()


@pytest.mark.parametrize(
    ("check", "old", "new"), [("fmt", "import ", "import   "), ("check", "hit.block(", "hit.blok(")]
)
async def test_format_and_compiler_errors_are_findings_too(opensafe, tree, check, old, new):
    rules = plant(tree, PLANTED.replace(old, new))
    report = json.loads((await opensafe("policy", "lint", "--policies", str(tree), "--json")).stdout)
    assert check in {finding["check"] for finding in report["details"]["findings"]}
    assert {finding["file"] for finding in report["details"]["findings"]} == {str(rules)}


async def test_tests_report_rules_coverage_and_the_data_set_by_rule_and_half(opensafe):
    report = json.loads((await opensafe("policy", "test", "--policies", str(POLICIES), "--json")).stdout)
    summary = report["summary"]
    assert summary["rules"] >= 68
    assert summary["coverage"] >= summary["goal_coverage"] == 95.0
    assert summary["tests_failed"] == 0
    halves = report["details"]["data_set"]
    assert halves.keys() == {"dev", "test"}
    assert halves["dev"]["rules"]
    assert report["summary"]["cases"] >= 640
    assert report["summary"]["block_rate"] == halves["test"]["block_rate"]
    assert halves["test"]["malicious"] or not report["summary"]["ok"], "without a held-out round nothing is shown"


async def test_a_failing_test_is_named_and_fails(opensafe, tree):
    tests = plant(tree).with_name("planted_test.rego")
    tests.write_text(TESTS.replace("== 1 with", "== 2 with"))
    ended = await opensafe("policy", "test", "--policies", str(tree))
    assert ended.status == Exit.GOAL_MISSED
    assert f"{tests}:8: test_block_tool_planted_deny failed" in ended.stdout.decode()


def test_build_writes_a_bundle_that_names_its_rules_sources(bundle):
    out, report = bundle
    assert report["summary"]["bundle_revision"].startswith("7-")
    assert out.stat().st_size == report["summary"]["bundle_bytes"]
    for note in report["details"]["rules"]:
        text = (POLICIES / note["file"]).read_text().splitlines()[note["line"] - 1 :]
        assert f'"{note["id"]}"' in "\n".join(text[:3])


async def test_build_stops_at_the_first_failing_step_and_writes_nothing(opensafe, tree, tmp_path):
    plant(tree)
    out = tmp_path / "bundle.tar.gz"
    ended = await opensafe("policy", "build", "--policies", str(tree), "--out", str(out))
    assert ended.status == Exit.DENIED
    assert "no test_missing_tool_planted_deny" in ended.stderr
    assert not out.exists()


async def test_a_bundle_is_tried_offline_and_explained_like_this(opensafe, bundle):
    out, _ = bundle
    shown = await opensafe("policy", "explain", "Read", '{"path": "/etc/shadow"}', "--bundle", str(out))
    text = shown.stdout.decode()
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[:2] == ["block: Read by default (developer)", '  {"path":"/etc/shadow"}']
    assert "tool.read.secrets.block (critical) says block, and decides\n  reason   /etc/shadow holds secrets\n" in text
    assert "\n  source   opensafe/read/read.rego:" in text
    assert "\nnearest allowed\n  path     /etc/shadow → /workspace/shadow, /tmp/shadow\n" in text
    assert "\nwhat policy saw\n  read     /etc/shadow  [system, secret]\n" in text
    role = await opensafe("policy", "explain", "Bash", "{}", "--bundle", str(out), "--role", "reader")
    assert role.status == Exit.REQUEST  # the arguments are not Bash's
    role = await opensafe("policy", "explain", "Bash", '{"command": "ls"}', "--bundle", str(out), "--role", "reader")
    assert "caller.role.tools" in role.stdout.decode()
    assert "  tool     Bash → " in role.stdout.decode()
