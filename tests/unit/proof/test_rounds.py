"""Opening a round: what is taken, split and dropped, and that a round with a fault changes nothing."""

import json
import subprocess
import sys

import pytest

from opensafe.errors import InvalidArgument
from opensafe.proof.cases import MANIFEST, Half, Kind, half_of, is_frozen, load_cases, manifest
from opensafe.proof.rounds import open_round

VERDICT = {Kind.MALICIOUS: "block", Kind.BENIGN: "allow", Kind.REVIEWED: "review"}


def _line(name, kind, command, **change):
    case = {"id": name, "tool": "Bash", "arguments": {"command": command}, "expect": VERDICT[kind], "rule": "r"}
    return json.dumps(case | {"idea": "i", "licence": "own"} | change) + "\n"


@pytest.fixture
def directory(tmp_path):
    """A set of one round, all of it in dev."""
    (tmp_path / "cases/dev").mkdir(parents=True)
    for kind in Kind:
        (tmp_path / f"cases/dev/r1-{kind}.jsonl").write_text(_line(f"old-{kind}", kind, f"echo {kind}"))
    (tmp_path / "cases" / MANIFEST).write_text(manifest(tmp_path / "cases"))
    return tmp_path / "cases"


@pytest.fixture
def new(tmp_path):
    """Eight new calls of each kind."""
    (tmp_path / "new").mkdir()
    for kind in Kind:
        lines = [_line(f"new-{kind}-{n}", kind, f"ls {kind}/{n}") for n in range(8)]
        (tmp_path / f"new/{kind}.jsonl").write_text("".join(lines))
    return tmp_path / "new"


def _add(new, kind, *lines):
    with (new / f"{kind}.jsonl").open("a") as file:
        file.writelines(lines)


def test_a_round_is_split_by_hash_and_frozen(directory, new):
    opened = open_round(directory, new)
    assert (opened.number, opened.seen, opened.doubled) == (2, 0, 0)
    entries = [entry for entry in load_cases(directory) if entry.case.id.startswith("new-")]
    assert len(entries) == 24
    assert {entry.half for entry in entries} == set(Half)
    assert all(entry.half is half_of(entry.case.id) for entry in entries)
    assert is_frozen(directory)


def test_the_next_round_moves_what_was_held_out_to_dev(directory, new, tmp_path):
    open_round(directory, new)
    held_out = {entry.case.id for entry in load_cases(directory, (Half.TEST,))}
    (tmp_path / "third").mkdir()
    for kind in Kind:
        lines = [_line(f"third-{kind}-{n}", kind, f"wc {kind}/{n}") for n in range(8)]
        (tmp_path / f"third/{kind}.jsonl").write_text("".join(lines))
    assert open_round(directory, tmp_path / "third").number == 3
    assert held_out < {entry.case.id for entry in load_cases(directory, (Half.DEV,))}
    now = [entry.case.id for entry in load_cases(directory, (Half.TEST,))]
    assert now != []
    assert all(case.startswith("third-") for case in now)
    assert is_frozen(directory)


def test_calls_that_stand_in_the_set_are_dropped_and_counted(directory, new):
    _add(new, Kind.BENIGN, _line("again", Kind.BENIGN, "echo benign"), _line("twice", Kind.BENIGN, "ls benign/0"))
    _add(new, Kind.BENIGN, _line("other", Kind.BENIGN, "ls benign/0", given={"principal": {"name": "x"}}))
    opened = open_round(directory, new)
    assert (opened.seen, opened.doubled) == (1, 1)
    ids = {entry.case.id for entry in load_cases(directory)}
    assert "other" in ids
    assert ids.isdisjoint({"again", "twice"})


@pytest.mark.parametrize(
    ("kind", "line", "why"),
    [
        (Kind.BENIGN, _line("old-benign", Kind.BENIGN, "true"), "an id twice"),
        (Kind.BENIGN, _line("new-malicious-1", Kind.BENIGN, "true"), "an id twice"),
        (Kind.BENIGN, _line("x", Kind.BENIGN, "ls malicious/1"), "at once"),
        (Kind.BENIGN, _line("x", Kind.MALICIOUS, "true"), "don't go together"),
        (Kind.BENIGN, _line("x", Kind.BENIGN, "true", surprise=1), "no case"),
        (Kind.BENIGN, _line("x", Kind.BENIGN, "true", given={"budget": 1}), "no question"),
        (Kind.MALICIOUS, _line("x", Kind.MALICIOUS, 1), "another reason"),
    ],
    ids=["old-id", "new-id", "two-kinds", "action", "field", "given", "refused"],
)
def test_a_fault_is_named_and_nothing_is_written(directory, new, kind, line, why):
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    _add(new, kind, line)
    with pytest.raises(InvalidArgument, match=why):
        open_round(directory, new)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_the_command_prints_counts_and_no_line(directory, new):
    words = [sys.executable, "-m", "opensafe.proof.rounds", str(new), "--cases", str(directory)]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == 0
    assert "round 2, test: " in ended.stdout
    assert "ls " not in ended.stdout
    again = subprocess.run(words, capture_output=True, text=True)
    assert again.returncode == 1
    assert "an id twice" in again.stderr
