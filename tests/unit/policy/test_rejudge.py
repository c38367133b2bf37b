"""A recorded decision judged again: facts are read anew from the arguments, whatever the record claims they are."""

from typing import cast

import msgspec
import pytest

from opensafe.errors import PolicyError
from opensafe.model.decision import Action, Decision, Grant
from opensafe.model.facts import PathFact
from opensafe.model.policy_input import ApprovalInput, PolicyInput
from opensafe.model.records import Bundle, DecisionRecord
from opensafe.model.written import Written
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.policy.compare import compare
from opensafe.policy.engine import Engine
from opensafe.policy.rejudge import judge_again, judge_on_candidate
from opensafe.policy.subject import call_input
from tests.harness.policy import question


def recorded(engine: Engine, command: str, action: Action = Action.ALLOW, **more: object) -> DecisionRecord:
    """The record of a Bash call that got `action`."""
    call = DEFAULT_REGISTRY.validate("c1", "Bash", msgspec.json.encode({"command": command}), 1 << 20)
    asked = msgspec.structs.replace(
        question(name="dec-1"), call=call_input(call, DEFAULT_REGISTRY.facts(call, engine.tables))
    )
    fields: dict[str, object] = {
        "time_us": 1,
        "decision_id": "dec-1",
        "purpose": "query",
        "principal": "default",
        "session_id": "s1",
        "call_id": "c1",
        "sandbox_id": "",
        "exec_id": "",
        "bundles": {"opensafe": Bundle(revision=engine.revision, digest="")},
        "path": "opensafe/gate/bash",
        "input": asked,
        "result": Decision(action=action, rules=(), grant=Grant(), id="dec-1", data_version=engine.revision),
        "subject": "",
        "metrics": {},
        "trace_id": "",
        "span_id": "",
    }
    return msgspec.convert(fields | more, DecisionRecord, from_attributes=True)


def test_facts_are_read_anew(engine: Engine) -> None:
    honest = recorded(engine, "cat /etc/shadow", Action.BLOCK)
    harmless = (PathFact(path="/workspace/a", classes={"workspace": True}),)
    forged = msgspec.structs.replace(honest.input.call, reads=harmless)
    lying = msgspec.structs.replace(honest, input=msgspec.structs.replace(honest.input, call=forged))
    assert engine.evaluate("gate/bash", lying.input).action is Action.ALLOW  # the control: the lie would work
    assert judge_again(engine, lying).decision.action is Action.BLOCK


def test_what_calls_before_wrote_is_taken_as_recorded_and_takes_nothing_away(engine: Engine) -> None:
    plain = recorded(engine, "sh s.sh")
    call = DEFAULT_REGISTRY.validate("c1", "Bash", b'{"command": "sh s.sh"}', 1 << 20)
    before = Written(texts={"/workspace/s.sh": ("cat /etc/shadow\n",)})
    facts, _ = DEFAULT_REGISTRY.read(call, engine.tables, None, before)
    asked = msgspec.structs.replace(plain.input, call=call_input(call, facts))
    recalled = msgspec.structs.replace(plain, input=asked)
    assert judge_again(engine, plain).decision.action is Action.ALLOW
    assert judge_again(engine, recalled).decision == engine.evaluate("gate/bash", asked)
    assert judge_again(engine, recalled).decision.action is Action.BLOCK
    shadow = recorded(engine, "cat /etc/shadow", Action.BLOCK)
    lying = msgspec.structs.replace(shadow.input.call, reads=(), commands=(), recalled=True)
    claimed = msgspec.structs.replace(shadow, input=msgspec.structs.replace(shadow.input, call=lying))
    assert judge_again(engine, claimed).decision.action is Action.BLOCK


class Listening:
    """An engine that keeps what it was asked."""

    def __init__(self, engine: Engine) -> None:
        self.tables, self.registry, self._engine = engine.tables, engine.registry, engine
        self.asked: list[PolicyInput] = []

    def evaluate(self, entrypoint: str, question: PolicyInput) -> Decision:
        self.asked.append(question)
        return self._engine.evaluate(entrypoint, question)


@pytest.mark.parametrize("streamed", [True, False])
def test_t11_streamed_standard_input_is_taken_from_the_record(engine: Engine, streamed: bool) -> None:
    record = recorded(engine, "cat")
    asked = msgspec.structs.replace(record.input.call, stdin=streamed)
    record = msgspec.structs.replace(record, input=msgspec.structs.replace(record.input, call=asked))
    listening = Listening(engine)
    judge_again(cast(Engine, listening), record)
    assert [question.call.stdin for question in listening.asked] == [streamed]


def test_a_forged_kind_does_not_keep_them_from_being_read(engine: Engine) -> None:
    honest = recorded(engine, "cat /etc/shadow", Action.BLOCK)
    lying = msgspec.structs.replace(honest, input=msgspec.structs.replace(honest.input, kind="sandbox"))
    assert judge_again(engine, lying).decision.action is Action.BLOCK


def test_an_approval_counts_on_a_candidate_and_not_on_another_revision(engine: Engine) -> None:
    parked = recorded(engine, "npm install x", Action.REVIEW)
    assert judge_again(engine, parked).decision.action is Action.REVIEW
    approval = ApprovalInput(id="r", digest=parked.input.call.digest, revision="old", approver="reviewer")
    approved = msgspec.structs.replace(parked, input=msgspec.structs.replace(parked.input, approval=approval))
    assert judge_again(engine, approved).decision.action is Action.REVIEW
    assert judge_on_candidate(engine, approved).action is Action.ALLOW


def test_no_verdict_is_a_block_on_a_candidate(engine: Engine) -> None:
    class Silent:
        revision = "0"
        tables, registry = engine.tables, engine.registry

        def evaluate(self, *_: object) -> Decision:
            raise PolicyError("it ran away")

    decision = judge_on_candidate(Silent(), recorded(engine, "ls"))  # type: ignore[arg-type]  # fails as one does
    assert decision.action is Action.BLOCK
    assert "it ran away" in decision.rules[0].reason


def test_a_call_that_the_registry_no_longer_takes_is_a_block(engine: Engine) -> None:
    old = recorded(engine, "ls")
    call = msgspec.structs.replace(old.input.call, tool="Gone")
    gone = msgspec.structs.replace(old, input=msgspec.structs.replace(old.input, call=call))
    decision = judge_on_candidate(engine, gone)
    assert "UNKNOWN_TOOL" in decision.rules[0].reason


@pytest.mark.parametrize(
    ("was", "transitions", "loosened"),
    [(Action.ALLOW, {}, 0), (Action.BLOCK, {"block>allow": 3}, 3), (Action.REVIEW, {"review>allow": 3}, 3)],
)
def test_a_comparison_counts_all_and_keeps_some(
    engine: Engine, was: Action, transitions: dict[str, int], loosened: int
) -> None:
    seen: list[int] = []
    records = [(index, recorded(engine, "ls", was)) for index in range(3)]
    other = (9, recorded(engine, "ls", was, purpose="other"))
    found = compare(engine, [*records, other], keep=2, seen=seen.append)
    assert (found.decisions, found.skipped, seen) == (3, 1, [1, 2, 3])
    assert (found.transitions, found.loosened, found.tightened) == (transitions, loosened, 0)
    assert len(found.changes) == min(2, loosened)
