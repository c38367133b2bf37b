"""Envoy's question before it dials."""

import asyncio
import stat

import pytest

from opensafe._proto.envoy import external_auth_pb2
from opensafe.warden.protocol import LOG_SOCKET

from .envoy import GUEST, Envoy, Policy, http, tls

OK, DENIED = 0, 7


@pytest.fixture
async def envoy(tmp_path):
    async with Envoy(tmp_path, Policy("allowed.test")) as it:
        yield it


async def test_a_granted_sni_is_let_through_and_entered(envoy):
    assert (await envoy.tls("allowed.test")).status.code == OK
    (question,) = envoy.policy.asked
    assert (question.layer, question.source, question.name, question.sni, question.port) == (
        "tls",
        GUEST,
        "allowed.test",
        "allowed.test",
        443,
    )  # fmt: skip - one line a tuple
    (one,) = envoy.connections.snapshot()
    assert (one.sandbox_id, one.exec_id, one.name, one.source, one.source_port) == (
        "sbx-1",
        "exec-1",
        "allowed.test",
        GUEST,
        40000,
    )  # fmt: skip - one line a tuple


async def test_a_refused_sni_is_denied_without_a_body_and_not_entered(envoy):
    answer = await envoy.tls("denied.test")
    assert answer.status.code == DENIED
    assert not answer.HasField("denied_response")
    assert not len(envoy.connections)


async def test_a_granted_request_is_let_through(envoy):
    assert (await envoy.http("allowed.test", path="/a?token=1#x")).status.code == OK
    (question,) = envoy.policy.asked
    assert (question.layer, question.authority, question.port, question.method, question.path) == (
        "http",
        "allowed.test",
        80,
        "GET",
        "/a",
    )  # fmt: skip - one line a tuple


async def test_a_refused_request_is_told_rule_value_and_remedy(envoy):
    answer = await envoy.http("denied.test")
    assert answer.status.code == DENIED
    assert answer.denied_response.status.code == 403
    assert answer.denied_response.body == "egress.domain.allowlist: denied.test. Ask for a grant.\n"
    ((header),) = answer.denied_response.headers
    assert (header.header.key, header.header.value) == ("content-type", "text/plain")


async def test_g5_a_method_that_is_not_granted_is_refused_in_either_form(envoy):
    envoy.policy.methods = {"GET"}
    assert (await envoy.http("allowed.test", path="/x", method="POST")).status.code == DENIED
    assert (await envoy.http("allowed.test", path="http://allowed.test/x", method="POST")).status.code == DENIED
    assert (await envoy.http("allowed.test", path="http://allowed.test/x")).status.code == DENIED
    assert (await envoy.http("allowed.test", path="/x")).status.code == OK


async def test_g8_a_request_of_two_lengths_is_refused_and_one_of_one_passes(envoy):
    both = {"content-length": "3", "transfer-encoding": "chunked"}
    assert (await envoy.http("allowed.test", method="POST", headers=both)).status.code == DENIED
    assert (await envoy.http("allowed.test", method="POST", headers={"content-length": "3"})).status.code == OK


@pytest.mark.parametrize(
    "host",
    [
        "allowed.test,evil.test",
        "allowed.test, allowed.test",
        "a@allowed.test",
        "allowed.test@evil.test",
        "allowed.test\\evil.test",
        "allowed.test\t",
        "allowed.test#",
        "allowed.test%00",
        "allowed.test/",
        "",
        "allowed.test:",
        "allowed.test:80:80",
        "аllowed.test",
        "[::1]",
        "::1",
        "10.9.9.9",
        "10.9.9.9:80",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0x7f.1.",
        "a" * 300,
        "allowed.test:9001",
        "allowed.test:0",
        "allowed.test:99999",
        "allowed.test:443",
    ],
)  # fmt: skip - a table
async def test_nw19_b35_b36_b37_a_host_that_is_not_one_plain_name_is_refused_whatever_the_verdict(envoy, host):
    envoy.policy.gullible = True
    answer = await envoy.http(host)
    assert answer.status.code == DENIED
    assert envoy.policy.asked, "it was judged, so it is on record"
    assert answer.denied_response.body.isascii()
    assert not len(envoy.connections)


