"""Which rules of a bundle fired in decisions."""

import msgspec

from opensafe.console import coverage
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.explanation import RuleNote
from opensafe.model.records import DecisionRecord
from tests.harness.policy import question


def note(rule, severity="high", title="For something", file="a.rego", line=1):
    return RuleNote(
        id=rule, file=file, line=line, severity=Severity(severity), title=title, description="d", threat="T1"
    )


def decided(*rules, time_us=1):
    hits = tuple(RuleHit(id=rule, severity=Severity.HIGH, action=Action.BLOCK, reason="because") for rule in rules)
    return DecisionRecord(
        time_us=time_us,
        decision_id="d",
        purpose="call",
        principal="agent",
        session_id="s",
        call_id="c",
        sandbox_id="",
        exec_id="",
        bundles={},
        path="",
        input=question(),
        result=Decision(action=Action.BLOCK, rules=hits, grant=Grant(), id="d", data_version="1"),
        subject="",
        metrics={},
        trace_id="",
        span_id="",
    )


def test_a_rule_with_several_hits_in_a_decision_counts_once():
    fired = coverage.Fired()
    fired.take(4, decided("a", "a", "b", time_us=40))
    fired.take(7, decided("a", time_us=70))
    assert msgspec.structs.astuple(fired.rules["a"]) == (2, 7, 70)
    assert msgspec.structs.astuple(fired.rules["b"]) == (1, 4, 40)
    assert (fired.decisions, fired.since_us) == (2, 40)


def test_rules_that_fired_come_first_and_those_that_did_not_are_there():
    fired = coverage.Fired()
    for index, rules in enumerate((("b",), ("b", "c"), ("of.another.bundle",))):
        fired.take(index, decided(*rules))
    found = coverage.coverage([note("a"), note("b"), note("c"), note("d")], fired)
    assert [(rule.id, rule.hits.count if rule.hits else 0) for rule in found] == [
        ("b", 2),
        ("c", 1),
        ("a", 0),
        ("d", 0),
    ]


def test_a_rule_is_as_grave_as_its_gravest_part_and_for_what_its_parts_are():
    parts = [note("a", "low", "One"), note("a", "critical", "Two", line=9), note("a", "low", "One", file="b.rego")]
    (rule,) = coverage.coverage(parts, coverage.Fired())
    assert (rule.severity, rule.titles) == ("critical", ("Two", "One"))


def test_what_is_kept_is_bounded():
    fired = coverage.Fired()
    for number in range(coverage.RULES_MAX + 5):
        fired.take(number, decided(f"rule.{number}"))
    assert len(fired.rules) == coverage.RULES_MAX
    assert "rule.0" not in fired.rules
