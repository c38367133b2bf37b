"""Connections on record: every field, what they use up, and that one let out must have been granted."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opensafe.audit.segment import segment_path
from opensafe.audit.verify import LEDGER, verify_state
from opensafe.control.connections import as_record
from opensafe.model import chain
from opensafe.model.connection import Connection, covers
from opensafe.model.decision import Action, Decision, Grant
from opensafe.model.facts import ClassTables
from opensafe.model.records import ConnectionRecord, SessionRecord
from opensafe.model.usage import HostUse, Usage
from opensafe.normalize.urls import HostClassifier
from opensafe.state.store import Store
from tests.harness.records import decision

HOST = "docs.python.org"
LABELS = st.lists(st.sampled_from(["a", "b", "io", "xa", "1"]), min_size=1, max_size=4).map(".".join)


def connection(state="allowed", **more):
    fields = {"layer": "tls", "name": HOST, "port": 443, "session_id": "ses-1", "call_id": "call-1"}
    place = {"decision_id": "dec-1", "sandbox_id": "sb-1"}
    return Connection(**{"time_us": 5, "state": state} | place | fields | more)


def granted(*network, action=Action.ALLOW):
    verdict = Decision(action=action, rules=(), grant=Grant(network=network), id="dec-1", data_version="r1")
    return decision(action, result=verdict)


def test_a_record_holds_all_that_was_told():
    told = connection("cut", sent=3, received=4, rules=("r",), reason="w", address="1.2.3.4", method="GET", count=2)
    record = as_record(told)
    assert msgspec.structs.asdict(record).items() >= msgspec.structs.asdict(told).items()
    assert msgspec.convert(msgspec.to_builtins(record), ConnectionRecord) == record


@pytest.mark.parametrize(("told", "used"), [
    (connection(), Usage(requests=1)),
    (connection(layer="dns", port=None), Usage()),
    (connection("refused", count=9), Usage()),
    (connection("ended", sent=7, received=9), Usage(egress_bytes=7, ingress_bytes=9)),
    (connection("cut", sent=7), Usage(egress_bytes=7)),
    (connection("cut", received=9), Usage(ingress_bytes=9)),
])  # fmt: skip
def test_budgets_hold_across_calls_and_restarts(tmp_path, told, used):
    store = Store(tmp_path / "index.sqlite")
    store.fold(0, SessionRecord(time_us=1, session_id="ses-1", principal="agent", state="open"))
    store.fold(1, as_record(told))
    store.close()
    store = Store(tmp_path / "index.sqlite")
    assert store.session("ses-1").usage == used
    assert store.history.principal_usage("agent", 6) == used
    store.close()


def test_what_a_session_used_with_each_host_is_kept_until_it_is_closed(tmp_path):
    store = Store(tmp_path / "index.sqlite")
    store.fold(0, SessionRecord(time_us=1, session_id="ses-1", principal="agent", state="open"))
    told = [connection(), connection("ended", sent=7, received=9), connection(name="nodejs.org")]
    for index, one in enumerate((*told, connection(session_id="ses-2"), connection("refused")), 1):
        store.fold(index, as_record(one))
    used = {HOST: HostUse(requests=1, egress_bytes=7, ingress_bytes=9), "nodejs.org": HostUse(requests=1)}
    assert store.history.host_usage("ses-1", (HOST, "nodejs.org")) == used
    assert store.history.host_usage("ses-2", (HOST,)) == {HOST: HostUse()}
    store.fold(6, SessionRecord(time_us=2, session_id="ses-1", principal="agent", state="closed"))
    store.fold(7, as_record(connection("cut", sent=5)))
    assert store.history.host_usage("ses-1", (HOST,)) == {HOST: HostUse()}
    store.close()


def findings(state, *records):
    lines, head = [], chain.Head()
    for record in records:
        sealed = chain.seal(head, msgspec.to_builtins(record))
        lines.append(sealed.line + b"\n")
        head = sealed.head
    log = segment_path(state, 0)
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(lines))
    (state / LEDGER).parent.mkdir(parents=True, exist_ok=True)
    (state / LEDGER).touch()
    return [(one.kind, one.index) for one in verify_state(state).findings]


@pytest.mark.parametrize("network", [(HOST,), ("*.python.org",), ("other.example", HOST)])
def test_what_was_granted_may_be_let_out(tmp_path, network):
    assert findings(tmp_path, granted(*network), as_record(connection())) == []


@pytest.mark.parametrize("network", [(), ("python.org",), (f"*.{HOST}",), ("s.python.org",)])
def test_what_was_not_is_found(tmp_path, network):
    assert findings(tmp_path, granted(*network), as_record(connection())) == [("connection_without_grant", 1)]


@pytest.mark.parametrize("changes", [
    {"decision_id": ""}, {"decision_id": "dec-2"}, {"session_id": "ses-2"}, {"sandbox_id": "sb-2"},
])  # fmt: skip
def test_what_no_decision_stands_for_is_found(tmp_path, changes):
    record = as_record(connection(**changes))
    assert findings(tmp_path, granted(HOST), record) == [("connection_without_grant", 1)]


def test_a_decision_that_does_not_allow_grants_nothing(tmp_path):
    record = as_record(connection())
    assert findings(tmp_path, granted(HOST, action=Action.BLOCK), record) == [("connection_without_grant", 1)]


def test_a_refused_one_needs_no_grant(tmp_path):
    assert findings(tmp_path, granted(), as_record(connection("refused"))) == []


@given(LABELS, LABELS, st.booleans())
def test_G13_the_verifier_and_the_judge_read_a_grant_alike(name, pattern, wild):
    pattern = f"*.{pattern}" if wild else pattern
    numeric = any(one.rpartition(".")[2].isdigit() for one in (name, pattern))
    read = HostClassifier(ClassTables(hosts={"granted": (pattern,)})).classify(name)
    assert numeric or covers((pattern,), name) == ("granted" in read)
