"""What counts as stopped and what as a miss, and the report of the command."""

import json
import shutil
import subprocess
import sys

import msgspec
import pytest

from opensafe.model.decision import Action
from opensafe.proof import redteam
from opensafe.proof.cases import Case, Entry, Half, Kind, half_of, load_cases


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
        assert wrong == round(part["malicious"] * (1 - part["block_rate"])), "every miss is listed"
    good = (
        summary["block_rate"] >= summary["goal_block_rate"]
        and summary["false_block_rate"] <= summary["goal_false_block_rate"]
    )
    assert summary["ok"] is good
    assert ended.returncode == (0 if good else 1)


def test_a_set_that_is_not_as_frozen_meets_no_goal(cases, tmp_path):
    copy = tmp_path / "cases"
    shutil.copytree(cases, copy)
    for kind in (Kind.MALICIOUS, Kind.BENIGN):
        path = copy / Half.DEV / f"{kind}.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    ended = _command("--half", "dev", "--cases", str(copy))
    assert ended.returncode == 1
    assert "NOT AS FROZEN" in ended.stdout


def test_an_absent_set_is_named(tmp_path):
    ended = _command("--cases", str(tmp_path / "none"))
    assert ended.returncode == 197
    assert "data set" in ended.stderr


def test_the_lines_of_the_held_out_half_are_shown_only_to_who_asks_for_it(cases, tmp_path):
    copy = tmp_path / "cases"
    shutil.copytree(cases, copy)
    names = {half: next(name for name in map("wrong-{}".format, range(99)) if half_of(name) is half) for half in Half}
    for half, name in names.items():
        case = {"id": name, "tool": "Exec", "arguments": {"argv": ["sudo", "id"]}, "expect": "allow", "rule": "r"}
        with (copy / half / "benign.jsonl").open("a") as file:
            file.write(json.dumps(case | {"idea": "i", "licence": "own"}) + "\n")
    both = _command("--cases", str(copy)).stdout
    assert f"{names[Half.DEV]}: allow by r, got block by" in both
    assert names[Half.TEST] not in both
    assert f"{names[Half.TEST]}: allow by r" in _command("--half", "test", "--cases", str(copy)).stdout
