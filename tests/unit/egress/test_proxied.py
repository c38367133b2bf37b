"""What the site's proxy did not do, as Envoy's reports tell it in any order."""

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from opensafe._proto.envoy import als_pb2
from opensafe.egress.accounting import Accounting
from opensafe.egress.connections import Connections
from opensafe.egress.judge import Answer, Question
from opensafe.egress.proxied import RULE, Failures

SOURCE = ("10.201.0.1", 40000)


async def nothing(*_):
    pass


@pytest.fixture
def connections():
    made = Connections(Accounting(), nothing, lambda _: None)
    for layer, port in (("tls", 40000), ("http", 40001)):
        question = Question(source=SOURCE[0], layer=layer, name="allowed.test", port=443 if layer == "tls" else 80)
        answer = Answer(allowed=True, name="allowed.test", exec_id="e", sandbox_id="s")
        made.enter((SOURCE[0], port), question, answer, None)
    return made


@pytest.fixture
def told():
    return []


@pytest.fixture
def failures(connections, told):
    return Failures(connections, told.append)


def second(source=SOURCE, **flags):
    common = als_pb2.AccessLogCommon(response_flags=als_pb2.ResponseFlags(**flags))
    common.filter_state_objects["opensafe.source"].Pack(StringValue(value=f"{source[0]}:{source[1]}"))
    return common


@pytest.mark.parametrize("first", ["guest's stage", "proxy's stage"])
def test_a_tunnel_that_failed_is_told_whichever_stage_is_heard_of_first(connections, failures, told, first):
    one = connections.at(SOURCE)
    if first == "proxy's stage":
        failures.tunnel(second(upstream_connection_failure=True))
    failures.ended(one, als_pb2.AccessLogCommon())
    connections.leave(one)
    if first == "guest's stage":
        failures.tunnel(second(upstream_connection_failure=True))
    assert [(each.state, each.sandbox_id, each.name, each.port, each.rules) for each in told] == [
        ("refused", "s", "allowed.test", 443, (RULE,))
    ]


@pytest.mark.parametrize("common", [
    second(), second(("10.201.0.9", 1), upstream_connection_failure=True), second(("", 0), no_healthy_upstream=True),
    second(("x", "y"), no_healthy_upstream=True), als_pb2.AccessLogCommon(),
])  # fmt: skip
def test_what_went_well_and_what_nobody_opened_is_not_told(failures, told, common):
    failures.tunnel(common)
    assert told == []


def test_a_request_is_told_by_its_flags_or_by_what_the_proxy_said(connections, failures, told):
    one = connections.at((SOURCE[0], 40001))
    failures.ended(one, als_pb2.AccessLogCommon())
    assert told == []
    absent = als_pb2.AccessLogCommon(response_flags=als_pb2.ResponseFlags(no_healthy_upstream=True))
    refused = als_pb2.AccessLogCommon()
    refused.metadata.filter_metadata["opensafe.proxy"].update({"refused": True})
    failures.ended(one, absent)
    failures.ended(one, refused)
    assert [each.reason.rpartition("proxy ")[2] for each in told] == [
        "is not there, or made no tunnel", "refused the request in its own name",
    ]  # fmt: skip


def leave(connections, failures, port):
    question = Question(source=SOURCE[0], layer="tls", name="allowed.test", port=443)
    connections.enter((SOURCE[0], port), question, Answer(allowed=True, name="allowed.test", sandbox_id="s"), None)
    one = connections.at((SOURCE[0], port))
    failures.ended(one, als_pb2.AccessLogCommon())
    connections.leave(one)


def test_tunnels_that_a_guest_left_unanswered_are_counted_until_they_end_or_envoy_gives_up(connections, told):
    now = [0]
    failures = Failures(connections, told.append, clock=lambda: now[0])
    for port in range(1, 129):
        assert failures.crowded("s") == ""
        leave(connections, failures, port)
    assert "128 tunnels" in failures.crowded("s")
    assert failures.crowded("another") == ""
    failures.tunnel(second((SOURCE[0], 7)))
    assert failures.crowded("s") == ""
    leave(connections, failures, 200)
    assert failures.crowded("s")
    now[0] = 611_000_000
    assert failures.crowded("s") == ""
    for port in range(1, 129):
        leave(connections, failures, port)
    failures.lost()
    assert failures.crowded("s") == ""


def test_tunnels_whose_second_stage_ended_first_are_none_that_were_left(connections, failures):
    for port in range(1, 300):
        question = Question(source=SOURCE[0], layer="tls", name="allowed.test", port=443)
        answer = Answer(allowed=True, name="allowed.test", sandbox_id="s")
        connections.enter((SOURCE[0], port), question, answer, None)
        failures.tunnel(second((SOURCE[0], port)))
        one = connections.at((SOURCE[0], port))
        failures.ended(one, als_pb2.AccessLogCommon())
        connections.leave(one)
    assert failures.crowded("s") == ""


def test_what_ends_in_envoy_has_no_such_second_stage(connections, told):
    failures = Failures(connections, told.append, terminated=["allowed.test"])
    for port in range(1, 300):
        leave(connections, failures, port)
    assert failures.crowded("s") == ""


def test_what_is_kept_of_halves_is_bounded(connections, failures):
    one = connections.at(SOURCE)
    for port in range(20_000):
        one.source = (SOURCE[0], port)
        failures.ended(one, als_pb2.AccessLogCommon())
    assert len(failures._left) == failures._count["s"] == 8192
