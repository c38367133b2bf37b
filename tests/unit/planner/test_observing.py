"""What a model is told, and what ends a run."""

import pytest

from opensafe.client import Verdict
from opensafe.model.decision import Action, RuleHit, Severity
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.planner import told
from opensafe.planner.calls import Finished
from opensafe.planner.observing import observe
from tests.unit.planner.support import model, queued, run_state

RAN = {"status": "ran", "text": "It exited with 0.", "rules": []}


def denied(*rules):
    return {"status": "denied", "text": "Denied by policy.", "rules": list(rules)}


async def observed(door, **state):
    return await observe(run_state(**{"queue": [queued()], "result": RAN, **state}), door(model()))


async def test_the_result_answers_its_call(door):
    update = await observed(door)
    (message,) = update["messages"]
    assert (message.tool_call_id, message.content, message.status) == ("id-1", "It exited with 0.", "success")
    assert (update["transition"], update["queue"], update["result"]) == ("result", [], None)


async def test_what_is_to_be_known_beside_it_is_told_once(door):
    update = await observed(door, notes=["The sandbox was lost."])
    assert update["messages"][0].content.startswith("The sandbox was lost.\n")
    assert update["notes"] == []


async def test_the_next_call_that_can_be_sent_is_next_and_others_are_answered(door):
    queue = [queued(1), queued(2, error="No."), queued(3)]
    update = await observed(door, queue=queue)
    assert update["transition"] == "next"
    assert [message.tool_call_id for message in update["messages"]] == ["id-1", "id-2"]
    assert [call["call_id"] for call in update["queue"]] == ["run-1.3"]


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ({"result": denied("caller.ban.deny")}, "banned"),
        ({"result": denied("budget.calls.ceiling")}, "budget"),
        ({"result": denied("session.denials.quarantine")}, "denied"),
        ({"result": denied("a", "b"), "denials": {"b": 2}}, "denied"),
        ({"result": {"status": "refused", "text": "", "rules": []}, "mistakes": 4}, "mistakes"),
    ],
)
async def test_a_run_ends_by(door, state, kind):
    update = await observed(door, **state)
    assert (update["transition"], update["end"]["kind"]) == ("stop", kind)
    assert update["messages"]  # the conversation is whole, however it ends


@pytest.mark.parametrize(
    "state",
    [
        {"result": denied("a", "a"), "denials": {"a": 1, "b": 2}},  # one denial counts a rule once
        {"result": denied("egress.bytes.budget")},  # which leaves work without the network
        {"result": RAN, "mistakes": 4},
    ],
)
async def test_a_run_goes_on_after(door, state):
    update = await observed(door, **state)
    assert update["transition"] == "result"
    assert update["mistakes"] == 0


def _finished(kind, action=Action.ALLOW, **fields):
    hit = RuleHit(
        id="egress.domain.allowlist",
        severity=Severity.HIGH,
        action=action,
        reason="not listed",
        value="evil",
        remedy="Ask.",
    )
    verdict = Verdict(decision_id="dec-1", action=action, rules=(hit,))
    return Finished(outcome=Outcome(kind=kind, **fields), verdict=verdict, stdout="out", missed=3)


def test_a_denial_carries_rule_value_and_remedy():
    result = told.of_outcome(_finished(OutcomeKind.BLOCKED, Action.BLOCK))
    assert result["status"] == "denied"
    assert result["rules"] == ["egress.domain.allowlist"]
    for part in ("egress.domain.allowlist", "not listed", "value: evil", "remedy: Ask.", "Nothing was executed"):
        assert part in result["text"]


def test_no_failed_command_and_failed_sandbox_are_told_apart():
    by_kind = {
        kind: told.of_outcome(_finished(kind, exit_code=1 if kind is OutcomeKind.EXITED else None))["status"]
        for kind in OutcomeKind
        if kind is not OutcomeKind.REVIEW_PENDING
    }
    assert {kind for kind, status in by_kind.items() if status == "denied"} == {
        OutcomeKind.BLOCKED,
        OutcomeKind.REVIEW_REJECTED,
        OutcomeKind.REVIEW_EXPIRED,
    }
    assert set(by_kind.values()) == {"denied", "failed"}
    lost = told.of_outcome(_finished(OutcomeKind.LOST))["text"]
    assert "not the command" in lost
    assert "not the command" not in told.of_outcome(_finished(OutcomeKind.EXITED, exit_code=1))["text"]


def test_output_that_is_gone_is_said_to_be():
    text = told.of_outcome(_finished(OutcomeKind.EXITED, exit_code=0))["text"]
    assert text.startswith("It exited with 0.\n--- stdout ---\nout\n3 bytes of output are no longer retained.")
