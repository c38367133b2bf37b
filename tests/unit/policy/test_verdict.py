"""Reading a verdict: bounded, consistent, or none."""

import json
from typing import Any

import pytest

from opensafe.errors import EvaluationFailed
from opensafe.model.decision import Action, Decision
from opensafe.policy.verdict import MAX_NAMES, MAX_RULES, MAX_TEXT, read_verdict


def hit(action: str = "allow", **more: Any) -> dict[str, Any]:
    return {"id": "x.rule", "severity": "low", "action": action, "reason": "r", "value": "", "remedy": "", **more}


def answer(action: str = "allow", rules: list[dict[str, Any]] | None = None, **more: Any) -> bytes:
    rules = [hit(action)] if rules is None else rules
    result = {"id": "q", "data_version": "v", "action": action, "rules": rules, "grant": {}, "shadow": [], **more}
    return json.dumps([{"result": result}]).encode()


def verdict(content: bytes) -> Decision:
    return read_verdict(content, question_id="q", data_version="v")


@pytest.mark.parametrize("action", ["allow", "review", "block"])
def test_a_consistent_verdict_is_read(action: str) -> None:
    assert verdict(answer(action)).action is Action(action)


def test_an_approved_review_stays_listed() -> None:
    assert verdict(answer("allow", [hit("review")])).action is Action.ALLOW


def test_rules_are_put_in_order_whatever_that_of_the_guest() -> None:
    rules = [hit("review"), hit("block", id="x.z"), hit("block", reason="s"), hit("block"), hit("allow")]
    found = verdict(answer("block", rules)).rules
    assert [(one.action, one.id, one.reason) for one in found] == [
        ("allow", "x.rule", "r"), ("block", "x.rule", "r"), ("block", "x.rule", "s"), ("block", "x.z", "r"),
        ("review", "x.rule", "r"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("action", "rules"),
    [
        ("allow", []),
        ("block", []),
        ("review", []),
        ("allow", [hit("allow"), hit("block")]),
        ("review", [hit("review"), hit("block")]),
        ("review", [hit("allow")]),
        ("block", [hit("allow")]),
        ("block", [hit("review")]),
    ],
)
def test_an_action_that_its_rules_do_not_bear_out_is_none(action: str, rules: list[dict[str, Any]]) -> None:
    with pytest.raises(EvaluationFailed, match="does not follow"):
        verdict(answer(action, rules))


@pytest.mark.parametrize(
    "more",
    [
        {"rules": [hit()] * (MAX_RULES + 1)},
        {"shadow": [hit()] * (MAX_RULES + 1)},
        {"rules": [hit(reason="x" * (MAX_TEXT + 1))]},
        {"rules": [hit(id="x y")]},
        {"rules": [hit(severity="grave")]},
        {"rules": [hit(action="permit")]},
        {"action": "ALLOW"},
        {"action": None},
        {"grant": {"programs": "all"}},
        {"grant": {"network": ["a"] * (MAX_NAMES + 1)}},
        {"grant": {"network": [""]}},
        {"grant": {"paths": {"read": ["workspace"]}}},
        {"grant": {"seccomp": "../x"}},
        {"grant": {"limits": {"wall_ms": 0}}},
        {"grant": {"limits": {"wall_seconds": 5}}},
        {"grant": None},
    ],
)
def test_a_verdict_out_of_bounds_is_none(more: dict[str, Any]) -> None:
    with pytest.raises(EvaluationFailed):
        verdict(answer(**more))


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b"{}", b"[{}]", b"\xff", answer()[:-1], answer() + b"x", answer()[:-1] + b"," + answer()[1:]],
)
def test_what_is_not_exactly_one_result_is_none(content: bytes) -> None:
    with pytest.raises(EvaluationFailed):
        verdict(content)


def test_a_row_with_a_second_binding_is_none() -> None:
    with pytest.raises(EvaluationFailed):
        verdict(answer().replace(b'[{"result"', b'[{"other": 1, "result"'))


@pytest.mark.parametrize("echo", [{"id": "p"}, {"data_version": "w"}, {"id": None}])
def test_a_verdict_without_its_echoes_is_none(echo: dict[str, Any]) -> None:
    with pytest.raises(EvaluationFailed):
        verdict(answer(**echo))
