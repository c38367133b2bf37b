"""Requests in TLS that ends in the gateway: judged under the connection that they came in, and no other."""

import base64

import pytest

from opensafe.egress import connections
from opensafe.egress.authz import Authorizer
from opensafe.egress.credentials import MISPLACED, PUT, Credentials
from opensafe.model.termination import Credential

from .envoy import GUEST, KIND, Envoy, Policy, http, http_entry, tcp_entry, tls

OK, DENIED = 0, 7
API, FREE = "api.test", "free.test"
SECRET = "s3cr3t-of-this-test"
NAME = "opensafe-credential-hub"


def inside(host, sni=API, **fields):
    request = http(host, **fields)
    request.attributes.context_extensions["opensafe"] = "terminated"
    request.attributes.tls_session.sni = sni.encode()
    return request


@pytest.fixture
async def envoy(tmp_path):
    made = Envoy(tmp_path, Policy(API, FREE))
    held = Credentials([Credential(name="hub", host=API, header="authorization", secret=SECRET.encode())])
    made.authorizer = Authorizer(
        made.path,
        made.policy,
        made.connections,
        made.accounting,
        made._call_at,
        terminated=[API, FREE],
        credentials=held,
    )
    async with made as it:
        held = await it.log(tcp_entry(KIND.TcpPeriodic, port=9), hold=True)  # while a stream is open, Envoy is there
        await it.cut_once.wait()
        it.cuts.clear()
        yield it
        held.cancel()


async def test_a_request_is_asked_about_as_what_it_is(envoy):
    await envoy.tls(API)
    assert (await envoy.check(inside(f"{API}:443", path="/v1/%40x?token=1", method="POST"))).status.code == OK
    asked = envoy.policy.asked[-1]
    assert (asked.layer, asked.name, asked.sni, asked.authority) == ("http", API, API, f"{API}:443")
    assert (asked.port, asked.method, asked.path, asked.credential) == (443, "POST", "/v1/@x", "")
    assert len(envoy.connections) == 1


async def test_it_needs_the_connection_that_was_allowed_for_its_host(envoy):
    assert (await envoy.check(inside(API))).status.code == DENIED  # none was
    await envoy.tls(FREE)
    answer = await envoy.check(inside(API))
    assert answer.status.code == DENIED
    assert "not opened for this host" in answer.denied_response.body
    assert (await envoy.check(inside(FREE, FREE))).status.code == OK


async def test_and_a_port_that_is_served(envoy):
    await envoy.tls(API)
    assert (await envoy.check(inside(f"{API}:80"))).status.code == DENIED
    assert (await envoy.check(inside(f"{API}:8443"))).status.code == DENIED
    assert (await envoy.http(f"{API}:443", port=40001)).status.code == DENIED  # plain


@pytest.mark.parametrize("sni", [f"{API}.", API.upper()])
async def test_a_terminated_name_is_asked_for_as_it_is_written_alone(envoy, sni):
    assert (await envoy.tls(sni)).status.code == DENIED
    assert len(envoy.connections) == 0
    assert (await envoy.tls(API)).status.code == OK


async def test_the_secret_is_in_the_answer_to_envoy_and_what_is_to_be_masked_beside_it(envoy):
    await envoy.tls(API)
    pair = base64.b64encode(f"me:{NAME}".encode()).decode()
    sent = base64.b64encode(f"me:{SECRET}".encode()).decode()
    for start, (value, want, secrets) in enumerate(
        ((f"Bearer {NAME}", f"Bearer {SECRET}", [SECRET]), (f"Basic {pair}", f"Basic {sent}", [SECRET, sent])), 1
    ):
        answer = await envoy.check(inside(API, headers={"authorization": value}, start=start))
        assert answer.status.code == OK
        put = {one.header.key: (one.header.value, one.append_action) for one in answer.ok_response.headers}
        assert put == {"authorization": (want, 2), "accept-encoding": ("identity", 2)}
        assert set(secrets) <= set(answer.dynamic_metadata["secrets"])
        assert envoy.policy.asked[-1].credential == PUT
    assert SECRET not in repr(envoy.policy.asked)
    assert SECRET not in repr(envoy.reported)


