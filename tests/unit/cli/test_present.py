"""How far something has come: nothing where nobody looks, and lines for who asks for them."""

import pytest

from opensafe.cli import present


def _work():
    with present.progress("7 calls"):
        pass
    with present.counting(2, "probes") as ended:
        ended("FS-01")
        ended("FS-02\x1b[31m")
    with present.steps() as step:
        step("one")


def test_a_pipe_gets_nothing(capsys, monkeypatch):
    monkeypatch.delenv("OPENSAFE_PROGRESS", raising=False)
    _work()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("asked", "lines"), [("lines", 5), ("", 0), ("1", 0)])
def test_who_asks_gets_lines(capsys, monkeypatch, asked, lines):
    monkeypatch.setenv("OPENSAFE_PROGRESS", asked)
    _work()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    if lines:
        assert said == ["7 calls", "0 of 2 probes", "1 of 2 probes (FS-01)", "2 of 2 probes (FS-02\\x1b[31m)", "one"]
