"""Where policy reaches no verdict, the verdict is a block, and it is on record. G33, G35, PE-21."""

import pytest

from opensafe.errors import EvaluationFailed
from opensafe.model.decision import Action
from tests.harness.policy import site_bundle
from tests.unit.control.test_approval_revision import ask, judge_of, place

__all__ = ["place"]


@pytest.fixture
def judged(place, tmp_path):
    bundle, _ = site_bundle(tmp_path)
    engine, judge = judge_of(place, bundle)
    yield engine, judge, place[1]
    engine.close()


async def test_a_failed_evaluation_blocks_and_is_recorded(judged, monkeypatch):
    engine, judge, store = judged

    def fail(entrypoint, question):
        raise EvaluationFailed("the deadline passed")

    monkeypatch.setattr(engine, "evaluate", fail)
    verdict = await ask(judge, store)
    assert verdict.action is Action.BLOCK
    assert verdict.launch is None
    (hit,) = verdict.verdict.decision.rules
    assert (hit.id, "the deadline passed" in hit.reason) == ("default.deny", True)
    assert store.call("ses-00000000000000000001", "c1").outcome.kind == "blocked"


async def test_the_twin_with_a_verdict_is_not_blocked_so(judged):
    _, judge, store = judged
    assert (await ask(judge, store)).action is Action.REVIEW
