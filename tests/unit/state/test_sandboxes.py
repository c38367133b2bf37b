"""Sandboxes that are gone cost nothing: what asks for the others finds them by an index that holds no others."""

import contextlib

import pytest

from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.records import OutcomeRecord, SandboxRecord
from opensafe.state.store import Store

from .test_store import RECORDS, SESSION, decision

QUESTIONS = {
    "live": lambda sandboxes: sandboxes.live(),
    "count": lambda sandboxes: sandboxes.count(),
    "of_session": lambda sandboxes: sandboxes.of_session(SESSION),
    "leased": lambda sandboxes: sandboxes.leased(),
}


@pytest.fixture
def store(tmp_path):
    with contextlib.closing(Store(tmp_path / "index.sqlite")) as store:
        for index, record in enumerate(RECORDS):
            store.fold(index, record)
        yield store


def plan(database, question):
    """How SQLite answers the only query that the question is."""
    asked: list[str] = []
    database.set_trace_callback(asked.append)
    question()
    database.set_trace_callback(None)
    (query,) = asked
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {query}")]


@pytest.mark.parametrize("name", QUESTIONS)
def test_sandboxes_that_are_there_are_found_by_an_index(store, name):
    steps = plan(store._db, lambda: QUESTIONS[name](store.sandboxes))
    assert any(step.startswith("SEARCH sandboxes USING") and "INDEX sandboxes_" in step for step in steps), steps
    assert not any(step.startswith("SCAN sandboxes") for step in steps)


def test_the_control_a_query_without_an_index_scans(store):
    steps = plan(store._db, lambda: store._db.execute("SELECT * FROM sandboxes WHERE cause = 'x'").fetchall())
    assert steps == ["SCAN sandboxes"]


@pytest.mark.parametrize(
    ("state", "counted", "leased", "of_session"),
    [("running", 1, 1, 1), ("paused", 1, 1, 1), ("deleting", 1, 0, 1), ("lost", 0, 0, 1), ("deleted", 0, 0, 0)],
)
def test_each_question_counts_its_states(store, state, counted, leased, of_session):
    record = SandboxRecord(time_us=9, sandbox_id="sb-1", session_id=SESSION, principal="agent", state=state)
    store.fold(len(RECORDS), record)
    sandboxes = store.sandboxes
    assert (sandboxes.count(), len(sandboxes.live())) == (counted, counted)
    assert (len(sandboxes.leased()), len(sandboxes.of_session(SESSION))) == (leased, of_session)


@pytest.mark.parametrize(("call_id", "active_us"), [("blocked", 2), ("allowed", 50)])
def test_only_the_end_of_a_call_that_was_allowed_is_activity(store, call_id, active_us):
    store.fold(len(RECORDS), decision("last", Action.ALLOW))
    assert store.sandboxes.get("sb-1").active_us == 2
    outcome = Outcome(kind=OutcomeKind.CANCELLED)
    record = OutcomeRecord(time_us=50, decision_id="dec-1", session_id=SESSION, call_id=call_id, outcome=outcome)
    store.fold(len(RECORDS) + 1, record)
    assert store.sandboxes.get("sb-1").active_us == active_us
