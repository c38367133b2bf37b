"""What a trace makes of a session's records, and that no agent can make it grow."""

import msgspec
import pytest

from opensafe.console import trace as traces
from opensafe.console.trace import FILES_MAX, PLACES_MAX, SANDBOXES_MAX, Trace
from opensafe.model.decision import Action
from opensafe.model.facts import HostFact, PathFact
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.policy_input import ApprovalInput, BudgetInput
from opensafe.model.records import (
    ConnectionRecord,
    OutcomeRecord,
    ReviewRecord,
    SandboxRecord,
    SessionRecord,
    ShadowRecord,
    UsageRecord,
)
from opensafe.model.usage import Limits, Usage
from tests.harness.records import BUNDLE, TIME_US, decision, refusal


def fold(*records):
    trace = Trace("ses-1")
    for index, record in enumerate(records):
        trace.take(index, record)
    return trace


def judged(name="dec-1", *, call=None, session=None, budget=None, approval=None, **more):
    """A decision whose input is another in parts: fields of call and of session, the budget, an approval."""
    made = decision(decision_id=name, **more)
    question = made.input
    question = msgspec.structs.replace(
        question,
        call=msgspec.structs.replace(question.call, **(call or {})),
        session=msgspec.structs.replace(question.session, **(session or {})),
        budget=budget or question.budget,
        approval=approval,
    )
    return msgspec.structs.replace(made, input=question)


def ended(name="dec-1", kind=OutcomeKind.EXITED, usage=None):
    return OutcomeRecord(
        time_us=TIME_US,
        decision_id=name,
        session_id="ses-1",
        call_id="call-1",
        outcome=Outcome(kind=kind, exit_code=0 if kind is OutcomeKind.EXITED else None, run_ns=5),
        usage=usage,
    )


def reviewed(state, by="alice"):
    return ReviewRecord(
        time_us=TIME_US, review_id="rev-1", session_id="ses-1", call_id="call-1", state=state, decided_by=by
    )


def connected(state, **more):
    fields = {"time_us": TIME_US, "session_id": "ses-1", "state": state, "layer": "tls", "port": 443} | more
    return msgspec.convert(fields, ConnectionRecord)


def test_a_call_has_its_verdict_its_end_and_the_places_where_both_stand():
    trace = fold(decision(), refusal(2), ended())
    call, refused = trace.steps
    assert (call.call.tool, call.call.outcome.kind, call.records) == ("Bash", OutcomeKind.EXITED, [0, 2])
    assert (refused.refusal.reason, refused.records) == ("UNKNOWN_TOOL", [1])
    assert trace.step(1) is refused
    assert trace.step(2) is None


def test_an_end_goes_to_its_own_decision_where_a_call_was_judged_twice():
    approval = ApprovalInput(id="rev-1", digest="00", revision="r1", approver="alice")
    trace = fold(
        decision(Action.REVIEW, review_id="rev-1"),
        reviewed("approved"),
        judged("dec-2", approval=approval),
        ended("dec-2"),
    )
    parked, run = trace.steps
    assert (parked.review.state, parked.call.outcome, parked.records) == ("approved", None, [0, 1])
    assert (run.approver, run.call.outcome.kind, run.records) == ("alice", OutcomeKind.EXITED, [2, 3])
    assert trace.counts == {"allow": 0, "review": 1, "block": 0}


def test_the_last_word_of_a_review_counts():
    trace = fold(decision(Action.REVIEW, review_id="rev-1"), reviewed("seconded"), reviewed("rejected", "bob"))
    assert (trace.steps[0].review.state, trace.steps[0].review.decided_by) == ("rejected", "bob")


def test_the_candidate_in_shadow_is_noted_beside_the_call():
    said = ShadowRecord(
        time_us=TIME_US,
        decision_id="dec-1",
        session_id="ses-1",
        candidate=BUNDLE,
        enforced=Action.ALLOW,
        action=Action.BLOCK,
        rules=(),
    )
    assert fold(decision(), said).steps[0].shadow == "block"


def test_a_record_that_comes_again_counts_once():
    trace = Trace("ses-1")
    for index in (0, 1, 1, 0, 2):
        trace.take(index, decision())
    assert (len(trace.steps), trace.counts["allow"]) == (3, 3)


def test_files_are_touched_where_the_call_may_run_and_stopped_where_not():
    facts = {
        "reads": (PathFact(path="/a", classes={"workspace": True, "secret": False}),),
        "writes": (PathFact(path="/b"),),
        "deletes": (PathFact(path="/a"),),
    }
    trace = fold(judged(call=facts), judged("dec-2", call=facts, action=Action.BLOCK))
    one, other = trace.files["/a"], trace.files["/b"]
    assert (one.classes, one.read, one.written, one.deleted, one.stopped) == (("workspace",), 1, 0, 1, 1)
    assert (other.read, other.written, other.stopped, other.index) == (0, 1, 1, 1)


