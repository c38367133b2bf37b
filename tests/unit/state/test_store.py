"""The index is a fold of the log: the same records give the same index, however often it is begun."""

import contextlib
import shutil
import sqlite3

import pytest

from opensafe.errors import AuditError, StaleIndex
from opensafe.model.calls import Principal
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.policy_input import CallInput, PolicyInput, SessionInput
from opensafe.model.records import (
    Bundle,
    DecisionRecord,
    OutcomeRecord,
    RefusalRecord,
    ReviewRecord,
    SandboxRecord,
    SessionRecord,
)
from opensafe.state.store import Store

SESSION = "ses-00000000000000000001"


def decision(call_id, action, **more):
    hit = RuleHit(id=f"rule.{action}", severity=Severity.LOW, action=action, reason="because")
    question = PolicyInput(
        id="dec-1",
        kind="call",
        call=CallInput(id=call_id, tool="Bash", arguments={"command": "x"}, digest="d" * 64),
        principal=Principal(name="agent"),
        session=SessionInput(id=SESSION),
    )
    fields = {"purpose": "call", "subject": "", "expires_us": 0, **more}
    return DecisionRecord(
        time_us=2,
        decision_id="dec-1",
        principal="agent",
        session_id=SESSION,
        call_id=call_id,
        sandbox_id="sb-1",
        exec_id="",
        bundles={"opensafe": Bundle(revision="1-a", digest="b")},
        path="opensafe/gate/bash",
        input=question,
        result=Decision(action=action, rules=(hit,), grant=Grant(), id="dec-1", data_version="v"),
        metrics={},
        trace_id="",
        span_id="",
        **fields,
    )  # fmt: skip - one record, read as a block


RECORDS = [
    SessionRecord(time_us=1, session_id=SESSION, principal="agent", state="open", agent="a", trace_id="0" * 32),
    SandboxRecord(
        time_us=1, sandbox_id="sb-1", session_id=SESSION, principal="agent", state="running", template="base"
    ),
    decision("allowed", Action.ALLOW),
    OutcomeRecord(
        time_us=3,
        decision_id="dec-1",
        session_id=SESSION,
        call_id="allowed",
        outcome=Outcome(kind=OutcomeKind.EXITED, exit_code=3),
    ),
    decision("blocked", Action.BLOCK),
    decision("parked", Action.REVIEW, review_id="rev-1", expires_us=9),
    RefusalRecord(time_us=4, principal="agent", session_id=SESSION, call_id="x", tool="y", reason="R", message="m"),
    decision("permit", Action.ALLOW, purpose="permit", permit="permit-1", expires_us=9),
    decision("query", Action.ALLOW, purpose="query"),
]  # fmt: skip - records, read as a table


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "index.sqlite")
    yield store
    store.close()


def fold(store, records=RECORDS):
    for index, record in enumerate(records):
        store.fold(index, record)


def picture(store):
    return (
        store.session(SESSION),
        store.sandboxes.live(),
        [store.call(SESSION, call_id) for call_id in ("allowed", "blocked", "parked", "permit", "query")],
        store.reviews(everything=True),
    )


def test_what_the_records_say_is_what_the_index_holds(store):
    fold(store)
    session = store.session(SESSION)
    assert session.usage.calls == 4
    assert (session.counts["allow"], session.counts["block"], session.counts["refused"]) == (3, 1, 1)
    assert store.call(SESSION, "allowed").outcome == Outcome(kind=OutcomeKind.EXITED, exit_code=3)
    assert store.call(SESSION, "blocked").outcome.kind is OutcomeKind.BLOCKED
    assert store.call(SESSION, "query") is None
    assert store.permit("permit-1").call_id == "permit"
    assert store.permit("") is None
    assert [row.call_id for row in store.unfinished()] == ["parked", "permit"]
    assert [row.review_id for row in store.reviews(everything=False)] == ["rev-1"]


@pytest.mark.parametrize("stop", range(len(RECORDS) + 1))
def test_folding_again_from_anywhere_changes_nothing(store, tmp_path, stop):
    fold(store, RECORDS[:stop])
    fold(store)  # as at a start that finds an index which is behind
    other = Store(tmp_path / "other.sqlite")
    fold(other)
    assert picture(store) == picture(other)
    other.close()


def killed(store, tmp_path):
    """What the next life finds of an index whose process was killed now."""
    for suffix in ("", "-wal"):
        shutil.copy(tmp_path / f"index.sqlite{suffix}", tmp_path / f"killed.sqlite{suffix}")
    return contextlib.closing(Store(tmp_path / "killed.sqlite"))


@pytest.mark.parametrize("more", [0, 1, 63, 64, 200])
def test_the_next_life_folds_what_a_killed_one_had_not_committed(store, tmp_path, more):
    refusal = RECORDS[6]
    records = [*RECORDS, *[refusal] * more]
    fold(store, records)
    with killed(store, tmp_path) as next_life:
        assert len(records) - 64 < next_life.folded <= len(records)
        fold(next_life, records)
        assert picture(next_life) == picture(store)
        assert next_life.tip == store.tip


def test_parked_arguments_outlive_a_kill_with_all_that_was_folded_before(store, tmp_path):
    fold(store)
    store.park("rev-1", b"bytes")
    with killed(store, tmp_path) as next_life:
        assert (next_life.parked("rev-1"), next_life.folded) == (b"bytes", len(RECORDS))


def test_what_a_fold_that_fails_had_begun_is_not_kept(store, tmp_path):
    fold(store)
    store.commit()
    store.fold(len(RECORDS), decision("later", Action.ALLOW))
    with pytest.raises(sqlite3.IntegrityError):
        store.fold(len(RECORDS) + 1, decision("again", Action.REVIEW, review_id="rev-1"))
    assert (store.call(SESSION, "later"), store.call(SESSION, "again"), store.folded) == (None, None, len(RECORDS))


def test_a_row_that_was_read_before_a_fold_is_read_again(store):
    fold(store)
    used = store.session(SESSION).usage.calls
    store.fold(len(RECORDS), decision("later", Action.ALLOW))
    assert store.session(SESSION).usage.calls == used + 1


def test_a_gap_is_refused(store):
    store.fold(0, RECORDS[0])
    with pytest.raises(AuditError, match="missing"):
        store.fold(2, RECORDS[2])


def test_a_decided_review_is_not_pending(store):
    fold(store)
    store.fold(
        len(RECORDS), ReviewRecord(time_us=5, review_id="rev-1", session_id=SESSION, call_id="parked", state="rejected")
    )
    assert store.reviews(everything=False) == []
    assert store.parked_calls() == 0


def test_an_index_of_another_version_is_not_used(tmp_path):
    store = Store(tmp_path / "index.sqlite")
    store._db.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(StaleIndex, match="another version"):
        Store(tmp_path / "index.sqlite")


def test_nobody_else_opens_an_index_in_use(store, tmp_path):
    fold(store)
    with (
        contextlib.closing(sqlite3.connect(tmp_path / "index.sqlite", timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("SELECT * FROM calls")


def test_parked_arguments_are_kept_until_they_are_taken(store):
    store.park("rev-1", b"\x00bytes")
    assert (store.parked("rev-1"), store.parked_bytes()) == (b"\x00bytes", 6)
    store.unpark("rev-1")
    assert (store.parked("rev-1"), store.parked_bytes()) == (None, 0)