@pytest.mark.parametrize("host", ["allowed.test", "ALLOWED.test", "allowed.test.", "allowed.test:80"])
async def test_nw19_other_spellings_of_a_granted_host_pass_as_they_were_sent(envoy, host):
    assert (await envoy.http(host)).status.code == OK
    assert envoy.policy.asked[0].authority == host


@pytest.mark.parametrize("sni", ["", "10.9.9.9", "a@allowed.test", "allowed.test:443", "allowed.test,evil.test"])
async def test_nw19_an_sni_that_is_no_name_is_refused_whatever_the_verdict(envoy, sni):
    envoy.policy.gullible = True
    assert (await envoy.tls(sni)).status.code == DENIED
    assert not len(envoy.connections)


@pytest.mark.parametrize("name", ["notallowed.test", "x.allowed.test", "allowed.test.evil.test", "test"])
async def test_b38_a_name_that_only_resembles_the_granted_one_is_refused(envoy, name):
    assert (await envoy.tls(name)).status.code == DENIED
    assert (await envoy.http(name)).status.code == DENIED
    assert (await envoy.tls("allowed.test")).status.code == OK


@pytest.mark.parametrize("method", ["CONNECT", "", "X" * 100])
async def test_b30_what_asks_for_no_path_is_refused(envoy, method):
    path = "" if method == "CONNECT" else "/"
    assert (await envoy.http("allowed.test", method=method, path=path)).status.code == DENIED
    assert (await envoy.http("allowed.test", method="GET")).status.code == OK


async def test_a_check_without_a_source_is_refused_unasked(envoy):
    for source, port in (("", 40000), (GUEST, 0)):
        assert (await envoy.check(tls("allowed.test", port, source))).status.code == DENIED
    assert not envoy.policy.asked


async def test_an_empty_check_is_refused(envoy):
    assert (await envoy.check(type(tls("x"))())).status.code == DENIED


async def test_a_fault_is_a_refusal_and_the_next_check_is_answered(envoy):
    envoy.policy.broken = True
    answer = await envoy.http("allowed.test")
    assert (answer.status.code, answer.denied_response.status.code) == (DENIED, 403)
    envoy.policy.broken = False
    assert (await envoy.http("allowed.test")).status.code == OK


async def test_a_check_that_comes_too_late_is_not_entered(envoy):
    answer = envoy.authorizer.check(tls("allowed.test").SerializeToString(), 0.99)
    assert external_auth_pb2.CheckResponse.FromString(answer).status.code == DENIED
    assert not len(envoy.connections)
    assert not envoy.policy.asked
    (((question, why)),) = envoy.policy.refused
    assert (question.layer, question.source, question.name) == ("tls", GUEST, "allowed.test")
    assert "too late" in why


async def test_a_reason_of_hostile_text_is_a_short_line(envoy):
    answer = await envoy.http("a\r\nset-cookie: x\x00" + "й" * 5000)
    assert len(answer.denied_response.body) <= 1025
    assert answer.denied_response.body.count("\n") == 1
    assert answer.denied_response.body.isascii()


async def test_the_sandboxes_connections_are_capped_and_another_fits_when_one_has_ended(tmp_path):
    async with Envoy(tmp_path, Policy("allowed.test"), most=2) as envoy:
        assert [(await envoy.http("allowed.test", port)).status.code for port in (1, 2)] == [OK, OK]
        answer = await envoy.http("allowed.test", 3)
        assert "2 of 2" in answer.denied_response.body
        envoy.connections.leave(envoy.connections.find((GUEST, 1), 1))
        assert (await envoy.http("allowed.test", 3)).status.code == OK


async def test_requests_on_one_connection_count_as_one(tmp_path):
    async with Envoy(tmp_path, Policy("allowed.test"), most=1) as envoy:
        assert [(await envoy.http("allowed.test", start=n)).status.code for n in range(1, 5)] == [OK] * 4
        assert len(envoy.connections) == 1


async def test_many_checks_at_once_are_all_answered(envoy):
    answers = await asyncio.gather(*(envoy.check(http("allowed.test", port)) for port in range(1, 301)))
    assert {answer.status.code for answer in answers} == {OK}
    assert len(envoy.connections) == 300


async def test_only_the_group_may_connect(envoy):
    paths = (envoy.path, envoy.path.with_name(LOG_SOCKET))
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o660}
    await envoy.authorizer.stop()
    assert not any(path.exists() for path in paths)
