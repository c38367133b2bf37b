"""The comparison, against expectations worked out from its rules by hand.

Rules (Jaeger's): a place is the path of service and operation, with a mark where a span has no children; a node is all
spans in one place; the comparison is both traces' counts in each. Calls: by id where both have it, else k-th with k-th
of a tool.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opensafe.telemetry.diff import Node, calls_of, compare, plant
from opensafe.telemetry.reading import ReadSpan


def span(span_id, parent_id, name, *, at=0, took=1, service="opensafe", **attributes):
    keys = {key.replace("__", "."): value for key, value in attributes.items()}
    return ReadSpan(
        span_id=span_id, parent_id=parent_id, service=service, name=name,
        start_ns=at, end_ns=at + took, attributes=keys, failed=False,
    )  # fmt: skip


def places(diff):
    """Path of operations (a leaf's ends in `*`, as `__LEAF__` does) -> counts of A and B."""
    found = {}

    def walk(node, path):
        for place, child in node.children.items():
            here = f"{path}/{place.operation}{'*' if place.leaf else ''}"
            found[here] = child.counts
            walk(child, here)

    walk(diff.root, "")
    return found


def call(number, tool="Bash", action="allow", rules=(), outcome="exited", code=0, call_id=None, revision="r1", **more):
    """A tool call's spans as the daemon makes them; what ran has a third span."""
    at, name = number * 100, f"{number}"
    made = [
        span(f"{name}t", "root", f"execute_tool {tool}", at=at, took=50, gen_ai__operation__name="execute_tool",
             gen_ai__tool__name=tool, gen_ai__tool__call__id=call_id or f"{revision}-{number}",
             opensafe__session__id="ses", opensafe__outcome=outcome,
             **({} if code is None else {"process__exit__code": code})),
        span(f"{name}p", f"{name}t", "policy.evaluate", at=at + 1, took=2, opensafe__policy__action=action,
             opensafe__policy__rules=tuple(rules), opensafe__policy__bundle__revision=revision),
    ]  # fmt: skip
    if action == "allow":
        made.append(span(f"{name}s", f"{name}t", more.get("run", "sandbox.exec"), at=at + 4, took=7, x=1))
    return made


def trace(*calls):
    return [span("root", "", "invoke_agent demo", took=10_000, x=1), *(one for made in calls for one in made)]


def test_equal_runs_have_no_difference_whatever_their_durations_and_ids():
    a, b = trace(call(1), call(2, "Read")), trace(call(1, revision="r2"), call(2, "Read", revision="r2"))
    b = [span(f"x{one.span_id}", one.parent_id and f"x{one.parent_id}", one.name, at=one.start_ns * 3,
              took=one.duration_ns * 5, **one.attributes) for one in b]  # fmt: skip
    diff = compare(a, b)
    assert (diff.moved, diff.changed) == ((), ())
    assert diff.revisions == (("r1",), ("r2",))


def test_a_call_that_is_blocked_in_b_lacks_its_run_and_keeps_its_place():
    blocked = call(2, action="block", rules=["deny"], outcome="blocked", code=None, revision="r2")
    diff = compare(trace(call(1), call(2)), trace(call(1, revision="r2"), blocked))
    assert places(diff) == {
        "/invoke_agent demo": (1, 1),
        "/invoke_agent demo/execute_tool Bash": (2, 2),
        "/invoke_agent demo/execute_tool Bash/policy.evaluate*": (2, 2),
        "/invoke_agent demo/execute_tool Bash/sandbox.exec*": (2, 1),
    }
    assert [(node.place.operation, node.counts) for node in diff.moved] == [("sandbox.exec", (2, 1))]
    (changed,) = diff.changed
    assert (changed.a.call_id, changed.b.call_id) == ("r1-2", "r2-2")
    assert changed.changes == ("verdict", "rules", "outcome", "exit code")
    assert (changed.a.actions, changed.b.actions) == (("allow",), ("block",))
    assert changed.b.verdicts[0].rules == ("deny",)


@pytest.mark.parametrize(
    ("other", "changes"),
    [
        (call(1, rules=["other"]), ("rules",)),
        (call(1, rules=["a"], outcome="deadline", code=None), ("outcome", "exit code")),
        (call(1, rules=["a"], code=3), ("exit code",)),
        (call(1, rules=["a"]), ()),
    ],
    ids=["rules", "outcome", "exit code", "same"],
)
def test_what_jaeger_leaves_out_is_named(other, changes):
    diff = compare(trace(call(1, rules=["a"])), trace(other))
    assert [pair.changes for pair in diff.calls] == [changes]
    assert not any(node.counts[0] != node.counts[1] for node in diff.root.below())


def test_a_span_without_children_is_in_another_place_than_one_with():
    a = [span("1", "", "work")]
    b = [span("1", "", "work"), span("2", "1", "part")]
    assert places(compare(a, b)) == {"/work*": (1, 0), "/work": (0, 1), "/work/part*": (0, 1)}


def test_the_same_operation_of_another_service_is_in_another_place():
    diff = compare([span("1", "", "work")], [span("1", "", "work", service="agent")])
    assert sorted(node.counts for node in diff.root.below()) == [(0, 1), (1, 0)]


def test_a_span_whose_parent_is_missing_is_a_root():
    assert places(compare([span("1", "gone", "work")], [])) == {"/work*": (1, 0)}


def test_calls_are_paired_by_id_where_both_traces_have_it():
    a = trace(call(1, call_id="x"), call(2, call_id="y", code=1))
    b = trace(call(1, call_id="y", code=1), call(2, call_id="x"))
    assert [(pair.a.call_id, pair.b.call_id, pair.changes) for pair in compare(a, b).calls] == [
        ("x", "x", ()),
        ("y", "y", ()),
    ]


def test_calls_without_common_ids_are_paired_in_order_by_tool():
    a = trace(call(1, "Bash"), call(2, "Read"), call(3, "Bash", code=1))
    b = trace(call(1, "Read", revision="r2"), call(2, "Bash", revision="r2"))
    pairs = compare(a, b).calls
    assert [(pair.a and pair.a.call_id, pair.b and pair.b.call_id) for pair in pairs] == [
        ("r1-1", "r2-2"),
        ("r1-2", "r2-1"),
        ("r1-3", None),
    ]
    assert [pair.changes for pair in pairs] == [(), (), ("only in A",)]
    assert [pair.changes for pair in compare(b, a).calls] == [(), (), ("only in B",)]


def parked_then(state, *, at, **second):
    """A call that was parked, and what came of it after a wait of 500."""
    first = call(1, action="review", outcome="review_pending", code=None, call_id="p")
    first.append(span("1k", "1t", "review.park", at=104, took=1, opensafe__review__id="rev"))
    rest = [
        span("2t", "root", "execute_tool Bash", at=at, took=510, gen_ai__operation__name="execute_tool",
             gen_ai__tool__name="Bash", gen_ai__tool__call__id="p", opensafe__session__id="ses", **second),
        span("2w", "2t", "review.wait", at=at, took=500, opensafe__review__state=state),
    ]  # fmt: skip
    if state == "approved":
        rest.append(span("2p", "2t", "policy.evaluate", at=at + 501, took=3, opensafe__policy__action="allow"))
        rest.append(span("2s", "2t", "sandbox.exec", at=at + 505, took=4, x=1))
    return [*first, *rest]


def test_a_parked_call_and_what_came_of_it_are_one_call():
    approved = parked_then("approved", at=103, opensafe__outcome="exited", process__exit__code=0)
    (seen,) = calls_of(approved)
    assert (seen.actions, seen.outcome, seen.exit_code) == (("review", "allow"), "exited", 0)
    assert (seen.policy_ns, seen.waited_ns, seen.ran_ns) == (2 + 3, 500, 4)
    (ended,) = calls_of(parked_then("rejected", at=103, opensafe__outcome="review_rejected"))
    assert (ended.actions, ended.outcome, ended.exit_code) == (("review",), "review_rejected", None)
    (pair,) = compare(trace(approved), trace(parked_then("rejected", at=103, opensafe__outcome="x"))).calls
    assert pair.changes == ("verdict", "rules", "outcome", "exit code")


def test_two_questions_under_one_id_are_two_calls():
    assert len(calls_of(trace(call(1, call_id="query"), call(2, call_id="query")))) == 2


def test_a_file_tools_run_counts_as_run():
    (seen,) = calls_of(trace(call(1, "Read", run="file.read")))
    assert seen.ran_ns == 7


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from("ab")), max_size=20),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from("ab")), max_size=20),
)
def test_every_span_is_in_one_place_whatever_hangs_on_what(a, b):
    """Also where spans are their own ancestors, or share an id."""
    sides = [
        list({key: span(str(key), str(parent), name, at=at) for at, (key, parent, name) in enumerate(side)}.values())
        for side in (a, b)
    ]
    diff = compare(*sides)
    for side in (0, 1):
        held = [one.span_id for node in diff.root.below() for one in node.spans[side]]
        assert sorted(held) == sorted(one.span_id for one in sides[side])
    same = compare(sides[0], sides[0])
    assert (same.moved, same.changed) == ((), ())


def test_a_chain_of_a_hundred_thousand_spans_is_planted():
    root = Node(None, 0)
    plant(root, [span(str(number), str(number - 1), "deep") for number in range(100_000)], 0)
    assert sum(node.counts[0] for node in root.below()) == 100_000
