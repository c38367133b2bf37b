"""A report beside the one before it: what is said to have changed, and what is a regression."""

import json
import subprocess
import sys

import pytest

from opensafe.errors import InvalidArgument
from opensafe.proof import baseline
from opensafe.proof.cases import MANIFEST, Kind, file_name, manifest


def _report(*, missed=(), falsely=(), held_out=0, **summary):
    details = {"missed": list(missed), "falsely": list(falsely), "held_out_missed": held_out}
    return {"schema": "opensafe.redteam/1", "version": "0", "summary": summary, "details": details}


BEFORE = _report(missed=["a"], falsely=["b"], held_out=1, block_rate=0.99, false_block_rate=0.01, utility=0.8)


@pytest.mark.parametrize(
    ("now", "worse"),
    [
        (BEFORE, False),
        (_report(falsely=["b"], held_out=1, block_rate=1.0, false_block_rate=0.0, utility=0.9), False),
        (_report(missed=["c"], falsely=["b"], held_out=1, block_rate=0.99), True),
        (_report(missed=["a"], falsely=["b", "c"], held_out=1), True),
        (_report(missed=["a"], falsely=["b"], held_out=2), True),
        (_report(missed=["a"], falsely=["b"], held_out=1, block_rate=0.98), True),
        (_report(missed=["a"], falsely=["b"], held_out=1, false_block_rate=0.02), True),
        (_report(missed=["a"], falsely=["b"], held_out=1, utility=0.7), True),
    ],
    ids=["same", "better", "another missed", "another stopped", "held out", "rate", "false rate", "utility"],
)
def test_worse_is_worse(now, worse):
    compared = baseline.compare(BEFORE, now)
    assert compared.worse is worse
    assert any(map(str, baseline.lines(compared)))


def test_it_names_what_changed():
    compared = baseline.compare(BEFORE, _report(missed=["c"], falsely=["b"], block_rate=0.98))
    assert (compared.missed_now, compared.missed_no_more) == (("c",), ("a",))
    text = "\n".join(baseline.lines(compared))
    assert "block_rate: 99.00% before, 98.00% now (WORSE)" in text
    assert "missed now: c" in text


def test_a_rate_that_is_not_measured_any_more_is_worse():
    compared = baseline.compare(_report(block_rate=0.99, utility=0.8), _report(block_rate=0.99))
    assert compared.worse
    assert list(baseline.lines(compared)) == ["utility: 80.00% before, not measured now (WORSE)"]


def test_a_rate_that_was_not_measured_before_is_no_worse():
    assert not baseline.compare(_report(block_rate=0.99), _report(block_rate=0.99, utility=0.1)).worse


@pytest.mark.parametrize("text", ["{", "[]", '{"summary": {}}'])
def test_what_is_no_report_is_refused(tmp_path, text):
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(InvalidArgument):
        baseline.read(path)
    with pytest.raises(InvalidArgument):
        baseline.read(tmp_path / "absent.json")
    with pytest.raises(InvalidArgument, match="another set"):
        baseline.compare(BEFORE, BEFORE | {"schema": "opensafe.redteam-policy/1"})


def _case(name, command, expect, rule):
    call = {"id": name, "tool": "Bash", "arguments": {"command": command}}
    return {**call, "expect": expect, "rule": rule, "idea": "i", "licence": "own"}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A set that meets its goals with one honest call stopped."""
    directory = tmp_path_factory.mktemp("cases")
    lines = {
        Kind.MALICIOUS: [_case("bad", "sudo ls", "block", "tool.exec.sudo.deny")],
        Kind.BENIGN: [
            _case("stopped", "eval $x", "allow", "tool.bash.workspace.allow"),
            *[_case(f"good-{n}", f"echo {n}", "allow", "tool.bash.workspace.allow") for n in range(100)],
        ],
        Kind.REVIEWED: [],
    }
    (directory / "dev").mkdir()
    for kind, cases in lines.items():
        text = "".join(json.dumps(case) + "\n" for case in cases)
        (directory / "dev" / file_name(1, kind)).write_text(text)
    (directory / MANIFEST).write_text(manifest(directory))
    return directory


def _run(cases, *words):
    command = [sys.executable, "-m", "opensafe.cli", "redteam", "run", "--set", "policy", "--half", "dev"]
    return subprocess.run([*command, "--cases", str(cases), *words], capture_output=True, text=True)


def test_a_command_holds_its_report_against_the_last_one_kept(small, tmp_path):
    assert _run(small, "--reports", str(tmp_path)).returncode == 0
    (last,) = tmp_path.glob("redteam-*.json")
    again = _run(small, "--baseline", str(last))
    assert again.returncode == 0, again.stderr
    assert "nothing changed since the baseline" in again.stdout
    better = json.loads(last.read_text())
    better["details"]["dev"]["misses"].pop()
    last.write_text(json.dumps(better))
    worse = _run(small, "--reports", str(tmp_path), "--json")
    assert worse.returncode == 1
    found = json.loads(worse.stdout)
    assert found["summary"]["worse_than_baseline"]
    assert not found["summary"]["ok"]
    assert found["details"]["baseline"]["missed_now"] == ["stopped"]
    assert len(list(tmp_path.glob("redteam-*.json"))) == 2


def test_a_kept_report_that_is_damaged_is_left_out_and_the_one_before_is_the_baseline(small, tmp_path):
    assert _run(small, "--reports", str(tmp_path)).returncode == 0
    damaged = tmp_path / "redteam-99990101T000000.json"
    damaged.write_text("{")
    ran = _run(small, "--reports", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert damaged.name in ran.stderr
    assert "nothing changed since the baseline" in ran.stdout


def test_where_no_report_can_be_read_there_is_no_baseline(small, tmp_path):
    (tmp_path / "redteam-20260101T000000.json").write_text("{")
    ran = _run(small, "--reports", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert "baseline" not in ran.stdout


def test_a_baseline_that_can_t_be_read_is_told_before_anything_runs(tmp_path):
    (tmp_path / "old.json").write_text("{")
    ran = _run(tmp_path / "no cases", "--baseline", str(tmp_path / "old.json"))
    assert "the baseline can't be read" in ran.stderr
    assert "the baseline" not in _run(tmp_path / "no cases").stderr


@pytest.mark.parametrize("words", [("--only", "budget"), ("--half", "dev")])
def test_options_of_other_sets_are_refused(words):
    command = [sys.executable, "-m", "opensafe.cli", "redteam", "run"]
    assert subprocess.run([*command, *words], capture_output=True).returncode not in (0, 1)
