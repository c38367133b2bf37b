"""What was sent, while it is sent."""

import pytest

from opensafe.egress.judge import Question
from opensafe.model.usage import HostUse

from .envoy import GUEST, KIND, Envoy, Policy, call, http_entry, tcp_entry

OK, DENIED = 0, 7
MIB = 1 << 20


@pytest.fixture
async def envoy(tmp_path):
    async with Envoy(tmp_path, Policy("allowed.test", "other.test")) as it:
        yield it


def sent(envoy):
    return {one.name: (one.allowed, one.refused, one.sent, one.received) for one in envoy.accounting.hosts()}


async def test_cumulative_entries_are_added_once(envoy):
    await envoy.tls("allowed.test")
    await envoy.tls("denied.test", 2)
    periodic = KIND.TcpPeriodic
    await envoy.log(tcp_entry(periodic, 10, 1), tcp_entry(periodic, 30, 2), tcp_entry(KIND.TcpConnectionEnd, 35, 100))
    assert sent(envoy) == {"allowed.test": (1, 0, 35, 100), "denied.test": (0, 1, 0, 0)}


async def test_requests_of_one_connection_are_told_apart_though_their_log_is_late(envoy):
    await envoy.http("allowed.test", start=100)
    await envoy.http("other.test", start=200)
    end = KIND.DownstreamEnd
    await envoy.log(http_entry(end, 5, 50, start=100), http_entry(end, 7, 70, start=200))
    assert sent(envoy) == {"allowed.test": (1, 0, 5, 50), "other.test": (1, 0, 7, 70)}
    assert envoy.cuts == []


@pytest.mark.parametrize("layer", ["tls", "http"])
async def test_g19_nw24_an_upload_to_an_allowed_host_is_cut_at_the_sessions_limit(envoy, layer):
    envoy.calls[GUEST] = call(usage={"egress_bytes": 60 * MIB, "requests": 0}, limits={"egress_bytes": 100 * MIB})
    check, entry, kind = (
        (envoy.tls, tcp_entry, KIND.TcpPeriodic)
        if layer == "tls"
        else (envoy.http, http_entry, KIND.DownstreamPeriodic)
    )
    assert (await check("allowed.test")).status.code == OK
    await envoy.log(entry(kind, 50 * MIB))
    assert envoy.cuts == [(GUEST, 40000)]
    assert (await envoy.http("allowed.test", 2)).status.code == DENIED
    assert "egress.bytes.budget" in (await envoy.http("allowed.test", 3)).denied_response.body


async def test_g19_nw24_an_upload_within_the_limit_goes_on(envoy):
    envoy.calls[GUEST] = call(usage={"egress_bytes": 60 * MIB, "requests": 0}, limits={"egress_bytes": 100 * MIB})
    await envoy.tls("allowed.test")
    await envoy.log(tcp_entry(KIND.TcpPeriodic, 40 * MIB))
    assert envoy.cuts == []


async def test_g19_a_download_is_no_upload(envoy):
    envoy.calls[GUEST] = call(limits={"egress_bytes": 100})
    await envoy.tls("allowed.test")
    await envoy.log(tcp_entry(KIND.TcpPeriodic, 100, 200 * MIB))
    assert envoy.cuts == []


async def test_g19_the_bundles_ceiling_cuts_as_well(envoy):
    envoy.policy.bytes_ceiling = 100
    await envoy.tls("allowed.test")
    held = await envoy.log(tcp_entry(KIND.TcpPeriodic, 101), hold=True)
    await envoy.cut_once.wait()
    assert envoy.cuts == [(GUEST, 40000)]
    assert envoy.policy.asked[-1].bytes_sent == 101
    held.cancel()


async def test_g19_bytes_over_many_connections_add_up(envoy):
    envoy.calls[GUEST] = call(limits={"egress_bytes": 100})
    for port in range(1, 4):
        await envoy.tls("allowed.test", port)
    end = KIND.TcpConnectionEnd
    await envoy.log(*(tcp_entry(end, 40, port=port) for port in range(1, 4)))
    assert (await envoy.tls("allowed.test", 4)).status.code == DENIED


