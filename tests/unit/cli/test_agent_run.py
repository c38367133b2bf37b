"""`opensafe agent run` where it can't run: it says why, and leaves no file of a run."""

import sys

import pytest

from opensafe.cli.app import run
from opensafe.cli.exits import Exit


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["x"], "one model is needed"),
        (["--script", "demo", "--model", "a:b"], "one model is needed"),
        (["--script", "/nowhere"], "can't be read"),
        (["--model", "nowhere:make", "x"], "no such model"),
        (["--model", "json:loads", "x"], "can't be made"),
        (["--script", "demo", "--resume", "run-0"], "no such run"),
        (["--script", "demo", "--resume", "../run"], "no run has such an id"),
    ],
)
def test_what_can_not_be_run_says_why(monkeypatch, tmp_path, capsys, arguments, says):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert run(["agent", "run", *arguments]) == Exit.REQUEST
    assert says in capsys.readouterr().err
    assert list(tmp_path.rglob("*.sqlite")) == []


def test_without_a_daemon_no_run_is_left(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("OPENSAFE_SOCKET", str(tmp_path / "nobody.sock"))
    assert run(["agent", "run", "--script", "demo", "--runs", str(tmp_path / "runs")]) == Exit.UNAVAILABLE
    assert "Start the daemon" in capsys.readouterr().err
    assert list((tmp_path / "runs").iterdir()) == []


def test_without_the_extra_it_says_which(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith(("opensafe.planner", "langgraph"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "langgraph.graph", None)
    assert run(["agent", "run", "--script", "demo"]) == Exit.REQUEST
    assert "pip install 'opensafe[planner]'" in capsys.readouterr().err
