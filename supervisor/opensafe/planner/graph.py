"""The graph: a node a state, an edge a transition of `table.py`, a span around each node.

Errors are handled here alone: a node raises what the client raises, and what that means is looked up (`faults.py`).
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Final, Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from opentelemetry.trace import Status, StatusCode

from opensafe.errors import OpenSafeError

from . import ending, gating, observing, planning
from .door import Door, StoppedError
from .faults import FATAL, TELL, kind_of
from .state import EndKind, RunState, Update, leave, stop
from .table import TRANSITIONS, State, Transition
from .tracing import span

Node = Callable[[RunState, Door], Awaitable[Update]]
Graph = CompiledStateGraph[RunState, Door, RunState, RunState]


class _Step(Protocol):
    """A node as LangGraph calls it."""

    def __call__(self, state: RunState, *, runtime: Runtime[Door]) -> Awaitable[Update]: ...


_NODES: Final[Mapping[State, Node]] = {
    State.PLAN: planning.plan,
    State.GATE: gating.gate,
    State.AWAIT_REVIEW: gating.await_review,
    State.EXECUTE: gating.execute,
    State.OBSERVE: observing.observe,
    State.RETRY: ending.retry,
    State.ABORT: ending.abort,
    State.DONE: ending.done,
}


def build(checkpointer: BaseCheckpointSaver[str] | None = None) -> Graph:
    """The compiled graph. Run it with a Door as context, `durability="sync"` and a thread_id for the run's id."""
    graph = StateGraph(RunState, context_schema=Door)
    for state, node in _NODES.items():
        graph.add_node(state.value, _step(state, node))
        ways: dict[Hashable, str] = {transition.value: str(target) for transition, target in TRANSITIONS[state].items()}
        graph.add_conditional_edges(state.value, _way, ways)
    graph.add_edge(START, State.PLAN.value)
    return graph.compile(checkpointer=checkpointer, name="opensafe-planner")


def diagram() -> str:
    """The graph as Mermaid text, drawn by LangGraph from what it runs."""
    return build().get_graph().draw_mermaid(with_styles=False)


def _way(state: RunState) -> str:
    return state["transition"]


def _step(name: State, work: Node) -> _Step:
    async def step(state: RunState, *, runtime: Runtime[Door]) -> Update:
        door = runtime.context
        with span(door.tracer, name, state) as told:
            update = await _leave(name, work, state, door)
            told.set_attributes(
                {
                    "opensafe.planner.transition": update["transition"],
                    "opensafe.planner.to": str(TRANSITIONS[name][Transition(update["transition"])]),
                }
            )
            if update["transition"] in (Transition.FAILED, Transition.STOP):
                told.set_status(Status(StatusCode.ERROR, update["line"]))
        return update

    return step


async def _leave(name: State, work: Node, state: RunState, door: Door) -> Update:
    """What a node comes to, also where it fails or the user stops it."""
    if name in (State.ABORT, State.DONE):
        return await work(state, door)
    try:
        if door.stop.asked.is_set():
            raise StoppedError
        return await door.stop.unless(work(state, door))
    except StoppedError:
        return stop(EndKind.STOPPED, door.stop.reason)
    except OpenSafeError as error:
        return _failed(name, state, error)


def _failed(name: State, state: RunState, error: OpenSafeError) -> Update:
    kind = kind_of(error, state)
    if kind == TELL and Transition.REFUSE in TRANSITIONS[name]:
        return ending.refused(error)
    if kind == TELL and name is State.EXECUTE:
        return {**ending.refused(error), "transition": Transition.ENDED.value}
    if kind in (FATAL, TELL):
        return stop(EndKind.FAILED, str(error))
    if name is State.RETRY:
        failures = state["failures"] + 1
        return leave(Transition.TRY_AGAIN, str(error), fault={"kind": kind, "text": str(error)}, failures=failures)
    return ending.failed(state, error, kind)
