"""The log as lines for other systems: all of it accounted for, by scope, masked, and ending where it is not intact."""

import json
import tracemalloc

import pytest

from opensafe.audit.export import Export, Format
from opensafe.audit.scope import Scope
from opensafe.audit.segment import segment_path
from opensafe.model.records import (
    Bundle,
    CandidateRecord,
    DaemonRecord,
    SessionRecord,
    TornRecord,
)
from tests.harness import ocsf as schema
from tests.harness.records import refusal
from tests.harness.state import NAME, State

KEY = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.fixture
def state(tmp_path):
    state = State(tmp_path / "state")
    state.record(DaemonRecord(time_us=1, state="started", version="1.2.3", bundles={}))
    candidate = Bundle(revision="r", digest="00")
    state.record(CandidateRecord(time_us=2, state="started", candidate=candidate, principal="op"))
    for number in range(1, 5):
        state.record(refusal(number, session=f"ses-{number % 2}"))
    state.sign()
    state.turn()
    state.record(refusal(5))
    return state


def exported(state, form=Format.OCSF, **scope):
    export = Export(state.path, form, Scope(**scope))
    return export, list(export.lines())


def test_each_record_is_a_line_or_counted(state):
    export, lines = exported(state)
    assert (export.records, len(lines), dict(export.unmapped)) == (7, 6, {"candidate": 1})
    assert export.broken is None
    events = [json.loads(line) for line in lines]
    assert [schema.faults(event) for event in events] == [[]] * 6
    assert [event["metadata"]["sequence"] for event in events] == [0, 2, 3, 4, 5, 6]
    assert {event["metadata"]["product"]["version"] for event in events} == {"1.2.3"}
    places = [event["unmapped"]["record"] for event in events]
    assert [place.get("checkpoint") for place in places] == [6, 6, 6, 6, 6, None]
    assert {place["chain"] for place in places} == {NAME}


def test_cef_has_the_same_lines(state):
    export, lines = exported(state, Format.CEF)
    assert len(lines) == 6
    assert dict(export.unmapped) == {"candidate": 1}
    assert all(line.startswith("CEF:0|OpenSafe|OpenSafe|1.2.3|") for line in lines)


def test_jsonl_has_every_record_as_it_is(state):
    export, lines = exported(state, Format.JSONL)
    assert (export.records, dict(export.unmapped)) == (7, {})
    written = segment_path(state.path, 0).read_text() + segment_path(state.path, 1).read_text()
    assert [json.loads(line)["record"] for line in lines] == [json.loads(line) for line in written.splitlines()]


@pytest.mark.parametrize(
    ("scope", "calls"),
    [
        ({"session": "ses-0"}, ["call-2", "call-4"]),
        ({"call": "call-3"}, ["call-3"]),
        ({"session": "ses-0", "call": "call-3"}, []),
        ({"since_us": 4_000_000}, ["call-4", "call-5"]),
    ],
)
def test_a_scope_takes_its_records_alone(state, scope, calls):
    export, lines = exported(state, **scope)
    assert [json.loads(line)["metadata"]["correlation_uid"] for line in lines] == calls
    assert (export.records, export.unmapped.total()) == (len(calls), 0)


def test_a_torn_line_belongs_to_the_whole_log_alone():
    torn = TornRecord(fragment_sha256="00")
    assert Scope().takes(torn)
    assert not any(scope.takes(torn) for scope in (Scope(session="s"), Scope(call="c"), Scope(since_us=1)))


@pytest.mark.parametrize("form", Format)
def test_a_secret_that_is_in_the_log_does_not_leave_with_it(state, form):
    state.record(refusal(6, message=f"login={KEY} refused"))
    export, lines = exported(state, form)
    assert KEY not in "".join(lines)
    assert "[masked:aws_key]" in lines[-1]
    assert dict(export.masked) == {"aws_key": 1}


@pytest.mark.parametrize("form", [Format.OCSF, Format.CEF])
def test_a_changed_record_ends_the_export_with_a_finding(state, form):
    path = segment_path(state.path, 0)
    path.write_text(path.read_text().replace("call-3", "call-8"))
    export, lines = exported(state, form)
    assert export.broken.index == 4
    assert len(lines) == 5  # the one that was changed shows by the one after it
    assert "The audit log is not intact" in lines[-1]
    if form is Format.OCSF:
        assert schema.faults(json.loads(lines[-1])) == []


def test_a_line_that_is_being_written_is_not_there_yet(state):
    path = segment_path(state.path, 1)
    state.append(path, path.read_bytes()[:100])
    export, lines = exported(state)
    assert export.broken is None
    assert len(lines) == 6


def test_memory_does_not_grow_with_the_log(state):
    session = SessionRecord(time_us=1, session_id="s", principal="agent", state="open")
    for _ in range(500):
        state.record(session)
    tracemalloc.start()
    for _ in Export(state.path, Format.OCSF, Scope()).lines():
        pass
    _, small = tracemalloc.get_traced_memory()
    for _ in range(4_500):
        state.record(session)
    tracemalloc.reset_peak()
    for _ in Export(state.path, Format.OCSF, Scope()).lines():
        pass
    _, large = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert large < small + (1 << 20)
