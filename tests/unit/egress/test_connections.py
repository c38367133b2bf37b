"""What is open when the rules change."""

import pytest

from opensafe.egress import connections

from .envoy import GUEST, KIND, Envoy, Policy, call, http_entry, tcp_entry

OK, DENIED = 0, 7


@pytest.fixture
async def envoy(tmp_path):
    async with Envoy(tmp_path, Policy("allowed.test", "other.test")) as it:
        yield it


async def test_nw30_an_open_tunnel_is_cut_when_its_host_is_removed_and_the_other_goes_on(envoy):
    await envoy.tls("allowed.test", 1)
    await envoy.tls("other.test", 2)
    envoy.policy.names = {"other.test"}
    await envoy.connections.recheck(envoy.policy)
    assert envoy.cuts == [(GUEST, 1)]
    assert all(question.again for question in envoy.policy.asked[2:]), "no second allow goes on record"


async def test_nw30_nothing_is_cut_where_the_new_policy_allows_it_still(envoy):
    await envoy.tls("allowed.test", 1)
    await envoy.connections.recheck(envoy.policy)
    assert envoy.cuts == []


async def test_nw30_a_second_sweep_finds_what_was_let_in_meanwhile(envoy):
    await envoy.connections.recheck(envoy.policy)
    await envoy.tls("allowed.test", 1)
    envoy.policy.names = set()
    envoy.swept.set()
    await envoy.cut_once.wait()
    assert envoy.cuts == [(GUEST, 1)]


async def test_what_could_not_be_cut_is_tried_again(envoy):
    await envoy.tls("allowed.test", 1)
    envoy.policy.names = set()
    envoy.cut_fails = True
    await envoy.connections.recheck(envoy.policy)
    assert len(envoy.connections) == 1
    envoy.cut_fails = False
    envoy.swept.set()
    await envoy.cut_once.wait()
    assert envoy.cuts == [(GUEST, 1)]


async def test_a_calls_connections_are_cut_when_it_has_ended_and_another_calls_stay(envoy):
    await envoy.tls("allowed.test", 1)
    envoy.policy.exec_id = "exec-2"
    envoy.calls[GUEST] = call("exec-2")
    await envoy.tls("allowed.test", 2)
    await envoy.connections.ended("exec-1")
    assert envoy.cuts == [(GUEST, 1)]


async def test_another_calls_grant_of_the_same_name_keeps_nothing_open(envoy):
    await envoy.tls("allowed.test", 1)
    envoy.policy.exec_id = "exec-2"
    await envoy.tls("allowed.test", 2)
    await envoy.connections.recheck(envoy.policy)
    assert envoy.cuts == [(GUEST, 1)]


async def test_what_ended_and_what_was_cut_are_reported_with_their_bytes(envoy):
    await envoy.tls("allowed.test", 1)
    await envoy.tls("other.test", 2)
    envoy.policy.names = {"other.test"}
    await envoy.connections.recheck(envoy.policy)
    end = KIND.TcpConnectionEnd
    await envoy.log(tcp_entry(end, 10, 20, port=1), tcp_entry(end, 30, 40, port=2))
    assert [(one.name, one.state, one.sent, one.received, one.call_id) for one in envoy.reported] == [
        ("allowed.test", "cut", 10, 20, "call-1"),
        ("other.test", "ended", 30, 40, "call-1"),
    ]
    assert not len(envoy.connections)


async def test_a_tunnel_that_nobody_here_allowed_is_cut_and_a_known_one_is_not(envoy):
    await envoy.tls("allowed.test", 1)
    held = await envoy.log(tcp_entry(KIND.TcpPeriodic, 1, port=1), tcp_entry(KIND.TcpPeriodic, 1, port=9), hold=True)
    await envoy.cut_once.wait()
    assert envoy.cuts == [(GUEST, 9)]
    held.cancel()


