"""Two sessions side by side: what is the same stands beside each other, and nothing is left out."""

from hypothesis import given
from hypothesis import strategies as st

from opensafe.console.board import called
from opensafe.console.compared import COMPARED_MAX, compare, pairs
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from tests.harness.records import decision


def call(target="ls", tool="Bash", action=Action.ALLOW, took_us=0, kind=None, index=0):
    made = called(index, decision(action))
    made.tool, made.target, made.evaluation_us = tool, target, took_us
    made.outcome = Outcome(kind=kind, run_ns=1000 * took_us) if kind else None
    return made


def shown(left, right):
    """Rows as pairs of targets; "" where there is none."""
    rows = pairs([call(one) for one in left], [call(one) for one in right])
    return [(one.target if one else "", other.target if other else "") for one, other in rows]


def test_runs_that_are_the_same_have_no_difference():
    found = compare([call("a"), call("b")], [call("a"), call("b")])
    assert [(row.kind, row.differs) for row in found.rows] == [("same", ())] * 2
    assert (found.same, found.differing, found.cut) == (2, 0, False)


def test_what_only_one_has_stands_alone():
    left = [call("a"), call("/x", "Read"), call("b")]
    found = compare(left, [call("a"), call("b"), call("c")])
    assert [row.kind for row in found.rows] == ["same", "left", "same", "right"]
    assert (found.left.alone, found.right.alone, found.differing) == (1, 1, 2)


def test_calls_of_a_tool_that_differ_stand_beside_each_other_those_first_that_begin_alike():
    assert shown(["a", "npm test", "z"], ["a", "npm run", "z"]) == [("a", "a"), ("npm test", "npm run"), ("z", "z")]
    assert shown(["curl a"], ["npm x", "curl b"]) == [("", "npm x"), ("curl a", "curl b")]
    assert shown(["b", "c"], ["c", "d"]) == [("b", ""), ("c", "c"), ("", "d")]


def test_calls_of_different_tools_never_do():
    found = compare([call("/a", "Read")], [call("/a", "Write")])
    assert sorted(row.kind for row in found.rows) == ["left", "right"]


def test_verdict_rules_outcome_and_time_are_told_apart():
    left = call(took_us=100, kind=OutcomeKind.EXITED)
    (row,) = compare([left], [call(action=Action.BLOCK, took_us=300, kind=OutcomeKind.BLOCKED)]).rows
    assert (row.kind, row.differs, row.delta_us) == ("same", ("verdict", "rules", "outcome"), 400)
    (row,) = compare([left], [call(took_us=90, kind=OutcomeKind.EXITED)]).rows
    assert (row.differs, row.delta_us) == ((), -20)


def test_totals_are_of_all_that_is_compared():
    left = [call("a", took_us=5, kind=OutcomeKind.EXITED), call("b", action=Action.BLOCK, took_us=2)]
    total = compare(left, []).left
    assert (total.calls, total.counts, total.evaluation_us, total.run_ns, total.alone) == (
        2,
        {"allow": 1, "block": 1},
        7,
        5000,
        2,
    )


def test_the_last_calls_are_compared_where_there_are_too_many():
    many = [call(str(number)) for number in range(COMPARED_MAX + 5)]
    found = compare(many, many[:1])
    assert (found.cut, found.left.calls) == (True, COMPARED_MAX)
    assert found.rows[0].left.target == "5"


NAMES = st.lists(st.sampled_from(["a", "b", "c x", "c y"]), max_size=12)


@given(NAMES, NAMES)
def test_both_orders_are_kept_and_nothing_is_lost(left, right):
    rows = shown(left, right)
    assert [one for one, _ in rows if one] == left
    assert [other for _, other in rows if other] == right


@given(NAMES, NAMES)
def test_no_more_calls_could_be_the_same(left, right):
    """By the textbook: the length of a longest common subsequence."""
    best = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            best[i + 1][j + 1] = best[i][j] + 1 if one == other else max(best[i][j + 1], best[i + 1][j])
    assert sum(one == other for one, other in shown(left, right)) == best[-1][-1]
