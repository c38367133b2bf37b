"""A no, a command that failed, a call that waits and a sandbox that failed are different results."""

import json

import pytest

from opensafe import errors
from opensafe.client import CommandResult, CommandTimedOut, Verdict
from opensafe.mcp.server_results import of_command, of_error, parked
from opensafe.model.decision import Action, RuleHit, Severity
from opensafe.model.outcome import Outcome, OutcomeKind

RULE = RuleHit(
    id="egress.domain.allowlist",
    action=Action.BLOCK,
    severity=Severity.HIGH,
    reason="not on the list",
    value="evil.example.com",
    remedy="Use a listed domain.",
)


def result(kind=OutcomeKind.EXITED, exit_code=0, out=b"", err=b"", dropped=0):
    return CommandResult(
        call_id="c1",
        exit_code=exit_code,
        stdout_bytes=out,
        stderr_bytes=err,
        dropped=dropped,
        verdict=Verdict(decision_id="d", action=Action.ALLOW),
        outcome=Outcome(kind=kind),
    )


def told(answer):
    """Its text and its structured content, which is a JSON object."""
    return answer.content[0].text, json.loads(json.dumps(answer.structured_content))


def test_a_failed_command_is_a_plain_result_with_its_status():
    answer = of_command(result(exit_code=3, out=b"out\n", err=b"err\n"))
    text, content = told(answer)
    assert not answer.is_error
    assert text == "out\n[stderr]\nerr\n[exit code 3]"
    assert (content["exit_code"], content["stdout"], content["stderr"]) == (3, "out\n", "err\n")


def test_a_signal_and_truncation_are_stated():
    text, content = told(of_command(result(exit_code=-9, out=b"\xff", dropped=7)))
    assert "[truncated: 7 bytes" in text
    assert "[signal 9]" in text
    assert (content["truncated"], content["dropped_bytes"], content["stdout"]) == (True, 7, "�")


def test_a_denial_names_rule_value_and_remedy():
    error = errors.Denied("blocked by policy", value=RULE.value, remedy=RULE.remedy, rules=(RULE,))
    error.call_id = "c1"
    answer = of_error(error)
    text, content = told(answer)
    assert answer.is_error
    assert content | {"denied": True, "rule": RULE.id, "value": RULE.value, "remedy": RULE.remedy} == content
    assert (content["kind"], content["call_id"], content["outcome"]) == ("denied", "c1", "blocked")
    assert "Nothing was executed" in text
    assert RULE.remedy in text


def test_a_violation_is_not_called_unexecuted():
    text, _ = told(of_error(errors.Denied("ended", outcome="violation")))
    assert "Nothing was executed" not in text


def test_a_parked_call_is_no_error_and_says_what_to_do():
    error = errors.ReviewPending("parked", value="rev-1")
    error.call_id = "c1"
    for answer in (of_error(error), parked(error, "Then write.")):
        text, content = told(answer)
        assert not answer.is_error
        assert (content["pending"], content["review_id"], content["call_id"]) == (True, "rev-1", "c1")
        assert "do not send the call again" in text
    assert text.endswith("Then write.")


def test_a_command_that_did_not_end_by_itself_keeps_its_output():
    error = CommandTimedOut("too long", result(OutcomeKind.DEADLINE, exit_code=None, out=b"half"))
    answer = of_error(error)
    text, content = told(answer)
    assert answer.is_error
    assert (content["kind"], content["error"], content["stdout"]) == ("command", "COMMAND_TIMED_OUT", "half")
    assert "half" in text


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.SandboxLost("gone"), "sandbox"),
        (errors.FileNotFound("no"), "file"),
        (errors.InvalidArgument("no"), "arguments"),
        (errors.LimitExceeded("no"), "request"),
        (errors.Unavailable("no"), "unavailable"),
        (errors.AuditError("no"), "internal"),
    ],
)
def test_each_failure_has_a_kind_of_its_own(error, kind):
    answer = of_error(error)
    assert answer.is_error
    assert answer.structured_content["kind"] == kind
    assert "denied" not in answer.structured_content


def test_an_unavailable_daemon_may_have_run_the_call():
    error = errors.Unavailable("gone")
    error.call_id = "c1"
    text, content = told(of_error(error))
    assert "nothing was executed" not in text
    assert "call_status" in content["remedy"]