def test_a_question_touches_nothing():
    trace = fold(judged(call={"reads": (PathFact(path="/a"),)}, purpose="query"))
    assert (trace.files["/a"].read, trace.files["/a"].stopped) == (0, 1)


def test_connections_are_counted_by_peer_and_port():
    trace = fold(
        judged(call={"hosts": (HostFact(name="docs.example", port=443), HostFact(name="evil.example", port=80))}),
        connected("allowed", name="docs.example"),
        connected("ended", name="docs.example", sent=10, received=2000),
        connected("refused", name="evil.example", port=None, layer="dns", count=3, reason="not granted"),
        connected("refused", name="", address="10.0.0.1", port=22, layer="packet", rules=("packet.deny",)),
    )
    places = {(one.name, one.port): one for one in trace.places.values()}
    good = places["docs.example", 443]
    assert (good.named, good.allowed, good.refused, good.sent, good.received) == (1, 1, 0, 10, 2000)
    assert (places["evil.example", 80].named, places["evil.example", None].refused) == (1, 3)
    assert places["evil.example", None].reason == "not granted"
    assert places["10.0.0.1", 22].reason == "packet.deny"


def test_the_budget_is_what_policy_saw_last_and_what_came_since():
    budget = BudgetInput(usage={"calls": 7, "wall_s": 3, "requests": 1}, limits={"calls": 10})
    trace = fold(
        judged(budget=BudgetInput(usage={"calls": 1})),
        ended(usage=Usage(output_bytes=1000)),  # is in what policy saw next
        judged("dec-2", budget=budget),
        ended("dec-2", usage=Usage(wall_us=2_000_000, output_bytes=5)),
        UsageRecord(time_us=TIME_US, session_id="ses-1", principal="agent", usage=Usage(tokens=40)),
        connected("allowed", name="docs.example"),
    )
    used = trace.used
    assert [used[name] for name in ("calls", "wall_s", "output_bytes", "tokens", "requests")] == [8, 5, 5, 40, 2]
    assert trace.limits == {"calls": 10}


def test_limits_are_told_before_the_first_call():
    begun = SessionRecord(
        time_us=TIME_US, session_id="ses-1", principal="agent", state="open", agent="tester", limits=Limits(tokens=9)
    )
    trace = fold(begun)
    assert (trace.limits, trace.agent, trace.began_us, trace.closed) == ({"tokens": 9}, "tester", TIME_US, False)
    trace.take(1, SessionRecord(time_us=TIME_US + 5, session_id="ses-1", principal="agent", state="closed"))
    assert (trace.closed, trace.agent, trace.last_us) == (True, "tester", TIME_US + 5)


@pytest.mark.parametrize(("kind", "taints"), [(OutcomeKind.EXITED, ("secret.read",)), (OutcomeKind.BLOCKED, ())])
def test_a_taint_stands_once_the_call_ran(kind, taints):
    trace = fold(decision(effects=("secret.read",)))
    assert trace.taints == ()
    trace.take(1, ended(kind=kind))
    assert trace.taints == taints


def test_a_sandbox_is_as_it_is_now():
    made = SandboxRecord(
        time_us=1,
        sandbox_id="sb-1",
        session_id="ses-1",
        principal="agent",
        state="running",
        template="base",
        network="none",
    )
    gone = msgspec.structs.replace(made, time_us=2, state="deleted", cause="closed", template="", network="")
    (one,) = fold(made, gone).sandboxes.values()
    assert (one.state, one.template, one.network, one.cause) == ("deleted", "base", "none", "closed")
    assert (one.began_us, one.last_us) == (1, 2)


def test_nothing_grows_without_an_end(monkeypatch):
    monkeypatch.setattr(traces, "CALLS_MAX", 5)
    trace = Trace("ses-1")
    many = range(max(FILES_MAX, PLACES_MAX, SANDBOXES_MAX) + 10)
    for index in many:
        paths, hosts = (PathFact(path=f"/{index}"),), (HostFact(name=f"{index}.example"),)
        trace.take(index, judged(f"dec-{index}", call={"writes": paths, "hosts": hosts}))
    for index in many:
        trace.take(
            len(many) + index,
            SandboxRecord(time_us=1, sandbox_id=f"sb-{index}", session_id="ses-1", principal="agent", state="running"),
        )
    for again in range(100):
        trace.take(2 * len(many) + again, reviewed("seconded") if again % 2 else ended(f"dec-{len(many) - 1}"))
    assert (len(trace.steps), len(trace.files), len(trace.places)) == (5, FILES_MAX, PLACES_MAX)
    assert len(trace.sandboxes) == SANDBOXES_MAX
    assert all(len(step.records) <= 16 for step in trace.steps)
    assert trace.older == trace.steps[0].index


def test_all_is_held_of_a_short_session():
    assert fold(decision(), decision(decision_id="dec-2")).older == 0
