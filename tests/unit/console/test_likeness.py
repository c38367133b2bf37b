"""The likest call that was allowed, and how another differs from it."""

from collections import deque

import pytest

from opensafe.console.board import Call, Session
from opensafe.console.likeness import TRIED_MAX, compare, likest
from opensafe.model.decision import Action


def call(target, *, tool="Bash", action=Action.ALLOW, purpose="call", call_id="c", index=1):
    return Call(
        index=index,
        time_us=0,
        decision_id="dec",
        session_id="ses",
        call_id=call_id,
        principal="agent",
        agent="a",
        tool=tool,
        target=target,
        action=action,
        rules=(),
        purpose=purpose,
        evaluation_us=0,
    )


def find(about, *calls, call_id="asked"):
    return likest("Bash", about, "ses", call_id, [Session(id="ses", calls=deque(calls))])


def test_the_likest_is_found():
    near, far = call("npm install left-pad"), call("npm run build --prefix left-pad")
    assert find("npm install right-pad", far, near) is near


@pytest.mark.parametrize(
    "other",
    [
        call("npm install x", tool="Read"),
        call("npm install x", action=Action.REVIEW),
        call("npm install x", action=Action.BLOCK),
        call("npm install x", purpose="query"),
        call("npm install x", call_id="asked"),
        call("something else altogether"),
    ],
    ids=["tool", "parked", "blocked", "only asked", "itself", "unlike"],
)
def test_others_are_not_it(other):
    assert find("npm install x", other) is None
    twin = call("npm install x")
    assert find("npm install x", other, twin) is twin


def test_only_so_many_are_looked_at():
    old = call("npm install x")
    many = [call(f"echo {number}") for number in range(TRIED_MAX)]
    assert find("npm install x", old, *many[1:]) is old
    assert find("npm install x", old, *many) is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [("", ""), ("a", ""), ("", "a"), ("ls -l /tmp", "ls -l /etc"), ("a b\n c", "a\u202eb c"), ("x" * 400, "y " * 200)],
)
def test_a_comparison_is_both_texts(earlier, later):
    pieces = compare(earlier, later)
    assert "".join(piece.text for piece in pieces if piece.kind != "new") == earlier
    assert "".join(piece.text for piece in pieces if piece.kind != "gone") == later


def test_a_comparison_is_by_words():
    assert [(piece.kind, piece.text) for piece in compare("cat /etc/hosts", "cat /etc/shadow")] == [
        ("same", "cat /etc/"),
        ("gone", "hosts"),
        ("new", "shadow"),
    ]
