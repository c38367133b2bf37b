"""Peers that can't be asked, or say something else, give a reason and no times."""

import sys

import pytest

from opensafe.bench import peer_program
from opensafe.bench.peers import NAMES, Peers


@pytest.fixture
def environment(tmp_path):
    """An environment whose interpreter prints what a test tells it to."""
    (tmp_path / "bin").mkdir()

    def answers(text):
        python = tmp_path / "bin/python"
        python.write_text(f"#!{sys.executable}\nprint({text!r})\n")
        python.chmod(0o755)
        return tmp_path

    return answers


def ask(environment, tmp_path):
    peers = Peers(environment, tmp_path, b"", tmp_path)
    return peers.measure("gate/read", b"{}", "allow", 3, 0), peers.found


def test_one_that_agrees_has_times(environment, tmp_path):
    times, found = ask(environment('{"version": "1", "action": "allow", "ns": [1000000]}'), tmp_path)
    assert [times[name].p50_ms for name in NAMES] == [1.0, 1.0]
    assert found.keys() == set(NAMES)
    assert {peer.error for peer in found.values()} == {""}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"version": "1", "action": "block", "ns": [1]}', "block"),
        ('{"version": "1", "error": "can not"}', "can not"),
        ("no json", "malformed"),
    ],
)
def test_one_that_does_not_has_a_reason(environment, tmp_path, answer, why):
    times, found = ask(environment(answer), tmp_path)
    assert times == {}
    assert found.keys() == set(NAMES)
    assert all(why in peer.error for peer in found.values())


def test_none_there_says_how_to_get_them(tmp_path):
    times, found = ask(tmp_path, tmp_path)
    assert times == {}
    assert found.keys() == set(NAMES)
    assert all("make peers" in peer.error for peer in found.values())


def test_the_program_needs_nothing_of_ours():
    with open(peer_program.__file__) as file:
        assert "opensafe" not in file.read().replace("opensafe/", "")
