"""Where policy reaches no verdict, the verdict is a block, and it is on record. G33, G35, PE-21."""

import json

import pytest

from opensafe.control.history import History
from opensafe.control.judge import Judge
from opensafe.errors import EvaluationFailed
from opensafe.model import records
from opensafe.model.decision import Action
from opensafe.model.facts import ClassTables
from opensafe.policy.engine import Engine
from opensafe.policy.manifest import Bundle
from tests.harness.policy import REVISION, guest, site_bundle
from tests.unit.control.test_approval_revision import SESSION, ask, judge_of, place

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


#: Modules that give no verdict, as what Rego makes of a fault, and what the record says of it.
FAULTS = {
    "rego-error": (
        "(i32.store8 (i32.const 512) (i32.const 101)) (call $abort (i32.const 512)) (i32.const 4096)",
        "abort",
    ),
    "undefined": ("(i32.const 4096)", "undefined"),
    "trap": ("unreachable", "unreachable"),
    "timeout": ("(loop $on (br $on)) (i32.const 4096)", "deadline"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_G33_G35_a_module_at_fault_blocks_and_leaves_one_record_that_says_why(place, tmp_path, fault):
    body, why = FAULTS[fault]
    log, store, tracing = place
    module = Bundle(
        revision=REVISION, digest="", wasm=guest(evaluate=body), data=b"{}", tables=ClassTables(),
        entrypoints=("gate/bash",), vectors=(),
    )  # fmt: skip
    engine = Engine(module, deadline_ms=50)
    try:
        judge = Judge(engine, records.Bundle(revision=REVISION, digest=""), log, History(store), tracing, 60, 60)
        assert (await ask(judge, store)).action is Action.BLOCK
    finally:
        engine.close()
    written = [json.loads(line) for line in (tmp_path / "segment").read_text().splitlines()]
    [decision] = [record for record in written if record["session_id"] == SESSION and record["kind"] == "decision"]
    [hit] = decision["result"]["rules"]
    assert (decision["result"]["action"], hit["id"], decision["subject"]) == ("block", "default.deny", "")
    assert why in hit["reason"], hit


async def test_the_twin_with_a_verdict_is_not_blocked_so(judged):
    _, judge, store = judged
    assert (await ask(judge, store)).action is Action.REVIEW
