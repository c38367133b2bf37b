"""What the board makes of records, and that no agent can make it grow."""

import msgspec
import pytest

from opensafe.console import board as boards
from opensafe.console.board import CALLS_MAX, PIECES, RULES_MAX, SESSIONS_MAX, WINDOW_S, Board, target
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.policy_input import ApprovalInput, RuntimeInput
from opensafe.model.records import OutcomeRecord, SessionRecord
from tests.harness.records import TIME_US, decision

PIECE_US = WINDOW_S * 10**6 // PIECES


def fold(*records):
    board = Board()
    for index, record in enumerate(records):
        board.take(index, record)
    return board


def outcome(call="call-1", kind=OutcomeKind.EXITED, run_ns=5_000_000, time_us=TIME_US, session="ses-1"):
    ended = Outcome(kind=kind, run_ns=run_ns)
    return OutcomeRecord(time_us=time_us, decision_id="dec-1", session_id=session, call_id=call, outcome=ended)


def hit(rule, severity=Severity.HIGH, action=Action.BLOCK):
    return RuleHit(id=rule, severity=severity, action=action, reason="because")


def blocked(*rules, **more):
    result = Decision(action=Action.BLOCK, rules=rules, grant=Grant(), id="dec-1", data_version="r1")
    return decision(result=result, **more)


def with_arguments(**arguments):
    made = decision()
    return msgspec.structs.replace(
        made,
        input=msgspec.structs.replace(made.input, call=msgspec.structs.replace(made.input.call, arguments=arguments)),
    )


def test_a_call_has_its_verdict_and_then_its_outcome():
    board = fold(
        SessionRecord(time_us=TIME_US, session_id="ses-1", principal="agent", state="open", agent="tester"),
        decision(metrics={"timer_rego_query_eval_ns": 250_000}),
    )
    (call,) = board.sessions["ses-1"].calls
    assert (call.tool, call.target, call.action, call.evaluation_us, call.outcome) == (
        "Bash",
        "ls",
        Action.ALLOW,
        250,
        None,
    )
    assert call.agent == "tester"
    board.take(2, outcome())
    assert call.outcome is not None
    assert call.outcome.run_ns == 5_000_000


def test_a_record_that_comes_again_counts_once():
    board = Board()
    for index in (0, 1, 1, 0, 2):
        board.take(index, blocked(hit("a")))
    assert len(board.sessions["ses-1"].calls) == 3
    assert board.rules(TIME_US)[0].hits == 3
    assert board.next == 3


def test_an_approved_call_is_the_parked_one_and_counts_once():
    parked = decision(action=Action.REVIEW)
    approval = ApprovalInput(id="rev-1", digest="00", revision="r1", approver="alice")
    again = decision(input=msgspec.structs.replace(parked.input, approval=approval))
    board = fold(parked, again)
    assert board.sessions["ses-1"].counts == {"review": 1}
    assert len(board.calls) == 2


def test_a_block_is_a_violation_and_a_review_is_none():
    board = fold(decision(action=Action.REVIEW), blocked(hit("a"), hit("b", Severity.CRITICAL)), decision())
    assert board.violation is not None
    assert board.violation.severity == "critical"
    assert board.violation.index == 1


def test_what_the_monitor_stopped_is_one_and_the_outcome_stays_with_the_call():
    event = RuntimeInput(event="exec", path="/usr/bin/nc")
    board = fold(
        decision(),
        blocked(hit("runtime.exec.unannounced"), purpose="runtime", input=decision(runtime=event).input),
        outcome(kind=OutcomeKind.VIOLATION),
    )
    call, stopped = board.sessions["ses-1"].calls
    assert (stopped.target, stopped.outcome) == ("/usr/bin/nc", None)
    assert call.outcome.kind is OutcomeKind.VIOLATION


def test_rules_are_counted_in_the_last_five_minutes_alone():
    board = fold(
        blocked(hit("old"), time_us=TIME_US - WINDOW_S * 10**6 - PIECE_US),
        blocked(hit("many"), time_us=TIME_US - PIECE_US),
        blocked(hit("many"), hit("once"), time_us=TIME_US),
        decision(time_us=TIME_US),
    )
    counted = board.rules(TIME_US)
    assert [(rule.id, rule.hits) for rule in counted] == [("many", 2), ("once", 1)]
    assert counted[0].pieces == (*[0] * (PIECES - 2), 1, 1)
    assert board.rules(TIME_US + 2 * WINDOW_S * 10**6) == []


def test_a_rule_that_fires_twice_in_a_call_counts_once():
    assert fold(blocked(hit("a"), hit("a"))).rules(TIME_US)[0].hits == 1


def test_runs_a_second_are_those_of_calls_that_ran():
    board = fold(
        *[outcome(time_us=TIME_US - second * 10**6) for second in (5, 4, 3, 3, 2)],
        outcome(kind=OutcomeKind.BLOCKED, run_ns=0),
    )
    assert board.runs_per_s(TIME_US) == 0.5
    assert board.runs_per_s(TIME_US + 60 * 10**6) == 0


def test_active_sessions_are_those_where_something_happened_last():
    board = fold(
        decision(session_id="one", time_us=1), decision(session_id="two", time_us=2), outcome(session="one", time_us=3)
    )
    assert [session.id for session in board.active(5)] == ["one", "two"]
    assert [session.id for session in board.active(1)] == ["one"]
    board.take(3, SessionRecord(time_us=4, session_id="one", principal="agent", state="closed"))
    assert [session.id for session in board.active(5)] == ["two", "one"]


def test_nothing_grows_without_bound():
    board = Board()
    for number in range(3 * SESSIONS_MAX):
        session = f"ses-{number}"
        board.take(number, blocked(hit(f"rule.{number}"), session_id=session, time_us=TIME_US + number * 10**6))
    for number in range(3 * CALLS_MAX):
        board.take(10_000 + number, decision(session_id="busy", time_us=TIME_US))
    assert len(board.sessions) == SESSIONS_MAX
    assert len(board.sessions["busy"].calls) == len(board.calls) == CALLS_MAX
    assert len(board.rules(TIME_US + 3 * SESSIONS_MAX * 10**6)) <= RULES_MAX
    assert board.violation is not None
    assert board.violation.session_id == f"ses-{3 * SESSIONS_MAX - 1}"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"command": "ls -l"}, "ls -l"),
        ({"path": "/workspace/a", "content": "x"}, "/workspace/a"),
        ({"argv": ["ls", "-l"]}, "ls -l"),
        ({"url": "https://a.test/"}, "https://a.test/"),
        ({"seconds": 3}, '{"seconds":3}'),
        ({}, "{}"),
    ],
)
def test_what_a_call_is_about(arguments, shown):
    assert target(with_arguments(**arguments)) == shown


def test_what_a_call_is_about_is_cut():
    assert len(target(with_arguments(command="x" * 4_000_000))) == boards._TEXT_MAX
