"""Errors go between processes whole: actors, pools of processes and queues pickle them."""

import pickle

import pytest

from opensafe.client import CallLost, CommandResult, CommandTimedOut, Verdict
from opensafe.errors import Denied, LimitExceeded, NotFound, ReviewPending
from opensafe.integrations.ray import HostLost, SentCall
from opensafe.model.decision import Action, RuleHit, Severity
from opensafe.model.outcome import Outcome, OutcomeKind

RULE = RuleHit(id="fs.x", severity=Severity.HIGH, action=Action.BLOCK, reason="no", value="/x", remedy="Ask.")
RESULT = CommandResult(
    call_id="call-1",
    exit_code=None,
    stdout_bytes=b"\xff",
    stderr_bytes=b"",
    dropped=3,
    verdict=Verdict(decision_id="d", action=Action.ALLOW),
    outcome=Outcome(kind=OutcomeKind.DEADLINE),
)


def _parked():
    error = ReviewPending("parked", value="rev-1", remedy="Wait.")
    error.rules, error.call_id = (RULE,), "call-2"
    return error


def _lost():
    error = HostLost("gone", value="node")
    error.calls, error.sent = (SentCall(call_id="c", tool="Bash"),), False
    return error


@pytest.mark.parametrize(
    "error",
    [
        NotFound("no such sandbox", value="sb-1", limit="none", remedy="Make one."),
        LimitExceeded("full", value="x" * 1000),
        Denied("blocked", value="/x", rules=(RULE,), outcome="violation"),
        CommandTimedOut("too long", RESULT),
        CallLost("lost", RESULT),
        _parked(),
        _lost(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_on_the_other_side(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert (copy.args, copy.__dict__) == (error.args, error.__dict__)