async def test_without_a_placeholder_nothing_is_changed(envoy):
    await envoy.tls(API)
    answer = await envoy.check(inside(API, headers={"authorization": "Bearer own"}))
    assert not answer.ok_response.headers
    assert not answer.dynamic_metadata.fields


async def test_nothing_is_put_into_what_policy_refuses_or_what_comes_in_the_clear(envoy):
    await envoy.tls(API)
    headers = {"authorization": f"Bearer {NAME}"}
    envoy.policy.methods = {"GET"}
    refused = await envoy.check(inside(API, method="POST", headers=headers))
    assert refused.status.code == DENIED
    plain = await envoy.http(API, port=40001, headers=headers)
    other = await envoy.check(inside(FREE, FREE, headers=headers, port=40002))
    for answer in (refused, plain, other):
        assert SECRET not in str(answer)
    assert [one.credential for one in envoy.policy.asked[-2:]] == [MISPLACED, MISPLACED]


async def test_bytes_are_counted_once_and_the_record_says_what_was_dialled(envoy):
    await envoy.tls(API)
    await envoy.check(inside(API, start=5))
    end = http_entry(KIND.DownstreamEnd, sent=100, received=200, start=5, dialled="198.51.100.9")
    await envoy.log(end, name="terminated")
    await envoy.log(tcp_entry(KIND.TcpConnectionEnd, sent=700, received=800, start=0, dialled=""))
    (ended,) = envoy.reported
    assert (ended.layer, ended.sent, ended.received, ended.address) == ("tls", 700, 800, "198.51.100.9")


async def test_a_request_that_nobody_allowed_is_cut(envoy):
    await envoy.tls(API)
    await envoy.check(inside(API, start=5))
    await envoy.log(http_entry(KIND.DownstreamPeriodic, start=5), name="terminated")
    assert envoy.cuts == []
    await envoy.log(http_entry(KIND.DownstreamPeriodic, start=6), name="terminated")
    assert envoy.cuts == [(GUEST, 40000)]


async def test_a_change_of_policy_cuts_the_connection_for_a_request_under_way(envoy):
    await envoy.tls(API)
    await envoy.check(inside(API, method="POST", start=5))
    await envoy.check(inside(API, method="GET", start=6))
    await envoy.connections.recheck(envoy.policy)
    assert envoy.cuts == []
    await envoy.log(http_entry(KIND.DownstreamEnd, start=6), name="terminated")
    envoy.policy.methods = {"GET"}
    await envoy.connections.recheck(envoy.policy)
    assert envoy.cuts == [(GUEST, 40000)]


async def test_one_that_has_ended_is_no_reason(envoy):
    await envoy.tls(API)
    await envoy.check(inside(API, method="POST", start=5))
    await envoy.log(http_entry(KIND.DownstreamEnd, start=5), name="terminated")
    envoy.policy.methods = {"GET"}
    await envoy.connections.recheck(envoy.policy)
    assert envoy.cuts == []


async def test_requests_of_one_connection_are_bounded(envoy):
    await envoy.check(tls(API))
    answers = [await envoy.check(inside(API, start=start)) for start in range(1, 514)]
    assert [one.status.code for one in answers].count(OK) == 512
    assert answers[-1].status.code == DENIED


async def test_requests_of_all_connections_of_a_sandbox_are_bounded_together(envoy, monkeypatch):
    """Each may need a connection of its own to the server, of which all sandboxes have so many together."""
    monkeypatch.setattr(connections, "_INSIDE", 3)
    for port in (1, 2):
        await envoy.tls(API, port)
    asked = [await envoy.check(inside(API, port=port, start=start)) for port in (1, 2) for start in (1, 2)]
    assert [one.status.code for one in asked] == [OK, OK, OK, DENIED]
    assert "3 of 3" in asked[-1].denied_response.body
    await envoy.log(http_entry(KIND.DownstreamEnd, port=1, start=1), name="terminated")
    assert (await envoy.check(inside(API, port=2, start=2))).status.code == OK
    await envoy.log(tcp_entry(KIND.TcpConnectionEnd, port=2))
    again = [(await envoy.check(inside(API, port=1, start=start))).status.code for start in (3, 4, 5)]
    assert again == [OK, OK, DENIED]
