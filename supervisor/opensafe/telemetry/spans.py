"""Spans of one call: `execute_tool {tool}` with children for policy, review and sandbox.

What happened is visible in the structure: a blocked call has a policy child only, a parked one `review.park` beside it,
an executed one `sandbox.exec`, or `file.VERB` where a file tool ran, with its connections below (egress_spans.py).
What became of a parked call is a span of its own with `review.wait` in it, which begins when the call was parked: one
that waited for all that time would be lost with the daemon. Names carry no ids, and arguments and output are captured
only where the site asks for it (content.py). All calls of a session share the session's trace unless the client sent a
context of its own.
"""

import pathlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from opensafe.model.decision import Action, Decision
from opensafe.model.outcome import Outcome, OutcomeKind

from . import semconv
from .egress_spans import EgressSpans
from .files import FileSpanExporter
from .meters import Meters
from .processor import COUNTED, NONE, SAMPLER, Processor

_SPEC: Final = "https://opentelemetry.io/schemas/1.45.0"
_propagator = TraceContextTextMapPropagator()


class Ids:
    """Hexadecimal trace and span id of a span, as they stand in the audit log."""

    def __init__(self, span: Span) -> None:
        context = span.get_span_context()
        self.trace_id = trace.format_trace_id(context.trace_id)
        self.span_id = trace.format_span_id(context.span_id)


@dataclass(frozen=True, slots=True)
class Waited:
    """A review that is over: which, since when the call was parked, and what it came to."""

    review_id: str
    since_us: int
    state: str


@dataclass(slots=True)
class _Session:
    """A session's span, and what its client declared so far. Tokens read and written: of reports that told them."""

    span: Span
    tokens: int = 0
    read: int = 0
    written: int = 0
    cost_microusd: int = 0


