"""Spans of one call: `execute_tool {tool}` with children for policy, review and sandbox.

What happened is visible in the structure: a blocked call has a policy child only, a parked one a review child, an
executed one a sandbox child. Names carry no ids. Arguments and output are never captured. All calls of a session
share the session's trace unless the client sent a context of its own.
"""

import pathlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from opensafe.model.decision import Action, Decision
from opensafe.model.outcome import Outcome, OutcomeKind

from . import semconv
from .files import FileSpanExporter

_SPEC: Final = "https://opentelemetry.io/schemas/1.45.0"
_propagator = TraceContextTextMapPropagator()


class Ids:
    """Hexadecimal trace and span id of a span, as they stand in the audit log."""

    def __init__(self, span: Span) -> None:
        context = span.get_span_context()
        self.trace_id = trace.format_trace_id(context.trace_id)
        self.span_id = trace.format_span_id(context.span_id)


class Tracing:
    """Owns the tracer provider and its exporter thread; `close` flushes and ends both."""

    def __init__(self, exporter: SpanExporter, version: str) -> None:
        self._provider = TracerProvider(resource=Resource({"service.name": "opensafe", "service.version": version}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("opensafe", version, schema_url=_SPEC)
        self._sessions: dict[str, Span] = {}

    @classmethod
    def configured(cls, otlp_endpoint: str, directory: pathlib.Path, file_bytes: int, version: str) -> "Tracing":
        """To a collector where an endpoint is set, else to files in `directory`."""
        if otlp_endpoint:
            insecure = otlp_endpoint.startswith("http://")
            return cls(OTLPSpanExporter(endpoint=otlp_endpoint, insecure=insecure), version)
        return cls(FileSpanExporter(directory / "traces.jsonl", file_bytes), version)

    def close(self) -> None:
        """End the sessions' spans and write what is left, at most a few seconds."""
        for span in self._sessions.values():
            span.end()
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
        self._sessions[session_id] = span
        return Ids(span).trace_id

    def end_session(self, session_id: str) -> None:
        """End the session's span, if this process started it."""
        span = self._sessions.pop(session_id, None)
        if span is not None:
            span.end()

    @contextmanager
    def tool(
        self, tool: str, session_id: str, session_trace: str, call_id: str, carrier: Mapping[str, str]
    ) -> Iterator[Span]:
        """The span of one call, current inside the block."""
        context = self._context(session_id, session_trace, carrier)
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
            record_exception=False,
        ) as span:
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
            return trace.set_span_in_context(session, Context())
        # The session began before a restart: its span is gone, its trace goes on.
        remote = SpanContext(int(session_trace, 16), 1, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
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
