"""What a session keeps in one sandbox: under which call, what is known of the session, and what it has used."""

import msgspec

from opensafe.model.connection import Connection
from opensafe.model.policy_input import BudgetInput, SessionInput
from opensafe.model.usage import HostUse, Usage
from opensafe.warden.feed import MAX_PACKET, Granted
from opensafe.warden.grants import Grants, charged, together
from tests.unit.monitor.wire import SANDBOX, call

A, B = "a.example.com", "b.example.com"


def granted(*network, **changes):
    return call(network=network, **({"session": SessionInput(id="s", agent="a")} | changes))


def held(grants):
    return [(one.exec_id, one.network) for one in grants.held]


def test_what_a_call_was_granted_outlives_it():
    grants, one = Grants(), granted(A)
    grants.expect(one)
    grants.left(one.exec_id)
    assert held(grants) == [(one.exec_id, (A,))]


def test_a_name_is_the_last_ones_that_was_granted_it_once_that_has_run():
    grants, one, two = Grants(), granted(A, B), granted(B)
    grants.expect(one)
    grants.expect(two)
    assert held(grants) == [(one.exec_id, (A, B)), (two.exec_id, (B,))]
    grants.left(two.exec_id)
    assert held(grants) == [(one.exec_id, (A,)), (two.exec_id, (B,))]
    three = granted(A)
    grants.expect(three)
    grants.left(three.exec_id)
    assert held(grants) == [(two.exec_id, (B,)), (three.exec_id, (A,))]


def test_what_did_not_start_granted_nothing_and_takes_nothing_over():
    grants, one, two = Grants(), granted(A), granted(A, B)
    grants.expect(one)
    grants.left(one.exec_id)
    grants.expect(two)
    assert grants.withdraw(two.exec_id).network == (A, B)
    assert held(grants) == [(one.exec_id, (A,))]
    assert grants.withdraw("exec-unknown") is None


def test_a_later_helper_is_told_the_same_and_nothing_more():
    grants, one, two = Grants(), granted(A, programs=("/bin/a",), pid=7), granted(B)
    for each in (one, two):
        grants.expect(each)
        grants.left(each.exec_id)
    later = Grants()
    for told in grants.told(SANDBOX):
        later.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=Granted))
    assert (later.held, later.session) == (grants.held, grants.session)
    assert all(not one.programs and not one.pid for one in later.held)


def test_however_much_there_is_is_told_in_packets_that_the_feed_takes():
    grants, later, sizes = Grants(), Grants(), []
    for number in range(256):
        one = granted(f"{number}.{'x' * 60}.{'y' * 60}.{'z' * 60}.example.com", digest="d" * 4096)
        grants.expect(one)
        grants.left(one.exec_id)
    for told in grants.told(SANDBOX):
        sizes.append(len(msgspec.msgpack.encode(told)))
        later.restore(told)
    assert len(sizes) > 2
    assert max(sizes) < MAX_PACKET
    assert later.held == grants.held


def test_a_secret_that_any_later_call_reads_is_known_of_the_session():
    grants = Grants()
    grants.expect(granted(A))
    assert grants.session.taints == ()
    grants.expect(granted(effects=("secret.read",)))
    grants.expect(granted(effects=("encode",)))
    assert grants.session.taints == ("secret.read", "encoded")


def test_what_the_file_helper_reads_for_another_session_is_known_and_its_history_is_not():
    grants = Grants()
    grants.expect(granted(A))
    other = SessionInput(id="other", agent="b", banned=True)
    grants.expect(call(profile="file", session=other, effects=("secret.read",)))
    assert (grants.session.id, grants.session.banned, grants.session.taints) == ("s", False, ("secret.read",))


def test_the_newest_history_holds():
    grants = Grants()
    grants.expect(granted(A))
    grants.expect(granted(session=SessionInput(id="s", agent="a", banned=True)))
    assert grants.session.banned


def test_what_several_sandboxes_know_of_a_session_is_put_together():
    old, new = SessionInput(id="s", age_s=1, taints=("secret.read",)), SessionInput(id="s", age_s=2, counts={"x": 1})
    for order in ((old, new), (new, old)):
        both = together(order)
        assert (both.age_s, both.counts, both.taints) == (2, {"x": 1}, ("secret.read",))
    assert together(()) is None


def used(name=A, **more):
    return Connection(**({"time_us": 1, "state": "ended", "layer": "tls", "session_id": "s", "name": name} | more))


def test_what_was_reported_is_gone_from_the_budget_that_a_later_helper_hears_of():
    nothing = Usage().as_budget()
    budget = BudgetInput(usage=nothing, principal=nothing, limits={"egress_bytes": 9}, hosts={A: HostUse()})
    grants, one = Grants(), granted(A, session_id="s", budget=budget)
    grants.expect(one)
    grants.left(one.exec_id)
    for told in (used(state="allowed"), used(sent=3, received=4), used(B, sent=1), used(session_id="t", sent=50)):
        grants.spent(told)
    (kept,) = grants.held
    assert (kept.budget.usage["egress_bytes"], kept.budget.usage["ingress_bytes"]) == (4, 4)
    assert (kept.budget.usage["requests"], kept.budget.principal["egress_bytes"]) == (1, 4)
    assert kept.budget.hosts == {A: HostUse(requests=1, egress_bytes=3, ingress_bytes=4)}
    assert kept.budget.limits == {"egress_bytes": 9}


def test_what_was_refused_costs_nothing():
    one = granted(A)
    assert charged(one, used(state="refused")) is one
