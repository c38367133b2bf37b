"""What counts as stopped and what as a miss, and the report of the command."""

import json
import subprocess
import sys

import msgspec
import pytest

from opensafe.model.decision import Action
from opensafe.proof import redteam
from opensafe.proof.cases import MANIFEST, Case, Entry, Half, Kind, half_of, load_cases, manifest


def _judged(kind, got, *rules, expect=Action.BLOCK, also=()):
    case = Case(
        id="c", tool="Bash", arguments={}, expect=expect, rule="right", also=also, idea="i", licence="own"
    )  # fmt: skip
    return redteam.Judged(entry=Entry(case=case, kind=kind, half=Half.DEV), action=got, rules=rules)


@pytest.mark.parametrize(
    ("row", "missed"),
    [
        (_judged(Kind.MALICIOUS, Action.BLOCK, "right"), False),
        (_judged(Kind.MALICIOUS, Action.REVIEW, "other", "right"), False),
        (_judged(Kind.MALICIOUS, Action.BLOCK, "second", also=("second",)), False),
        (_judged(Kind.MALICIOUS, Action.BLOCK, "other"), True),
        (_judged(Kind.MALICIOUS, Action.ALLOW, "right"), True),
        (_judged(Kind.BENIGN, Action.ALLOW, "other", expect=Action.ALLOW), False),
        (_judged(Kind.BENIGN, Action.REVIEW, "right", expect=Action.ALLOW), True),
        (_judged(Kind.BENIGN, Action.BLOCK, "right", expect=Action.ALLOW), True),
        (_judged(Kind.REVIEWED, Action.REVIEW, "right", expect=Action.REVIEW), False),
        (_judged(Kind.REVIEWED, Action.BLOCK, "right", expect=Action.REVIEW), True),
    ],
    ids=lambda value: f"{value.entry.kind}-{value.action}-{'+'.join(value.rules)}" if hasattr(value, "entry") else "",
)
def test_a_miss_is_a_wrong_action_or_for_the_malicious_a_wrong_rule(row, missed):
    assert row.missed is missed
    assert len(redteam.figures([row]).misses) == missed


def test_the_rates_are_of_their_own_kind():
    rows = [
        *[_judged(Kind.MALICIOUS, Action.BLOCK, "right")] * 198,
        *[_judged(Kind.MALICIOUS, Action.ALLOW)] * 2,
        *[_judged(Kind.BENIGN, Action.ALLOW, expect=Action.ALLOW)] * 99,
        _judged(Kind.BENIGN, Action.REVIEW, expect=Action.ALLOW),
        _judged(Kind.REVIEWED, Action.BLOCK, expect=Action.REVIEW),
    ]
    found = redteam.figures(rows)
    assert (found.malicious, found.benign, found.reviewed) == (200, 100, 1)
    assert (found.block_rate, found.false_block_rate) == (0.99, 0.01)
    assert (round(found.block_rate_low, 3), round(found.block_rate_high, 3)) == (0.964, 0.997)
    assert found.rules == {"right": redteam.RuleFigure(malicious=200, stopped=198)}
    assert not found.ok, "0.99 is below the goal"


def test_nothing_judged_meets_no_goal():
    assert not redteam.figures([]).ok
    assert not redteam.figures([_judged(Kind.MALICIOUS, Action.BLOCK, "right")]).ok


@pytest.fixture(scope="module")
def development(cases, shipped):
    return redteam.run(shipped, load_cases(cases, (Half.DEV,)))


def test_the_figures_notice_a_policy_that_allows_all_or_stops_all(development):
    """Control: the same verdicts, with the kinds exchanged."""
    exchange = {Kind.MALICIOUS: Kind.BENIGN, Kind.BENIGN: Kind.MALICIOUS, Kind.REVIEWED: Kind.REVIEWED}
    turned = [
        msgspec.structs.replace(row, entry=msgspec.structs.replace(row.entry, kind=exchange[row.entry.kind]))
        for row in development
    ]
    found = redteam.figures(turned)
    assert found.block_rate < 0.1
    assert found.false_block_rate > 0.8


def _command(*words):
    return subprocess.run(
        [sys.executable, "-m", "opensafe.cli", "redteam", "run", "--set", "policy", *words],
        capture_output=True,
        text=True,
    )


