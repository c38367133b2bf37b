"""The graph is the table, and the guide shows the graph."""

import pathlib
import re

from opensafe.planner import TRANSITIONS, State, build, diagram

GUIDE = pathlib.Path(__file__).resolve().parents[3] / "docs/guides/planner.md"


def test_every_transition_of_the_table_is_an_edge_of_the_compiled_graph_and_no_other():
    drawn = {(edge.source, edge.data, edge.target) for edge in build().get_graph().edges if edge.conditional}
    assert drawn == {
        (state.value, transition.value, str(target))
        for state, ways in TRANSITIONS.items()
        for transition, target in ways.items()
    }


def test_the_states_are_those_of_the_table():
    assert set(build().get_graph().nodes) == {state.value for state in State} | {"__start__", "__end__"}


def test_every_state_can_be_reached_and_leads_to_the_end():
    def reach(state, seen):
        for target in TRANSITIONS.get(state, {}).values():
            if target not in seen:
                seen.add(str(target))
                reach(target, seen)
        return seen

    assert reach(State.PLAN, {"plan"}) == {state.value for state in State} | {"__end__"}
    assert all("__end__" in reach(state, set()) for state in State)


def test_the_guide_shows_the_diagram_of_the_code():
    (shown,) = re.findall(r"```mermaid\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert shown.strip() == diagram().strip()
