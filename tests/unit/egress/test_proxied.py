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


def test_a_tunnel_that_failed_is_told_whichever_stage_is_heard_of_first(connections, failures, told):
    failures.tunnel(second(upstream_connection_failure=True))
    one = connections.at(SOURCE)
    failures.ended(one, als_pb2.AccessLogCommon())
    connections.leave(one)
    failures.tunnel(second(upstream_connection_failure=True))
    assert [(each.state, each.sandbox_id, each.name, each.port, each.rules) for each in told] == [
        ("refused", "s", "allowed.test", 443, (RULE,))
    ] * 2


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


def test_what_is_kept_of_ended_ones_is_bounded(connections, failures, told):
    one = connections.at(SOURCE)
    for port in range(5000):
        failures.ended(one, als_pb2.AccessLogCommon())
        one.source = (SOURCE[0], port)
    assert len(failures._ended) == 1024
    assert told == []
