"""What is counted while calls pass, and that no client can make it grow."""

import threading
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from opensafe.model.calls import Principal
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.ids import now_us
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.policy_input import CallInput, PolicyInput, SessionInput
from opensafe.model.records import (
    BundleRecord,
    ConnectionRecord,
    DecisionRecord,
    OutcomeRecord,
    RefusalRecord,
    SandboxRecord,
)
from opensafe.telemetry import semconv
from opensafe.telemetry.meters import FAMILIES, MOST, OTHER, Counts, Meters, Times
from opensafe.telemetry.spans import Tracing, Waited, describe_outcome

UNSAMPLED = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-00"}


def decision(action=Action.ALLOW, rules=(), purpose="call", version="1", path="opensafe/gate/exec"):
    question = PolicyInput(
        id="dec",
        kind="call",
        call=CallInput(id="c", tool="Bash", arguments={}, digest=""),
        principal=Principal(name="p"),
        session=SessionInput(id="s"),
    )
    hits = tuple(RuleHit(id=name, severity=Severity.LOW, action=act, reason="") for name, act in rules)
    return DecisionRecord(
        time_us=1,
        decision_id="dec",
        purpose=purpose,
        principal="p",
        session_id="s",
        call_id="c",
        sandbox_id="",
        exec_id="",
        bundles={},
        path=path,
        input=question,
        result=Decision(action=action, rules=hits, grant=Grant(), id="dec", data_version=version),
        subject="",
        metrics={"timer_rego_query_eval_ns": 2_000_000},
        trace_id="",
        span_id="",
    )


def outcome(kind, **more):
    return OutcomeRecord(time_us=1, decision_id="dec", session_id="s", call_id="c", outcome=Outcome(kind=kind, **more))


def grown(counts):
    return {labels: value for labels, value in counts.series.items() if value}


def test_a_verdict_counts_by_the_family_of_the_first_rule_that_decides():
    meters = Meters()
    meters.record(decision(rules=[("tool.exec.build.allow", Action.ALLOW)]))
    meters.record(
        decision(Action.BLOCK, [("a.a", Action.ALLOW), ("egress.domain.allowlist", Action.BLOCK), ("z", Action.BLOCK)])
    )
    meters.record(decision(Action.REVIEW, purpose="permit"))
    assert grown(meters.decisions) == {
        ("call", "allow", "tool.exec"): 1,
        ("call", "block", "egress.domain"): 1,
        ("permit", "review", ""): 1,
    }
    assert grown(meters.no_verdict) == {}
    assert grown(meters.ended) == {("blocked",): 1}
    assert meters.evaluations.series[("gate/exec",)][-1] == pytest.approx(0.006)


def test_no_verdict_is_counted_apart_from_a_rule_that_blocks():
    meters = Meters()
    meters.record(decision(Action.BLOCK, [("default.deny", Action.BLOCK)]))
    assert grown(meters.no_verdict) == {}
    meters.record(decision(Action.BLOCK, [("default.deny", Action.BLOCK)], version=""))
    assert grown(meters.no_verdict) == {(): 1}


def test_a_call_that_ended_counts_once():
    meters = Meters()
    meters.record(decision())
    meters.record(outcome(OutcomeKind.EXITED, exit_code=0))
    meters.record(decision(Action.BLOCK))
    meters.record(outcome(OutcomeKind.BLOCKED, detail="void"))
    assert grown(meters.ended) == {("exited",): 1, ("blocked",): 1}


def test_records_of_every_other_kind():
    meters = Meters()
    about: dict[str, Any] = {"time_us": 1, "principal": "p", "session_id": "s"}
    meters.record(RefusalRecord(**about, call_id="", tool="", reason="LIMIT_EXCEEDED", message="", count=7))
    for cause in ("memory", "monitor: reports were lost", "sentry exit 2", "a word of the guest's"):
        meters.record(SandboxRecord(**about, sandbox_id="sb", state="lost", cause=cause))
    meters.record(SandboxRecord(**about, sandbox_id="sb", state="running"))
    meters.record(BundleRecord(time_us=1, state="refused", digest=""))
    assert grown(meters.refusals) == {("LIMIT_EXCEEDED",): 7}
    assert grown(meters.sandboxes_lost) == {("memory",): 1, ("monitor",): 1, ("sentry",): 1, (OTHER,): 1}
    assert grown(meters.bundles) == {("refused",): 1}
    assert grown(meters.records) == {("refusal",): 1, ("sandbox",): 5, ("bundle",): 1}


def test_records_of_an_earlier_life_are_folded_and_not_counted():
    meters, folded = Meters(), []
    fold = meters.watching(lambda *given: folded.append(given))
    fold(0, outcome(OutcomeKind.EXITED), "leaf")
    meters.begin()
    assert grown(meters.records) == {}
    fold(1, outcome(OutcomeKind.EXITED), "leaf")
    assert grown(meters.records) == {("outcome",): 1}
    assert len(folded) == 2


def test_a_record_that_could_not_be_folded_is_not_counted():
    def fold(*_):
        raise OSError("disk full")

    meters = Meters()
    meters.begin()
    with pytest.raises(OSError, match="disk full"):
        meters.watching(fold)(0, outcome(OutcomeKind.EXITED), "")
    assert grown(meters.records) == {}


def test_labels_of_somebody_elses_choice_are_bounded():
    counts, times = Counts(), Times((1.0,))
    for number in range(3 * MOST):
        counts.add((str(number), "b"))
        times.add((str(number),), 0.5)
    assert len(counts.series) == len(times.series) == MOST + 1
    assert counts.series[(OTHER, OTHER)] == 2 * MOST
    assert times.series[(OTHER,)] == [2 * MOST, 0, MOST]


