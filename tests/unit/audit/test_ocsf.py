"""Every kind of record as an OCSF event that the published schema accepts, or as none; and as a line of CEF."""

import json
import re
import typing

import msgspec
import pytest

from opensafe.audit import cef, ocsf
from opensafe.audit.ocsf_event import Place
from opensafe.model import records
from opensafe.model.decision import Action
from opensafe.model.outcome import NEVER_EXECUTED, Outcome, OutcomeKind
from opensafe.model.policy_input import RuntimeInput
from opensafe.model.usage import Usage
from tests.harness import ocsf as schema
from tests.harness.records import BUNDLE, TIME_US, decision

HOSTILE = "a|b=c\\d\r\ne\x00\u2028=\n|"
PLACE = Place(index=7, leaf="ab" * 32, prev="cd" * 32, chain="opensafe/0123", signed=9, version="1.2.3")


def outcome(kind=OutcomeKind.EXITED, **more):
    return records.OutcomeRecord(
        time_us=TIME_US,
        decision_id="dec-1",
        session_id="ses-1",
        call_id="call-1",
        outcome=Outcome(kind=kind, **more),
        trace_id="f" * 32,
    )


def review(state, **more):
    return records.ReviewRecord(
        time_us=TIME_US, review_id="rev-1", session_id="ses-1", call_id="call-1", state=state, **more
    )


def bundle(state, **more):
    return records.BundleRecord(time_us=TIME_US, state=state, digest="de" * 32, **more)


def sandbox(state, **more):
    return records.SandboxRecord(
        time_us=TIME_US, sandbox_id="sb-1", session_id="ses-1", principal="agent", state=state, **more
    )


RAN = {"run_ns": 5_000_000_000, "exit_code": 3}
CANDIDATE = records.CandidateRecord(time_us=TIME_US, state="started", candidate=BUNDLE, principal="agent")
SHADOW = records.ShadowRecord(
    time_us=TIME_US,
    decision_id="dec-1",
    session_id="ses-1",
    candidate=BUNDLE,
    enforced=Action.ALLOW,
    action=Action.BLOCK,
    rules=(),
)
REFUSAL = records.RefusalRecord(
    time_us=TIME_US,
    principal="agent",
    session_id="ses-1",
    call_id="call-1",
    tool="Bush",
    reason="UNKNOWN_TOOL",
    message="no such tool",
    count=3,
)


def connection(state, layer="tls", **more):
    called = {"sandbox_id": "sb-1", "call_id": "call-1", "session_id": "ses-1", "principal": "agent", "port": 443}
    return records.ConnectionRecord(
        **{"time_us": TIME_US, "state": state, "layer": layer, "name": "docs.python.org", **called, **more}
    )


