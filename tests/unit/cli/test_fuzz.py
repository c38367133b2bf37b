"""`opensafe fuzz`: its reports and its exit statuses."""

import json

import pytest

from opensafe.cli import app
from opensafe.cli.exits import Exit

pytest.importorskip("atheris", reason="opensafe[fuzz] is not installed")


def _run(capsys, *words):
    status = app.run(["fuzz", *words])
    return status, capsys.readouterr().out


def test_targets_are_listed_with_their_mutants(capsys):
    status, out = _run(capsys, "list", "--json")
    listed = json.loads(out)
    assert status == Exit.OK
    assert listed["summary"]["targets"] == len(listed["details"]) > 0
    assert all(len(row["mutants"]) >= 3 for row in listed["details"])


def test_a_run_is_told_with_what_it_reached(capsys):
    status, out = _run(capsys, "run", "f5", "--runs", "1500", "--seed", "1", "--json")
    summary = json.loads(out)["summary"]
    assert status == Exit.OK
    assert summary["ok"]
    assert summary["executed"] == summary["planned"] == 1500
    assert summary["coverage"] >= summary["floor"]
    assert summary["new_units"] > 0


def test_one_input_is_run_again(capsys, tmp_path):
    (tmp_path / "input").write_bytes(b"\0\0\0Px.a.test")
    status, out = _run(capsys, "run", "F5", "--input", str(tmp_path / "input"))
    assert (status, out) == (Exit.OK, "every invariant holds\n")


def test_an_unknown_target_is_a_wrong_request(capsys):
    assert _run(capsys, "run", "F99")[0] == Exit.REQUEST