async def test_requests_are_counted_to_the_limit_and_no_further(envoy):
    envoy.calls[GUEST] = call(usage={"egress_bytes": 0, "requests": 3}, limits={"requests": 5})
    codes = [(await envoy.http("allowed.test", start=n)).status.code for n in range(1, 5)]
    assert codes == [OK, OK, DENIED, DENIED]
    await envoy.connections.recheck(envoy.policy)
    assert envoy.cuts == [], "the last that was allowed is not weighed against itself"


async def test_the_bundles_ceiling_on_requests_does_not_cut_the_last_that_it_allows(envoy):
    envoy.policy.requests_ceiling = 2
    assert [(await envoy.tls("allowed.test", port)).status.code for port in (1, 2, 3)] == [OK, OK, DENIED]
    await envoy.connections.recheck(envoy.policy)
    assert envoy.cuts == []


async def test_a_next_call_can_not_spend_what_an_earlier_one_did_though_the_record_lags(envoy):
    envoy.calls[GUEST] = call(limits={"egress_bytes": 100})
    await envoy.tls("allowed.test")
    await envoy.log(tcp_entry(KIND.TcpConnectionEnd, 90))
    await envoy.connections.ended("exec-1")
    envoy.calls[GUEST] = call("exec-2", usage={"egress_bytes": 0, "requests": 0}, limits={"egress_bytes": 80})
    assert (await envoy.tls("allowed.test", 2)).status.code == DENIED
    envoy.calls[GUEST] = call("exec-3", session="ses-2", limits={"egress_bytes": 80})
    assert (await envoy.tls("allowed.test", 3)).status.code == OK


async def test_what_the_decision_knew_is_not_counted_twice(envoy):
    envoy.calls[GUEST] = call(limits={"egress_bytes": 100})
    await envoy.tls("allowed.test")
    await envoy.log(tcp_entry(KIND.TcpConnectionEnd, 60))
    envoy.calls[GUEST] = call("exec-2", usage={"egress_bytes": 60, "requests": 1}, limits={"egress_bytes": 100})
    await envoy.tls("allowed.test", 2)
    await envoy.log(tcp_entry(KIND.TcpPeriodic, 40, port=2))
    assert envoy.cuts == []


async def test_hosts_of_a_sandbox_are_bounded(envoy):
    for number in range(400):
        envoy.accounting.allowed("sbx-1", f"{number}.test", None)
    assert len(envoy.accounting.hosts()) == 257
    assert sent(envoy)["other"][0] == 144


async def test_names_that_were_only_refused_leave_room_for_those_that_are_used(envoy):
    for number in range(400):
        envoy.accounting.refused("sbx-1", f"{number}.test")
    envoy.accounting.allowed("sbx-1", "used.test", None)
    assert len(envoy.accounting.hosts()) == 130
    assert (sent(envoy)["other"][1], sent(envoy)["used.test"][0]) == (272, 1)


async def test_entries_that_say_nothing_of_use_do_no_harm(envoy):
    await envoy.tls("allowed.test")
    await envoy.log(
        tcp_entry(KIND.NotSet, 5),
        tcp_entry(KIND.TcpPeriodic, 5, source=""),
        tcp_entry(KIND.TcpConnectionEnd, 5, port=9, source="10.201.0.9"),
        tcp_entry(KIND.TcpConnectionEnd, 4),
    )
    assert sent(envoy)["allowed.test"] == (1, 0, 4, 0)
    assert envoy.cuts == []


async def test_what_a_forgotten_connection_sent_counts_to_its_session(envoy):
    envoy.calls[GUEST] = call(limits={"egress_bytes": 100})
    await envoy.tls("allowed.test")
    end = KIND.TcpConnectionEnd
    await envoy.log(tcp_entry(end, 10), tcp_entry(end, 91, port=9))
    assert (await envoy.tls("allowed.test", 2)).status.code == DENIED