def test_the_report_is_complete_and_says_whether_its_goal_holds(cases):
    ended = _command("--json")
    found = json.loads(ended.stdout)
    summary, details = found["summary"], found["details"]
    assert found["schema"] == "opensafe.redteam-policy/1"
    assert summary["half"] == "test"
    assert summary["frozen"]
    for rate in ("block_rate", "false_block_rate"):
        assert 0 <= summary[f"{rate}_low"] <= summary[rate] <= summary[f"{rate}_high"] <= 1
    assert summary["malicious_all"] >= 230
    assert summary["benign_all"] >= 440
    assert summary["rules"] >= 64
    for half in Half:
        part = details[half]
        entries = [entry for entry in load_cases(cases, (half,)) if entry.kind is Kind.MALICIOUS]
        assert sum(row["malicious"] for row in part["rules"].values()) == part["malicious"] == len(entries)
        wrong = sum(miss["kind"] == Kind.MALICIOUS for miss in part["misses"])
        if not entries:
            continue
        assert wrong == round(part["malicious"] * (1 - part["block_rate"])), "every miss is listed"
    assert sum(row["of"] for row in details["families"].values()) == summary["malicious_all"]
    assert sum(row["of"] for row in details["honest"].values()) == summary["benign_all"]
    good = (
        min(summary["malicious"], summary["benign"]) > 0
        and summary["block_rate"] >= summary["goal_block_rate"]
        and summary["false_block_rate"] <= summary["goal_false_block_rate"]
    )
    assert summary["ok"] is good
    assert ended.returncode == (0 if good else 1)


@pytest.fixture
def small(tmp_path):
    """A set of two calls in round 1, and of as many in each half of round 2."""
    calls = {
        Kind.MALICIOUS: {"arguments": {"argv": ["sudo", "id"]}, "expect": "block", "rule": "tool.exec.sudo.deny"},
        Kind.BENIGN: {"arguments": {"argv": ["ls"]}, "expect": "allow", "rule": "tool.exec.allowlist"},
        Kind.REVIEWED: None,
    }
    for half, number in ((Half.DEV, 1), (Half.DEV, 2), (Half.TEST, 2)):
        (tmp_path / half).mkdir(exist_ok=True)
        for kind, call in calls.items():
            name = next(name for name in map(f"{kind}-r{number}-{{}}".format, range(99)) if half_of(name) is half)
            case = {"id": name, "tool": "Exec", "idea": "i", "licence": "own", **(call or {})}
            (tmp_path / half / f"r{number}-{kind}.jsonl").write_text(json.dumps(case) + "\n" if call else "")
    (tmp_path / MANIFEST).write_text(manifest(tmp_path))
    return tmp_path


def test_a_set_that_meets_the_goals_in_both_halves_passes(small):
    ended = _command("--cases", str(small))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "met" in ended.stdout


def test_without_a_held_out_round_there_is_no_figure_and_no_goal_is_met(small):
    for path in (small / Half.TEST).iterdir():
        path.unlink()
    (small / MANIFEST).write_text(manifest(small))
    ended = _command("--cases", str(small))
    assert ended.returncode == 1
    assert "test: empty; no round is held out" in ended.stdout
    assert "MISSED" in ended.stdout
    assert _command("--cases", str(small), "--half", "dev").returncode == 0


def test_a_set_that_is_not_as_frozen_meets_no_goal(small):
    with (small / Half.DEV / "r1-reviewed.jsonl").open("a") as file:
        file.write((small / Half.DEV / "r1-benign.jsonl").read_text().replace("benign", "x").replace("allow", "review"))
    ended = _command("--half", "dev", "--cases", str(small))
    assert ended.returncode == 1
    assert "NOT AS FROZEN" in ended.stdout


def test_an_absent_set_is_named(tmp_path):
    ended = _command("--cases", str(tmp_path / "none"))
    assert ended.returncode == 197
    assert "data set" in ended.stderr


def test_the_lines_of_the_held_out_half_are_shown_only_to_who_asks_for_it(small):
    names = {half: next(name for name in map("wrong-{}".format, range(99)) if half_of(name) is half) for half in Half}
    for half, name in names.items():
        case = {"id": name, "tool": "Exec", "arguments": {"argv": ["sudo", "ls"]}, "expect": "allow", "rule": "r"}
        with (small / half / "r2-benign.jsonl").open("a") as file:
            file.write(json.dumps(case | {"idea": "i", "licence": "own"}) + "\n")
    both = _command("--cases", str(small)).stdout
    assert f"{names[Half.DEV]}: allow by r, got block by" in both
    assert names[Half.TEST] not in both
    assert f"{names[Half.TEST]}: allow by r" in _command("--half", "test", "--cases", str(small)).stdout
