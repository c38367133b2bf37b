"""Where sessions keep what they are granted: a name is under the call that was granted it last, dead or alive."""

import pytest

from opensafe.egress.callers import GRANTED, Callers
from opensafe.model.policy_input import SessionInput
from opensafe.warden import feed
from opensafe.warden.grants import Grants
from tests.unit.monitor.wire import SANDBOX, Bench, call

from .test_callers import ADDRESS, OTHER, Told

HOST, SECOND = "docs.python.org", "nodejs.org"


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def callers(told):
    callers = Callers(keep=True)
    callers.listen(told)
    callers.watch(watch(SANDBOX, ADDRESS))
    return callers


def watch(sandbox_id, address):
    return feed.Watch(sandbox_id=sandbox_id, container=sandbox_id, template="base", address=address)


def expect(callers, *network, sandbox_id=SANDBOX, **changes):
    one = call(network=network, **({"session": SessionInput(id="s", agent="a")} | changes))
    callers.expect(feed.Expect(sandbox_id=sandbox_id, call=one))
    return one


def left(callers, one):
    callers.left(feed.Left(sandbox_id=SANDBOX, exec_id=one.exec_id))


def reached(callers, name):
    """Under which call a name is reachable, or None."""
    where = callers.at(ADDRESS).of(name)
    return where.call.exec_id if where.grant.classify(name).get(GRANTED) else None


def test_a_name_stays_reachable_when_its_call_has_ended_and_beside_others(callers, told):
    one = expect(callers, HOST)
    expect(callers)
    assert reached(callers, HOST) == one.exec_id
    left(callers, one)
    assert reached(callers, HOST) == one.exec_id
    assert reached(callers, SECOND) is None
    assert told.heard == [], "nothing that the call has opened is cut"


def test_a_name_is_under_the_last_call_that_was_granted_it(callers):
    one, two = expect(callers, HOST, "*.example.com"), expect(callers, HOST)
    assert reached(callers, HOST) == two.exec_id
    assert reached(callers, "a.example.com") == one.exec_id
    left(callers, two)
    left(callers, one)
    assert reached(callers, HOST) == two.exec_id


def test_whose_the_grant_is_does_not_change_with_the_call(callers):
    one = expect(callers, HOST)
    before = callers.at(ADDRESS).of(HOST).holder
    left(callers, one)
    expect(callers, HOST)
    assert callers.at(ADDRESS).of(HOST).holder == before == "s"


def test_what_did_not_start_granted_nothing_and_what_it_opened_is_cut(callers, told):
    one, two = expect(callers, HOST), expect(callers, HOST, SECOND)
    callers.withdrawn(feed.Withdrawn(sandbox_id=SANDBOX, exec_id=two.exec_id))
    assert (reached(callers, HOST), reached(callers, SECOND)) == (one.exec_id, None)
    assert told.heard == [("closed", SANDBOX, two.exec_id)]


def test_a_sandbox_that_is_claimed_or_gone_has_no_names(callers, told):
    one = expect(callers, HOST)
    callers.renamed(feed.Renamed(sandbox_id=SANDBOX, to=OTHER))
    assert callers.at(ADDRESS).call is None
    assert told.heard == [("closed", OTHER, one.exec_id)]
    expect(callers, HOST, sandbox_id=OTHER)
    callers.unwatch(feed.Unwatch(sandbox_id=OTHER))
    assert callers.at(ADDRESS) is None
    assert told.heard[-1] == ("gone", OTHER)


def test_another_sandbox_has_not_these_names(callers):
    expect(callers, HOST)
    callers.watch(watch(OTHER, "10.201.0.3"))
    expect(callers, SECOND, sandbox_id=OTHER)
    assert callers.at("10.201.0.3").of(HOST).call.network == (SECOND,)
    assert reached(callers, SECOND) is None


def test_what_is_known_of_the_session_is_of_all_its_sandboxes(callers):
    expect(callers, HOST)
    callers.watch(watch(OTHER, "10.201.0.3"))
    assert callers.at(ADDRESS).session.taints == ()
    expect(callers, sandbox_id=OTHER, effects=("secret.read",))
    assert callers.at(ADDRESS).session.taints == ("secret.read",)
    expect(callers, sandbox_id=OTHER, session=SessionInput(id="t", agent="a"), effects=("encode",))
    assert callers.at(ADDRESS).session.id == "s"


def test_a_helper_that_starts_anew_has_what_was_told_and_nothing_else():
    grants, one = Grants(), call(network=(HOST,), session=SessionInput(id="s", agent="a"))
    grants.expect(one)
    grants.left(one.exec_id)
    for keep in (True, False):
        bench = Bench(callers=Callers(keep=keep), address=ADDRESS)
        for told in grants.told(SANDBOX):
            bench.tell(told)
        bench.turn()
        where = bench.watcher._callers.at(ADDRESS)
        assert (where.of(HOST).call is not None) == keep
        assert not where.of(SECOND).grant.classify(SECOND)
        bench.close()


def test_the_look_at_a_sandbox_shows_all_names(callers):
    one = expect(callers, HOST)
    left(callers, one)
    expect(callers, SECOND)
    where, _, programs = callers.find(SANDBOX)
    assert (where.call.network, where.call.session.id, programs) == ((SECOND, HOST), "s", 1)