async def test_a_socket_used_again_is_known_by_its_start(envoy):
    await envoy.tls("allowed.test", 1)
    stream = [tcp_entry(KIND.TcpPeriodic, 5, port=1, start=100)]
    envoy.connections.find((GUEST, 1), 100)
    await envoy.tls("other.test", 1)
    stream.append(tcp_entry(KIND.TcpConnectionEnd, 7, port=1, start=100))
    stream.append(tcp_entry(KIND.TcpPeriodic, 3, port=1, start=200))
    held = await envoy.log(*stream, tcp_entry(KIND.TcpPeriodic, 1, port=9), hold=True)
    await envoy.cut_once.wait()
    assert [(one.name, one.sent) for one in envoy.reported] == [("allowed.test", 7)]
    assert [(one.name, one.sent) for one in envoy.connections.snapshot()] == [("other.test", 3)]
    held.cancel()


async def test_when_envoy_is_gone_nothing_is_open(envoy):
    await envoy.tls("allowed.test", 1)
    await envoy.log()
    assert not len(envoy.connections)
    assert [one.name for one in envoy.reported] == ["allowed.test"]


async def test_a_sandbox_that_is_gone_leaves_nothing(envoy):
    await envoy.tls("allowed.test", 1)
    envoy.connections.gone("sbx-1")
    assert not len(envoy.connections)
    assert envoy.accounting.hosts() == ()


async def test_what_a_sandbox_sent_before_it_was_gone_is_on_record_whole(envoy):
    """Deleting it under a transfer is no way to use more than a budget has."""
    held = await envoy.log(tcp_entry(KIND.TcpPeriodic, port=9), hold=True)  # while a stream is open, Envoy is there
    await envoy.tls("allowed.test", 1)
    await envoy.log(tcp_entry(KIND.TcpUpstreamConnected, 10, 20, port=1))
    envoy.connections.gone("sbx-1")
    assert not len(envoy.connections)
    await envoy.log(tcp_entry(KIND.TcpConnectionEnd, 1000, 2000, port=1))
    assert [(one.name, one.state, one.sent, one.received) for one in envoy.reported] == [
        ("allowed.test", "ended", 1000, 2000)
    ]
    assert envoy.accounting.hosts() == ()
    held.cancel()


async def test_what_envoy_never_told_of_is_on_record_when_its_sandbox_is_gone(envoy):
    await envoy.tls("allowed.test", 1)
    envoy.connections.gone("sbx-1")
    assert [one.state for one in envoy.reported] == ["ended"]


async def test_requests_that_followed_each_other_are_on_record_when_their_sandbox_is_gone(envoy):
    held = await envoy.log(tcp_entry(KIND.TcpPeriodic, port=9), hold=True)
    await envoy.http("allowed.test", 1, start=1)
    await envoy.http("allowed.test", 1, start=2)
    envoy.connections.gone("sbx-1")
    await envoy.log(
        http_entry(KIND.DownstreamEnd, 7, port=1, start=1), http_entry(KIND.DownstreamEnd, 8, port=1, start=2)
    )
    assert [one.sent for one in envoy.reported] == [7, 8]
    held.cancel()


@pytest.mark.parametrize("first", ["tls", "http"])
async def test_one_port_of_a_guest_is_one_connection_to_tls_or_to_http(envoy, first):
    """Else the second would take the first out of what is judged again and cut."""
    ask = {"tls": envoy.tls, "http": envoy.http}
    (second,) = ask.keys() - {first}
    await ask[first]("allowed.test", 1)
    assert (await ask[second]("allowed.test", 1)).status.code == DENIED
    assert (await ask[second]("allowed.test", 2)).status.code == OK
    envoy.policy.names = set()
    await envoy.connections.recheck(envoy.policy)
    assert sorted(envoy.cuts) == [(GUEST, 1), (GUEST, 2)]


async def test_what_has_too_much_behind_it_is_told_as_it_stands(envoy, monkeypatch):
    monkeypatch.setattr(connections, "_SETTLING", 2)
    held = await envoy.log(tcp_entry(KIND.TcpPeriodic, port=9), hold=True)
    for start in range(1, 5):
        await envoy.http("allowed.test", 1, start=start)
    assert [one.state for one in envoy.reported] == ["ended"]
    held.cancel()
