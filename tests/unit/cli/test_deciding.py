"""`opensafe bench decision`: the exit status follows each goal, of figures that are given."""

import json
import pathlib

import msgspec
import pytest

from opensafe.bench import decision
from opensafe.bench.timing import Times
from opensafe.cli import deciding
from opensafe.cli.exits import Exit

ROW = decision.Row(
    tool="Read",
    case="",
    action="allow",
    question_bytes=1000,
    whole=Times.of([900_000]),
    evaluate=Times.of([100_000, 100_000, 400_000]),
    opa_go=Times.of([400_000]),
    ratio_to_opa_go=0.25,
    peers={},
)
WORST = msgspec.structs.replace(ROW, case="mal-1", whole=None, evaluate=Times.of([200_000]), ratio_to_opa_go=0.3)


@pytest.fixture
def bench(monkeypatch, capsys):
    """Runs the command on the rows above; its exit status and summary."""
    measured = decision.Measured(rows={"read": ROW, decision.WORST: WORST}, peers={}, revision="1-a", rules=68)
    monkeypatch.setattr(decision, "measure", lambda *_: measured)

    def run(**goals):
        status = deciding.decision(coverage=False, policies=pathlib.Path(), json=True, **goals)
        return status, json.loads(capsys.readouterr().out)["summary"]

    return run


def test_goals_that_hold(bench):
    status, summary = bench()
    assert status == Exit.OK
    assert summary["ok"] is True
    assert (summary["ratio_to_opa_go"], summary["ordinary_p50_ms"], summary["worst_p50_ms"]) == (0.3, 0.1, 0.2)
    assert (summary["evaluate_p99_ms"], summary["decision_p50_ms"], summary["rules"]) == (0.4, 0.9, 68)


@pytest.mark.parametrize(
    "goal",
    [{"max_ratio": 0.29}, {"max_p50_ms": 0.09}, {"max_worst_ms": 0.19}, {"max_p99_ms": 0.39}, {"max_ms": 0.89}],
    ids=lambda goal: next(iter(goal)),
)
def test_one_goal_that_is_missed(bench, goal):
    status, summary = bench(**goal)
    assert status == Exit.GOAL_MISSED
    assert summary["ok"] is False
