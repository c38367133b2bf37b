"""A span for each transition, in the session's trace.

The run's first span is made before its session, which is made within it, so that the daemon's spans and these are one
trace. Its context stands in the checkpoint: a run that goes on in another process goes on in the same trace.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from opensafe.client import trace_context

from .state import RunState
from .table import State

_propagator = TraceContextTextMapPropagator()


@contextmanager
def first_span(tracer: Tracer, run_id: str) -> Iterator[dict[str, str]]:
    """The span in which a run's session is made; its context, which is empty where nothing is traced."""
    with tracer.start_as_current_span("planner.begin", attributes={"opensafe.planner.run": run_id}):
        made: dict[str, str] = {}
        _propagator.inject(made)
        with trace_context(made):
            yield made


@contextmanager
def span(tracer: Tracer, name: State, state: RunState) -> Iterator[Span]:
    """The span of one stay in a state, current inside the block; the transition out of it is an attribute."""
    attributes: dict[str, str | int] = {
        "opensafe.planner.run": state["run_id"],
        "opensafe.planner.state": name.value,
        "opensafe.session.id": state["session_id"],
    }
    if state["queue"] and name is not State.PLAN:
        attributes["gen_ai.tool.call.id"] = state["queue"][0]["call_id"]
        attributes["gen_ai.tool.name"] = state["queue"][0]["tool"]
    context = _propagator.extract(state["trace"])
    with tracer.start_as_current_span(f"planner.{name.value}", context, attributes=attributes) as current:
        made: dict[str, str] = {}
        _propagator.inject(made)
        with trace_context(made):
            yield current