async def test_what_was_refused_before_a_dial_sent_nothing(envoy):
    envoy.calls[GUEST] = call(limits={"egress_bytes": 100})
    await envoy.tls("allowed.test")
    end = KIND.TcpConnectionEnd
    await envoy.log(tcp_entry(end, 10), tcp_entry(end, 91, port=9, dialled=""))
    assert (await envoy.tls("allowed.test", 2)).status.code == OK


@pytest.mark.parametrize(("received", "cuts"), [(40 * MIB, []), (40 * MIB + 1, [(GUEST, 40000)])])
async def test_g19_a_download_goes_on_to_the_sessions_limit_and_is_cut_beyond(envoy, received, cuts):
    envoy.calls[GUEST] = call(usage={"ingress_bytes": 60 * MIB}, limits={"ingress_bytes": 100 * MIB})
    await envoy.tls("allowed.test")
    await envoy.log(tcp_entry(KIND.TcpPeriodic, 1, 1), tcp_entry(KIND.TcpPeriodic, 1, received))
    assert envoy.cuts == cuts
    again = await envoy.http("allowed.test", 3)
    assert ("egress.ingress.budget" in again.denied_response.body) == bool(cuts)


async def test_what_was_cut_is_on_record_with_rule_and_reason(envoy):
    envoy.calls[GUEST] = call(limits={"ingress_bytes": 10})
    await envoy.tls("allowed.test")
    await envoy.log(tcp_entry(KIND.TcpPeriodic, 1, 11), tcp_entry(KIND.TcpConnectionEnd, 1, 12))
    (record,) = envoy.reported
    assert (record.state, record.rules, record.received) == ("cut", ("egress.ingress.budget",), 12)
    assert "11 of 10 ingress_bytes" in record.reason


async def test_a_question_has_its_connections_own_bytes_and_its_sessions_and_hosts_use(envoy):
    envoy.calls[GUEST] = call(usage={"egress_bytes": 100, "ingress_bytes": 200, "requests": 7})
    await envoy.tls("allowed.test")
    await envoy.tls("allowed.test", 2)
    await envoy.tls("other.test", 3)
    end, more = KIND.TcpConnectionEnd, KIND.TcpPeriodic
    first, now = (tcp_entry(end, 10, 20), tcp_entry(end, 1, 1, port=3)), tcp_entry(more, 3, 4, port=2)
    held = await envoy.log(*first, now, tcp_entry(more, 9, port=9), hold=True)
    await envoy.cut_once.wait()
    asked = envoy.policy.asked[-1]
    assert (asked.bytes_sent, asked.bytes_received) == (3, 4)
    assert (asked.requests, asked.session_sent, asked.session_received) == (9, 114, 225)
    assert (asked.host_requests, asked.host_sent, asked.host_received) == (1, 10, 20)
    held.cancel()


async def test_what_a_decision_saw_of_a_host_counts_once(envoy):
    hosts = {"allowed.test": HostUse(requests=5, egress_bytes=50, ingress_bytes=500)}
    envoy.calls[GUEST] = call(hosts=hosts)
    await envoy.tls("allowed.test")
    await envoy.log(tcp_entry(KIND.TcpConnectionEnd, 1, 2))
    envoy.calls[GUEST] = call("exec-2", hosts=hosts)
    await envoy.tls("ALLOWED.test.", 2)
    asked = envoy.policy.asked[-1]
    assert (asked.host_requests, asked.host_sent, asked.host_received) == (6, 51, 502)
    await envoy.tls("other.test", 3)
    assert envoy.policy.asked[-1].host_requests == 0


async def test_hosts_of_a_session_are_bounded_and_the_rest_shares_what_one_may_have(envoy):
    one = call()
    for number in range(400):
        envoy.accounting.allowed("sbx-1", f"{number}.test", one)
    asked = [Question(source=GUEST, layer="tls", name=f"{number}.test") for number in (3, 399, 400)]
    used = [envoy.accounting.charged(question, one).host_requests for question in asked]
    assert used == [1, 144, 144]
