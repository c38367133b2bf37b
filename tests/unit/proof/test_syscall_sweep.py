"""The plan of all system calls, what a profile states of each, and the figures and tables of a sweep."""

import pathlib
import re

import msgspec
import pytest

from opensafe.proof.escape.syscall import arguments, denied, figures, plan, table
from opensafe.proof.escape.syscall.plan import Attempt, Way
from opensafe.warden.sandbox.profiles import PROFILES
from opensafe.warden.sandbox.syscalls import NUMBERS

ALL = plan.attempts()
DEFAULT = PROFILES["default"]


def answers_of(profile):
    """As a sandbox that holds gives them."""
    stated = {one: plan.stated(PROFILES[profile], one) for one in ALL}
    return {one: "result" if answer == plan.ALLOWED else answer for one, answer in stated.items()}


OPEN = {one: "EINVAL" if one.way is Way.X86_64 and one.number < 300 else "ENOSYS" for one in ALL}


def test_the_plan_has_every_number_by_every_way_with_and_without_arguments():
    for way, offset in ((Way.X86_64, 0), (Way.X32, 1 << 30), (Way.INT80, 0)):
        for plausible in (False, True):
            found = {one.number - offset for one in ALL if one.way is way and bool(one.arguments) is plausible}
            assert set(range(max(NUMBERS.values()) + 100)) <= found
    assert len(set(ALL)) == len(ALL)


def test_every_call_that_a_profile_kills_for_or_looks_at_has_arguments_of_its_own():
    looked_at = DEFAULT.conditional | DEFAULT.fatal - {"create_module", "nfsservctl"}
    assert not {name for name in looked_at if arguments.plausible(NUMBERS[name]) == arguments.plausible(-1)}


@pytest.mark.parametrize(
    ("name", "words", "answer"),
    [
        ("read", "", "allowed"), ("mount", "", "SIGSYS"), ("clone3", "", "ENOSYS"), ("unshare", "", "EXDEV"),
        ("clone", "", "allowed"), ("clone", "0x10000000", "EXDEV"), ("socket", "2,1,0", "allowed"),
        ("socket", "2,3,1", "EXDEV"), ("socket", "16,3,0", "allowed"), ("ioctl", "0,0x5412", "EXDEV"),
        ("ioctl", "0,0x100005412,b", "EXDEV"), ("prctl", "36,1", "EXDEV"), ("personality", "m", "allowed"),
    ],
)  # fmt: skip
def test_what_the_default_profile_states(name, words, answer):
    assert plan.stated(DEFAULT, Attempt(Way.X86_64, NUMBERS[name], words)) == answer


def test_other_ways_and_numbers_beyond_are_in_no_policy():
    assert {plan.stated(DEFAULT, one) for one in ALL if one.way is not Way.X86_64} == {"EXDEV"}
    assert plan.stated(DEFAULT, Attempt(Way.X86_64, (1 << 32) | NUMBERS["mount"])) == "SIGSYS"
    assert Attempt(Way.X86_64, (1 << 64) - 1).word == "-1"


def test_SY_04_every_denied_argument_is_one_of_a_call_that_the_profile_has():
    for one in denied.attempts():
        assert plan.stated(DEFAULT, one) == "EXDEV", one
    assert {NUMBERS[name] for name in DEFAULT.conditional} == {one.number for one in denied.attempts()}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_sweep_whose_answers_are_as_stated_holds(profile):
    swept = figures.swept(profile, ALL, answers_of(profile), OPEN)
    assert swept.holds
    assert swept.as_stated == swept.out_of_policy > 3000
    assert figures.summary([swept], "v", 1.0, table=True)["ok"]


@pytest.mark.parametrize("answer", ["result", "EPERM", "ENOSYS", "blocked"])
def test_SY_01_one_answer_that_is_not_the_profiles_fails(answer):
    one = Attempt(Way.X86_64, NUMBERS["unshare"])
    swept = figures.swept("default", ALL, answers_of("default") | {one: answer}, OPEN)
    assert not swept.holds
    assert swept.wrong == (f"x86-64 272 (unshare) null: {answer}, not EXDEV",)
    assert swept.answered["other"] == 1
    assert not figures.summary([swept], "v", 1.0, table=True)["ok"]


def test_SY_02_a_call_of_policy_that_is_refused_fails():
    one = Attempt(Way.X86_64, NUMBERS["read"])
    swept = figures.swept("default", ALL, answers_of("default") | {one: "EXDEV"}, OPEN)
    assert swept.wrong == ("x86-64 0 (read) null: EXDEV, though it is allowed",)


def test_what_was_not_tried_fails():
    answers = answers_of("default")
    del answers[ALL[700]]
    assert not figures.swept("default", ALL, answers, OPEN).holds


def test_without_a_difference_to_no_filter_nothing_is_shown():
    assert not figures.swept("default", ALL, answers_of("default"), answers_of("default")).holds


def test_an_answer_that_the_table_does_not_have_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(table, "_PLACE", tmp_path)
    answers = answers_of("file")
    assert table.read("v1") is None
    written = table.write("v1", {"file": answers})
    known = table.read("v1")
    assert known is not None
    assert table.differences(known, "file", answers) == ()
    other = Attempt(Way.X32, (1 << 30) | 7)
    assert table.differences(known, "file", answers | {other: "result"}) == ("x32 null 7: result, expected EXDEV",)
    assert table.differences(known, "tree", answers)
    assert written.stat().st_size < 20_000
    assert table.write("v1", {"tree": answers}) == written
    again = table.read("v1")
    assert again is not None
    assert set(again.answers) == {"file", "tree"}
    swept = figures.swept("file", ALL, answers, OPEN, differs=("x",))
    assert not figures.summary([swept], "v", 1.0, table=True)["ok"]
    assert not figures.summary([msgspec.structs.replace(swept, differs=())], "v", 1.0, table=False)["ok"]


def test_of_the_runsc_that_the_setup_builds_somebody_has_looked_at_the_answers():
    module = pathlib.Path(__file__).parents[3] / "tools/provision/go/runsc/go.mod"
    (version,) = re.findall(r"gvisor\.dev/gvisor (v\S+)", module.read_text())
    known = table.read(version)
    assert known is not None, version
    assert known.runsc == version
    assert known.answers.keys() == {*PROFILES, "none"}