def test_a_bundle_with_very_many_families_keeps_purpose_and_action():
    meters = Meters()
    for number in range(3 * FAMILIES):
        meters.record(decision(Action.BLOCK, [(f"family.{number}", Action.BLOCK)]))
    assert len(meters.decisions.series) == FAMILIES + 1
    assert meters.decisions.series[("call", "block", OTHER)] == 2 * FAMILIES


def test_a_duration_on_a_bound_belongs_below_it():
    times = Times((0.1, 1.0))
    for seconds in (0.1, 0.5, 1.0, 1.5):
        times.add((), seconds)
    assert times.series[()] == [1, 2, 1, pytest.approx(3.1)]


@pytest.fixture
def traced():
    """A tracing into memory, and its meters."""
    meters, memory = Meters(), InMemorySpanExporter()
    tracing = Tracing(memory, "1", meters=meters)
    yield tracing, meters, memory
    tracing.close()


def test_a_call_lasts_as_long_as_its_span_and_tells_its_error(traced):
    tracing, meters, memory = traced
    with tracing.tool("Bash", "ses", "", "call", {}) as span:
        describe_outcome(span, Outcome(kind=OutcomeKind.EXITED, exit_code=0))
    with tracing.tool("Bash", "ses", "", "call", {}) as span:
        describe_outcome(span, Outcome(kind=OutcomeKind.BLOCKED))
    tracing.close()
    good, bad = memory.get_finished_spans()
    assert {labels: found[-1] for labels, found in meters.tools.series.items()} == {
        ("Bash", ""): pytest.approx((good.end_time - good.start_time) / 1e9),
        ("Bash", "policy_denied"): pytest.approx((bad.end_time - bad.start_time) / 1e9),
    }


def test_a_parked_call_counts_when_it_is_over_with_its_wait(traced):
    tracing, meters, _ = traced
    with tracing.tool("Bash", "ses", "", "call", {}) as span:
        describe_outcome(span, Outcome(kind=OutcomeKind.REVIEW_PENDING))
    assert meters.tools.series == {}
    parked = now_us() - 60_000_000
    with tracing.tool("Bash", "ses", "", "call", {}, Waited("rev", parked, "approved")) as span:
        describe_outcome(span, Outcome(kind=OutcomeKind.EXITED, exit_code=0))
    assert meters.tools.series[("Bash", "")][-1] >= 60


def test_what_ran_nowhere_is_no_call(traced):
    tracing, meters, _ = traced
    with tracing.tool("Bash", "ses", "", "query", {}):
        pass
    assert meters.tools.series == {}


def test_a_client_that_samples_its_trace_out_is_counted_and_not_exported(traced):
    tracing, meters, memory = traced
    with (
        tracing.tool("Bash", "ses", "", "call", UNSAMPLED) as span,
        tracing.child(semconv.SPAN_SANDBOX_CREATE) as made,
    ):
        made.set_attribute(semconv.SANDBOX_WARM, True)
        describe_outcome(span, Outcome(kind=OutcomeKind.EXITED, exit_code=0))
    tracing.begin_session("ses", "an agent", "", UNSAMPLED)
    tracing.close()
    assert memory.get_finished_spans() == ()
    assert list(meters.tools.series) == [("Bash", "")]
    assert list(meters.starts.series) == [("true",)]
    assert list(meters.agents.series) == [()]


class Failing(InMemorySpanExporter):
    def export(self, _):
        return SpanExportResult.FAILURE


def test_spans_that_could_not_be_exported_are_counted():
    tracing = Tracing(Failing(), "1")
    for _ in range(3):
        with tracing.child("policy.evaluate"):
            pass
    assert tracing.dropped == {"queue": 0, "export": 0}
    tracing.close()
    assert tracing.dropped == {"queue": 0, "export": 3}


class Stuck(InMemorySpanExporter):
    """Takes a batch, and goes on with it when told."""

    def __init__(self):
        super().__init__()
        self.taken, self.go_on = threading.Event(), threading.Event()

    def export(self, spans):
        self.taken.set()
        self.go_on.wait(60)
        return super().export(spans)


def test_spans_that_the_queue_has_no_room_for_are_counted():
    exporter = Stuck()
    tracing = Tracing(exporter, "1")

    def end(count):
        for _ in range(count):
            with tracing.child("policy.evaluate"):
                pass

    end(512)  # a batch
    assert exporter.taken.wait(60)
    end(2048)
    assert tracing.dropped == {"queue": 0, "export": 0}
    end(5)
    assert tracing.dropped == {"queue": 5, "export": 0}
    exporter.go_on.set()
    tracing.close()
    assert len(exporter.get_finished_spans()) == 512 + 2048


def test_connections_are_counted_by_layer_and_what_became_of_them():
    meters = Meters()
    for state, count in (("allowed", 1), ("refused", 7), ("refused", 1)):
        meters.record(ConnectionRecord(time_us=1, state=state, layer="tls", count=count))
    meters.record(ConnectionRecord(time_us=1, state="refused", layer="packet", count=3))
    for number in range(1000):
        meters.record(ConnectionRecord(time_us=1, state=f"state-{number}", layer=f"layer-{number}"))
    assert meters.egress.series == {
        ("tls", "allowed"): 1,
        ("tls", "refused"): 8,
        ("packet", "refused"): 3,
        ("other", "other"): 1000,
    }
