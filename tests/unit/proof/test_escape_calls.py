"""What a run through the daemon is worth: a call that did not get to its end has not tried what it was to try."""

import msgspec
import pytest

from opensafe.client import CallResult, Verdict
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.proof.escape.ground import told

VERDICT = Verdict(decision_id="dec_1", action=Action.ALLOW)
TRIED_ALL = {OutcomeKind.EXITED, OutcomeKind.SIGNALLED, OutcomeKind.VIOLATION}


def call(kind, action=Action.ALLOW):
    return CallResult(verdict=msgspec.structs.replace(VERDICT, action=action), outcome=Outcome(kind=kind))


@pytest.mark.parametrize("kind", OutcomeKind)
def test_an_allowed_call_tried_all_where_it_ended_by_itself_or_was_ended_for_what_it_did(kind):
    run = told(call(kind))
    assert run.began
    assert run.finished is (kind in TRIED_ALL)


@pytest.mark.parametrize(
    ("action", "kind"), [(Action.BLOCK, OutcomeKind.BLOCKED), (Action.REVIEW, OutcomeKind.REVIEW_PENDING)]
)
def test_a_call_that_was_not_allowed_is_stopped_by_policy_and_needs_no_end(action, kind):
    run = told(call(kind, action))
    assert (run.began, run.finished) == (True, True)
    assert run.layer.startswith(f"policy: {action} by ")
