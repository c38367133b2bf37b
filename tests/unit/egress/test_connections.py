"""What is open when the rules change."""

import pytest

from .envoy import GUEST, KIND, Envoy, Policy, call, tcp_entry


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