PACKET = connection(
    "refused", "packet", name="", address="8.8.8.8", port=25, protocol="tcp", rules=("gateway.port.closed",), count=7
)
DNS = connection("refused", "dns", name="data.denied.test", port=None, rules=("egress.domain.allowlist",), reason="no")
ENDED = connection("ended", "http", port=80, sent=10, received=32, begun_us=TIME_US - 5_000_000, method="GET")
#: Record, class, activity, and what else its event has.
MAPPED = [
    (decision(), 6003, 99, {"action_id": 1, "disposition_id": 1, "status_id": 1, "severity_id": 1}),
    (decision(Action.BLOCK), 6003, 99, {"action_id": 2, "disposition_id": 2, "status_id": 2, "severity_id": 4}),
    (decision(Action.REVIEW), 6003, 99, {"action_id": 99, "action": "Review", "disposition_id": 14}),
    (decision(Action.BLOCK, "query"), 6003, 99, {"action_id": 3, "disposition_id": 17, "status_id": 1}),
    (decision(purpose="permit", tool="mail.send"), 6003, 99, {"action_id": 1}),
    (decision(purpose="sandbox", tool="", call_id=""), 6003, 1, {"action_id": 1}),
    (decision(tool="Read"), 6003, 2, {}),
    (decision(tool="Write"), 6003, 1, {}),
    (decision(tool="Move"), 6003, 3, {}),
    (decision(tool="Remove"), 6003, 4, {}),
    (
        decision(Action.BLOCK, "runtime", runtime=RuntimeInput(event="exec", path="/bin/nc")),
        2004,
        1,
        {"action_id": 2, "is_alert": True, "severity_id": 4},
    ),
    (outcome(**RAN), 1007, 2, {"exit_code": 3, "status_id": 2, "duration": 5000, "status_code": "exited"}),
    (outcome(run_ns=5, exit_code=0), 1007, 2, {"exit_code": 0, "status_id": 1}),
    (outcome(OutcomeKind.SIGNALLED, run_ns=5, signal=9), 1007, 2, {"status_id": 2}),
    (outcome(OutcomeKind.VIOLATION, run_ns=5, detail="nc"), 1007, 2, {"severity_id": 4, "status_detail": "nc"}),
    (outcome(OutcomeKind.LOST), 6003, 99, {"status_id": 2, "status_code": "lost"}),
    *((outcome(kind), 6003, 99, {"status_id": 2}) for kind in NEVER_EXECUTED),
    (REFUSAL, 6003, 99, {"action_id": 2, "disposition_id": 25, "status_code": "UNKNOWN_TOOL", "count": 3}),
    (msgspec.structs.replace(REFUSAL, reason="NOT_PERMITTED"), 6003, 99, {"disposition_id": 26}),
    (review("approved", decided_by="bob", digest="00"), 6003, 3, {"action_id": 1, "disposition_id": 8}),
    (review("rejected", decided_by="bob", reason="no"), 6003, 3, {"action_id": 2, "status_detail": "no"}),
    (review("expired"), 6003, 3, {"status_id": 1}),
    (records.BanRecord(time_us=TIME_US, principal="a", agent="x", state="banned", decided_by="bob"), 6003, 1, {}),
    (records.BanRecord(time_us=TIME_US, principal="a", agent="", state="lifted", decided_by="bob"), 6003, 4, {}),
    (records.SessionRecord(time_us=TIME_US, session_id="ses-1", principal="agent", state="open"), 6003, 1, {}),
    (records.SessionRecord(time_us=TIME_US, session_id="ses-1", principal="agent", state="closed"), 6003, 4, {}),
    (sandbox("running", template="base", image_digest="00"), 6003, 1, {"severity_id": 1}),
    (sandbox("paused"), 6003, 3, {}),
    (sandbox("deleted"), 6003, 4, {}),
    (sandbox("lost", cause="out of memory"), 6003, 4, {"status_id": 2, "status_detail": "out of memory"}),
    (
        records.UsageRecord(time_us=TIME_US, session_id="ses-1", principal="agent", usage=Usage(tokens=5)),
        6003,
        3,
        {"status_id": 1},
    ),
    (records.DaemonRecord(time_us=TIME_US, state="started", version="1.2.3", bundles={}), 6002, 3, {}),
    (records.DaemonRecord(time_us=TIME_US, state="stopped", version="1.2.3", bundles={}), 6002, 4, {}),
    (connection("allowed", rules=("egress.allow",), revision="r1"), 4001, 1, {"action_id": 1, "status_id": 1}),
    (connection("refused", rules=("egress.x",), reason="no"), 4001, 5, {"action_id": 2, "severity_id": 3}),
    (ENDED, 4001, 2, {"duration": 5000, "traffic": {"bytes_out": 10, "bytes_in": 32, "bytes": 42}}),
    (connection("cut", sent=1), 4001, 3, {"action_id": 1, "disposition_id": 21, "severity_id": 1}),
    (connection("cut", sent=1, rules=("egress.bytes.budget",)), 4001, 3, {"action_id": 2, "severity_id": 3}),
    (connection("allowed", "http", method="GET"), 4001, 6, {"app_protocol_name": "http"}),
    (connection("allowed", "tcp", name="db.test", port=5432), 4001, 1, {}),
    (PACKET, 4001, 5, {"action_id": 2, "disposition_id": 2, "count": 7, "status_id": 2}),
    (connection("refused", "packet", name="", port=None, protocol="132"), 4001, 5, {}),
    (connection("refused", "", name="", port=None, sandbox_id="", principal="", session_id=""), 4001, 5, {}),
    (connection("allowed", "dns", port=None), 4003, 6, {"rcode_id": 0, "status_id": 1, "action_id": 1}),
    (DNS, 4003, 6, {"rcode_id": 3, "action_id": 2, "status_detail": "no", "query": {"hostname": "data.denied.test"}}),
    (connection("refused", "dns", sandbox_id=""), 4003, 6, {"rcode_id": None}),
    (bundle("activated", number=3, revision="r1", key="00"), 5019, 1, {"state_id": 2, "status_id": 1}),
    (bundle("refused", reason="signature"), 5019, 1, {"state_id": 99, "status_id": 2, "status_detail": "signature"}),
]
UNMAPPED = [CANDIDATE, SHADOW, bundle("removed"), records.TornRecord(fragment_sha256="00")]


def event_of(record, place=PLACE, before=()):
    mapper = ocsf.Mapper()
    for one in before:
        mapper.event(one, place)
    return mapper.event(record, place)


