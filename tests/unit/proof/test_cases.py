"""The data set as it lies: large enough, split by hash, frozen, covering the catalogue; and its reader."""

import collections
import json
import shutil

import pytest

from opensafe.errors import InvalidArgument, RequestError
from opensafe.model.decision import Action
from opensafe.model.facts import ClassTables
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.proof.ask import ask
from opensafe.proof.cases import MANIFEST, Half, Kind, half_of, is_frozen, load_cases, manifest

LICENCES = {"own"}


@pytest.fixture(scope="module")
def entries(cases):
    return load_cases(cases)


def test_the_set_is_large_enough(entries):
    count = collections.Counter((entry.half, entry.kind) for entry in entries)
    assert count[Half.DEV, Kind.MALICIOUS] >= 900
    assert count[Half.DEV, Kind.BENIGN] >= 950
    if any(entry.half is Half.TEST for entry in entries):  # empty between two rounds
        assert count[Half.TEST, Kind.MALICIOUS] >= 100
        assert count[Half.TEST, Kind.BENIGN] >= 200
    assert {entry.case.licence for entry in entries} == LICENCES
    assert all(entry.case.idea for entry in entries)


def test_no_call_stands_in_the_set_twice(entries):
    calls = collections.Counter(
        json.dumps([case.tool, case.arguments, case.entrypoint, case.given], sort_keys=True)
        for case in (entry.case for entry in entries)
    )
    assert [call for call, times in calls.items() if times > 1] == []


def test_every_rule_that_stops_something_has_three_malicious_cases(entries):
    of = collections.Counter(entry.case.rule for entry in entries if entry.kind is Kind.MALICIOUS)
    assert len(of) >= 64
    assert {rule: number for rule, number in of.items() if number < 3} == {}


def test_the_files_are_as_frozen(cases):
    """Whoever changes a case on purpose writes the manifest anew: `(cd policies/cases && sha256sum */*.jsonl)`."""
    assert (cases / MANIFEST).read_text() == manifest(cases)


def test_a_changed_file_is_seen(cases, tmp_path):
    copy = tmp_path / "cases"
    shutil.copytree(cases, copy)
    assert is_frozen(copy)
    with (copy / "dev/r1-benign.jsonl").open("a") as file:
        file.write("\n")
    assert not is_frozen(copy)
    (copy / MANIFEST).unlink()
    assert not is_frozen(copy)


def test_every_case_is_a_question_or_a_refusal_that_it_names(entries):
    for case in (entry.case for entry in entries):
        refused = ""
        try:
            ask(case, DEFAULT_REGISTRY, ClassTables())
        except RequestError as error:
            refused = error.reason
        assert refused in {"", case.rule, *case.also}, case.id


def test_what_a_case_gives_replaces_single_fields(entries):
    case = next(entry.case for entry in entries if "taints" in entry.case.given.get("session", {}))
    _, question = ask(case, DEFAULT_REGISTRY, ClassTables())
    assert question.session.taints == tuple(case.given["session"]["taints"])
    assert question.session.window, "the rest is an ordinary session's"


def test_the_half_is_the_hashs_and_never_changes():
    assert half_of("abc") is Half.TEST, "its SHA-256 ends in ad (FIPS 180-4)"
    assert half_of("hello") is Half.DEV, "its SHA-256 ends in 24"


def _line(**change):
    case = {"id": "b", "tool": "Bash", "arguments": {"command": "ls"}, "expect": "allow", "rule": "r"}
    return json.dumps(case | {"idea": "i", "licence": "own"} | change) + "\n"


def _write(directory, *rounds, **files):
    """A set whose round 1 stands in dev and whose round 2 is split; `files` are HALF_rROUND_KIND."""
    for half, number in rounds or [(Half.DEV, 1), (Half.DEV, 2), (Half.TEST, 2)]:
        for kind in Kind:
            path = directory / half / f"r{number}-{kind}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files.get(f"{half}_r{number}_{kind}", ""))
    return directory


OWN = half_of("b")
OTHER = next(half for half in Half if half is not OWN)


def test_a_good_set_is_read(tmp_path):
    (entry,) = load_cases(_write(tmp_path, **{f"{OWN}_r2_benign": _line()}))
    assert (entry.case.expect, entry.kind, entry.half) == (Action.ALLOW, Kind.BENIGN, half_of("b"))


def test_earlier_rounds_stand_in_dev_whatever_their_hash(tmp_path):
    lines = "".join(_line(id=name) for name in ("abc", "hello"))
    assert {half_of("abc"), half_of("hello")} == set(Half)
    entries = load_cases(_write(tmp_path, dev_r1_benign=lines))
    assert [entry.half for entry in entries] == [Half.DEV, Half.DEV]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({f"{OTHER}_r2_benign": _line()}, "of the other half"),
        ({f"{OWN}_r2_benign": _line() * 2}, "an id twice"),
        ({f"{OWN}_r2_benign": _line(), "dev_r1_benign": _line()}, "an id twice"),
        ({"dev_r1_benign": _line(expect="block")}, "don't go together"),
        ({"dev_r1_malicious": _line()}, "don't go together"),
        ({"dev_r1_benign": _line(surprise=1)}, "no case"),
        ({"dev_r1_benign": "{\n"}, "no case"),
    ],
    ids=["half", "twice", "twice-in-two-rounds", "benign-block", "malicious-allow", "unknown-key", "no-json"],
)
def test_a_line_that_is_wrong_is_refused_with_its_place(tmp_path, files, why):
    with pytest.raises(InvalidArgument, match=why) as raised:
        load_cases(_write(tmp_path, **files))
    assert ".jsonl" in str(raised.value)


def test_between_two_rounds_the_held_out_half_is_empty(tmp_path):
    directory = _write(tmp_path, (Half.DEV, 1), dev_r1_benign=_line())
    assert len(load_cases(directory)) == 1
    assert load_cases(directory, (Half.TEST,)) == ()


@pytest.mark.parametrize(
    "rounds",
    [[(Half.DEV, 2), (Half.TEST, 1)], [(Half.DEV, 1), (Half.TEST, 1), (Half.TEST, 2)]],
    ids=["an-earlier-one", "two"],
)
def test_only_the_last_round_is_held_out(tmp_path, rounds):
    with pytest.raises(InvalidArgument, match="held out"):
        load_cases(_write(tmp_path, *rounds))


def test_an_absent_set_and_an_absent_file_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="can't be read"):
        load_cases(tmp_path)
    (_write(tmp_path) / "test/r2-benign.jsonl").unlink()
    with pytest.raises(InvalidArgument, match="can't be read"):
        load_cases(tmp_path)
