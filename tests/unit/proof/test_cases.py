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


def test_the_set_is_large_enough_in_each_half(entries):
    count = collections.Counter((entry.half, entry.kind) for entry in entries)
    for half in Half:
        assert count[half, Kind.MALICIOUS] >= 115
        assert count[half, Kind.BENIGN] >= 220
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


def test_both_halves_try_what_the_other_tries(entries):
    """A rule with four cases has one in each half: the split is by chance, so this holds only by its size."""
    of: dict[str, collections.Counter[Half]] = collections.defaultdict(collections.Counter)
    for entry in entries:
        if entry.kind is Kind.MALICIOUS:
            of[entry.case.rule][entry.half] += 1
    alone = {rule for rule, halves in of.items() if len(halves) < len(Half)}
    assert len(alone) <= len(of) // 10, alone


def test_the_files_are_as_frozen(cases):
    """Whoever changes a case on purpose writes the manifest anew: `(cd policies/cases && sha256sum */*.jsonl)`."""
    assert (cases / MANIFEST).read_text() == manifest(cases)


def test_a_changed_file_is_seen(cases, tmp_path):
    copy = tmp_path / "cases"
    shutil.copytree(cases, copy)
    assert is_frozen(copy)
    with (copy / "test/benign.jsonl").open("a") as file:
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


def _write(directory, **files):
    for half in Half:
        for kind in Kind:
            path = directory / half / f"{kind}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files.get(f"{half}_{kind}", ""))
    return directory


def test_a_good_set_is_read(tmp_path):
    (entry,) = load_cases(_write(tmp_path, **{f"{half_of('b')}_benign": _line()}))
    assert (entry.case.expect, entry.kind, entry.half) == (Action.ALLOW, Kind.BENIGN, half_of("b"))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"other_benign": _line()}, "of the other half"),
        ({"own_benign": _line() * 2}, "an id twice"),
        ({"own_benign": _line(expect="block")}, "don't go together"),
        ({"own_malicious": _line()}, "don't go together"),
        ({"own_benign": _line(surprise=1)}, "no case"),
        ({"own_benign": "{\n"}, "no case"),
    ],
    ids=["half", "twice", "benign-block", "malicious-allow", "unknown-key", "no-json"],
)
def test_a_line_that_is_wrong_is_refused_with_its_place(tmp_path, files, why):
    own = half_of("b")
    other = next(half for half in Half if half is not own)
    named = {name.replace("own", own).replace("other", other): text for name, text in files.items()}
    with pytest.raises(InvalidArgument, match=why) as raised:
        load_cases(_write(tmp_path, **named))
    assert ".jsonl:" in str(raised.value)


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="can't be read"):
        load_cases(tmp_path)