@pytest.mark.parametrize(("record", "class_uid", "activity", "more"), MAPPED)
def test_a_record_becomes_an_event_of_the_published_schema(record, class_uid, activity, more):
    event = event_of(record)
    assert schema.faults(event) == []
    assert (event["class_uid"], event["activity_id"], event["time"]) == (class_uid, activity, TIME_US // 1000)
    assert {key: event.get(key) for key in more} == more
    assert event["metadata"]["uid"] == PLACE.leaf
    assert event["unmapped"]["record"] == {
        "index": 7,
        "leaf": PLACE.leaf,
        "prev": PLACE.prev,
        "chain": "opensafe/0123",
        "checkpoint": 9,
    }


@pytest.mark.parametrize("record", UNMAPPED)
def test_what_ocsf_has_no_class_for_becomes_none(record):
    assert event_of(record) is None


def test_each_kind_of_record_is_in_one_of_the_lists():
    assert {type(one) for one, *_ in MAPPED} | {type(one) for one in UNMAPPED} == set(typing.get_args(records.Record))


def test_a_place_of_which_little_is_known_makes_an_event_too():
    for record, *_ in MAPPED:
        event = event_of(record, Place(index=0, leaf="ab" * 32, prev="0" * 64))
        assert schema.faults(event) == []
        assert event["unmapped"]["record"] == {"index": 0, "leaf": "ab" * 32, "prev": "0" * 64}


def test_a_process_is_named_by_the_decision_before_it():
    process = event_of(outcome(**RAN), before=[decision()])["process"]
    assert process == {"uid": "ex-1", "name": "ls", "container": {"uid": "sb-1", "runtime": "runsc"}}
    assert event_of(outcome(**RAN))["process"] == {"uid": "call-1"}
    assert event_of(outcome(**RAN), before=[decision(Action.BLOCK)])["process"] == {"uid": "call-1"}


def test_events_of_a_call_share_its_id_and_trace():
    judged, ended = event_of(decision()), event_of(outcome(**RAN), before=[decision()])
    assert judged["metadata"]["correlation_uid"] == ended["metadata"]["correlation_uid"] == "call-1"
    assert judged["trace"]["uid"] == ended["unmapped"]["trace_id"] == "f" * 32
    assert judged["actor"]["session"] == ended["actor"]["session"] == {"uid": "ses-1"}


def test_a_verdict_names_its_rules_and_bundle():
    event = event_of(decision(Action.BLOCK))
    assert event["policy"] == {"name": "opensafe/gate/call", "uid": "de" * 32, "version": "r1", "is_applied": True}
    assert event["authorizations"] == [{"decision": "block", "policy": {"uid": "command.network", "desc": "why"}}]
    assert event["message"] == "Bash: block (command.network)"


def test_a_connection_leads_to_its_sandbox_call_and_rules():
    event = event_of(PACKET)
    assert event["src_endpoint"] == {"uid": "sb-1", "type_id": 6}
    assert event["dst_endpoint"] == {"ip": "8.8.8.8", "port": 25}
    assert event["connection_info"] == {
        "direction_id": 2,
        "protocol_name": "tcp",
        "protocol_num": 6,
        "protocol_ver_id": 4,
    }
    assert event["firewall_rule"] == {"uid": "gateway.port.closed", "type": "packet"}
    assert (event["actor"]["user"], event["actor"]["session"]) == ({"name": "agent"}, {"uid": "ses-1"})
    assert event["metadata"]["correlation_uid"] == "call-1"
    assert event["message"] == "packet 8.8.8.8:25: refused (gateway.port.closed)"
    allowed = event_of(connection("allowed", rules=("egress.allow",), revision="r1", address="nowhere"))
    assert allowed["policy"] == {"name": "opensafe/gate/egress", "version": "r1", "is_applied": True}
    assert allowed["authorizations"] == [{"decision": "allow", "policy": {"uid": "egress.allow"}}]
    assert allowed["dst_endpoint"] == {"hostname": "docs.python.org", "port": 443}


def test_a_connection_has_cefs_own_keys():
    _, extension = parsed(cef.line(event_of(ENDED)))
    wanted = {"shost": "sb-1", "dhost": "docs.python.org", "dpt": "80", "proto": "TCP", "app": "http", "out": "10"}
    wanted |= {"in": "32", "requestMethod": "GET", "cnt": "1", "suser": "agent", "end": str(TIME_US // 1000)}
    assert {key: extension.get(key) for key in wanted} == wanted
    _, extension = parsed(cef.line(event_of(DNS)))
    assert (extension["dhost"], extension["dpt"], extension["app"]) == ("data.denied.test", "53", "dns")
    _, extension = parsed(cef.line(event_of(PACKET)))
    assert (extension["dst"], extension["act"], extension["cnt"]) == ("8.8.8.8", "denied", "7")


@pytest.mark.parametrize("layer", ["dns", "tls", "packet", HOSTILE])
def test_what_a_guest_and_the_helper_write_about_a_connection_breaks_no_event(layer):
    texts = dict.fromkeys(("name", "address", "method", "reason", "protocol", "sandbox_id"), HOSTILE)
    event = event_of(connection("refused", layer, port=1 << 20, rules=(HOSTILE,), **texts))
    assert schema.faults(event) == []
    assert schema.faults(event_of(connection("refused", "packet", protocol="9" * 400))) == []
    assert len(cef.line(event).splitlines()) == 1


def test_a_broken_log_is_a_critical_finding():
    event = ocsf.broken(PLACE, "carries index 9", TIME_US)
    assert schema.faults(event) == []
    assert (event["class_uid"], event["severity_id"], event["is_alert"]) == (2004, 5, True)
    assert event["finding_info"]["desc"] == "record 7 carries index 9"


@pytest.mark.parametrize(
    "change",
    [
        lambda event: event.pop("actor"),
        lambda event: event.pop("severity_id"),
        lambda event: event.update(severity_id=9),
        lambda event: event.update(time="now"),
        lambda event: event.update(type_uid=1),
        lambda event: event.update(surprise=1),
        lambda event: event["metadata"].update(profiles=[]),
        lambda event: event["actor"].clear(),
        lambda event: event.update(resources={}),
        lambda event: event["policy"].update(is_applied="yes"),
        lambda event: event["src_endpoint"].update(ip="nowhere"),
        lambda event: event["src_endpoint"].update(port=1 << 16),
    ],
)
def test_the_schema_refuses_what_it_has_no_place_for(change):
    event = event_of(decision())
    change(event)
    assert schema.faults(event) != []


HEADER = re.compile(7 * r"((?:\\[\\|]|[^\\|])*)\|")
EXTENSION = re.compile(r"(\w+)=((?:\\[\\=rn]|[^\\=\r\n])*?)(?=\s\w+=|$)")


def parsed(line):
    """A line as a receiver reads it: header fields, and the extension's keys with their values."""
    header = HEADER.match(line)
    extension = EXTENSION.findall(line[header.end() :])
    assert " ".join(f"{key}={value}" for key, value in extension) == line[header.end() :], (
        "all of it is keys and values"
    )
    return list(header.groups()), dict(extension)


def test_a_line_of_cef_has_the_formats_header_and_keys():
    header, extension = parsed(cef.line(event_of(decision(Action.BLOCK))))
    assert header == ["CEF:0", "OpenSafe", "OpenSafe", "1.2.3", "6003:99", "Bash: block (command.network)", "8"]
    assert extension["rt"] == str(TIME_US // 1000)
    assert (extension["act"], extension["outcome"], extension["suser"]) == ("denied", "failure", "agent")
    assert (extension["externalId"], extension["cs1Label"], extension["cs1"]) == ("7", "leaf", PLACE.leaf)
    assert (extension["cs4Label"], extension["cs4"], extension["cs5"]) == ("rules", "command.network", "r1")
    assert json.loads(extension["msg"]) == {"command": "ls"}


@pytest.mark.parametrize("record", [one for one, *_ in MAPPED])
def test_each_event_has_a_line_of_cef(record):
    header, extension = parsed(cef.line(event_of(record)))
    assert len(header) == 7
    assert header[6].isdigit()
    assert extension["externalId"] == "7"


def test_hostile_text_ends_neither_line_nor_field():
    refusal = msgspec.structs.replace(REFUSAL, tool=HOSTILE, message=HOSTILE, call_id=HOSTILE, principal=HOSTILE)
    line = cef.line(event_of(refusal))
    assert len(line.splitlines()) == 1
    header, extension = parsed(line)
    assert header[5] == "a\\|b=c\\\\d  e??= \\|: refused, UNKNOWN_TOOL"
    assert header[6] == "6"
    assert extension["reason"] == extension["suser"] == extension["cs3"] == "a|b\\=c\\\\d\\r\\ne??\\=\\n|"
    assert extension["act"] == "denied"


def test_a_long_value_is_cut_before_it_is_escaped():
    refusal = msgspec.structs.replace(REFUSAL, message="=" * 5000)
    _, extension = parsed(cef.line(event_of(refusal)))
    assert extension["reason"] == "\\=" * 1023