class Tracing:
    """Owns the tracer provider and its exporter thread; `close` flushes and ends both."""

    def __init__(
        self,
        exporter: SpanExporter,
        version: str,
        *,
        traces: bool = True,
        capture_content: bool = False,
        meters: Meters | None = None,
    ) -> None:
        """meters: counts what ends. traces: whether it is exported as well."""
        sampler = SAMPLER if traces else COUNTED if meters is not None else NONE
        self.capture_content = capture_content
        self._provider = TracerProvider(
            sampler=sampler, resource=Resource({"service.name": "opensafe", "service.version": version})
        )
        self._processor = Processor(exporter, meters or Meters())
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("opensafe", version, schema_url=_SPEC)
        self._sessions: dict[str, _Session] = {}
        self.egress = EgressSpans(self._tracer)

    @classmethod
    def configured(
        cls,
        otlp_endpoint: str,
        directory: pathlib.Path,
        file_bytes: int,
        version: str,
        *,
        traces: bool = True,
        capture_content: bool = False,
        meters: Meters | None = None,
    ) -> "Tracing":
        """To a collector where an endpoint is set, else to files in `directory`."""
        exporter: SpanExporter = FileSpanExporter(directory / "traces.jsonl", file_bytes)
        if otlp_endpoint:
            # Here, since most daemons write files, and would read 80 modules for nothing at each start.
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter(endpoint=otlp_endpoint, insecure=otlp_endpoint.startswith("http://"))
        return cls(exporter, version, traces=traces, capture_content=capture_content, meters=meters)

    @property
    def dropped(self) -> dict[str, int]:
        """Spans that nobody will see, by reason."""
        return self._processor.dropped

    def close(self) -> None:
        """End the sessions' spans and write what is left, at most a few seconds."""
        self.egress.close()
        for session in self._sessions.values():
            session.span.end()
        self._sessions.clear()
        self._provider.shutdown()

    def begin_session(self, session_id: str, agent: str, conversation_id: str, carrier: Mapping[str, str]) -> str:
        """Start the `invoke_agent` span that the session's calls stand under; returns its trace id."""
        span = self._tracer.start_span(
            f"{semconv.INVOKE_AGENT} {agent}",
            context=_propagator.extract(carrier),
            kind=SpanKind.INTERNAL,
            attributes={
                semconv.OPERATION_NAME: semconv.INVOKE_AGENT,
                semconv.AGENT_NAME: agent,
                semconv.CONVERSATION_ID: conversation_id,
                semconv.SESSION_ID: session_id,
            },
        )
        self._sessions[session_id] = _Session(span)
        self.egress.begin(session_id, span)
        return Ids(span).trace_id

    def end_session(self, session_id: str) -> None:
        """End the session's span, if this process started it."""
        session = self._sessions.pop(session_id, None)
        self.egress.end(session_id)
        if session is not None:
            session.span.end()

    def add_usage(self, session_id: str, tokens: int, written: int | None, cost_microusd: int) -> None:
        """Add what a client declared to the totals on its session's span, if this process started it.

        written: how many of the tokens the model wrote, where the client told it; the rest it read.
        """
        session = self._sessions.get(session_id)
        if session is None:
            return
        session.tokens += tokens
        session.cost_microusd += cost_microusd
        session.span.set_attributes({semconv.TOKENS: session.tokens, semconv.COST: session.cost_microusd})
        if written is not None:
            session.read += tokens - written
            session.written += written
            session.span.set_attributes({semconv.INPUT_TOKENS: session.read, semconv.OUTPUT_TOKENS: session.written})

    @contextmanager
    def tool(
        self,
        tool: str,
        session_id: str,
        session_trace: str,
        call_id: str,
        carrier: Mapping[str, str],
        waited: Waited | None = None,
    ) -> Iterator[Span]:
        """The span of one call, current inside the block. waited: it goes on, or ends, after that review."""
        context = self._context(session_id, session_trace, carrier)
        now = time.time_ns()
        begun = min(waited.since_us * 1000, now) if waited is not None else now
        with self._tracer.start_as_current_span(
            f"{semconv.EXECUTE_TOOL} {tool}",
            context=context,
            kind=SpanKind.INTERNAL,
            attributes={
                semconv.OPERATION_NAME: semconv.EXECUTE_TOOL,
                semconv.TOOL_NAME: tool,
                semconv.TOOL_CALL_ID: call_id,
                semconv.TOOL_TYPE: "function",
                semconv.SESSION_ID: session_id,
            },
            start_time=begun,
            record_exception=False,
        ) as span:
            if waited is not None:
                told = {semconv.REVIEW_ID: waited.review_id, semconv.REVIEW_STATE: waited.state}
                self._tracer.start_span(semconv.SPAN_WAIT, attributes=told, start_time=begun).end(now)
            yield span

    @contextmanager
    def child(self, name: str, **attributes: str) -> Iterator[Span]:
        """A child of the current span, with at least one attribute."""
        named = {key.replace("__", "."): value for key, value in attributes.items()}
        with self._tracer.start_as_current_span(name, attributes=named, record_exception=False) as span:
            yield span

    def _context(self, session_id: str, session_trace: str, carrier: Mapping[str, str]) -> Context:
        own = _propagator.extract(carrier)
        if trace.get_current_span(own).get_span_context().is_valid:
            return own
        session = self._sessions.get(session_id)
        if session is not None:
            return trace.set_span_in_context(session.span, Context())
        # The session began before a restart: its span is gone, its trace goes on.
        remote = SpanContext(
            int(session_trace or "0", 16), 1, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
        )
        return trace.set_span_in_context(NonRecordingSpan(remote), Context())


def describe_decision(span: Span, decision: Decision, decision_id: str, revision: str) -> None:
    """Put a verdict on the policy span. A denial is an expected result: the span's status stays unset."""
    span.set_attributes(
        {
            semconv.DECISION_ID: decision_id,
            semconv.ACTION: str(decision.action),
            semconv.RULES: [hit.id for hit in decision.deciding()],
            semconv.BUNDLE_REVISION: revision,
        }
    )
    if decision.action is not Action.ALLOW and decision.deciding():
        span.set_attribute(semconv.SECURITY_RULE_NAME, decision.deciding()[0].id)


def describe_outcome(span: Span, outcome: Outcome) -> None:
    """Put a call's end on its span: an error unless it exited with 0 or waits for a reviewer."""
    span.set_attribute(semconv.OUTCOME, str(outcome.kind))
    if outcome.truncated:
        span.set_attribute(semconv.TRUNCATED, True)
    if outcome.exit_code is not None:
        span.set_attribute(semconv.PROCESS_EXIT_CODE, outcome.exit_code)
    if outcome.kind is OutcomeKind.VIOLATION:
        span.add_event(semconv.EVENT_VIOLATION, {semconv.DETAIL: outcome.detail})
    if outcome.exit_code == 0 or outcome.kind is OutcomeKind.REVIEW_PENDING:
        return
    error = "policy_denied" if outcome.kind is OutcomeKind.BLOCKED else str(outcome.kind)
    span.set_attribute(semconv.ERROR_TYPE, error)
    span.set_status(Status(StatusCode.ERROR))
