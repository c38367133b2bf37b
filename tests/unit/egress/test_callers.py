"""Who speaks from an address: one call with a grant and nothing beside it, or nobody."""

import pytest

from opensafe.egress.callers import Callers
from opensafe.warden import feed
from tests.unit.monitor.wire import SANDBOX, Bench, call

ADDRESS = "10.201.0.1"
OTHER = "sb-" + "1" * 20


class Told:
    def __init__(self):
        self.heard = []

    def opened(self, where):
        self.heard.append(("opened", where.sandbox_id, where.call.exec_id))

    def gone(self, sandbox_id):
        self.heard.append(("gone", sandbox_id))

    def closed(self, where):
        self.heard.append(("closed", where.sandbox_id, where.call.exec_id))


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def callers(told):
    callers = Callers()
    callers.listen(told)
    callers.watch(feed.Watch(sandbox_id=SANDBOX, container=SANDBOX, template="base", address=ADDRESS))
    return callers


def granted(**changes):
    return call(network=("docs.python.org",), **changes)


def expect(callers, one):
    callers.expect(feed.Expect(sandbox_id=SANDBOX, call=one))
    return one


def test_a_call_with_a_grant_speaks_from_its_sandboxs_address(callers, told):
    one = expect(callers, granted())
    assert callers.at(ADDRESS).call == one
    assert callers.at(ADDRESS).sandbox_id == SANDBOX
    assert told.heard == [("opened", SANDBOX, one.exec_id)]


@pytest.mark.parametrize("address", ["", "10.201.0.3", "10.201.0.01"])
def test_nobody_speaks_from_another_address(callers, address):
    expect(callers, granted())
    assert callers.at(address) is None


def test_a_call_without_a_grant_speaks_for_nobody(callers, told):
    expect(callers, call())
    assert callers.at(ADDRESS).call is None
    assert told.heard == []


@pytest.mark.parametrize("end", ["left", "withdrawn"])
def test_a_grant_ends_with_its_call(callers, told, end):
    one = expect(callers, granted())
    message = {"left": feed.Left, "withdrawn": feed.Withdrawn}[end](sandbox_id=SANDBOX, exec_id=one.exec_id)
    getattr(callers, end)(message)
    assert callers.at(ADDRESS).call is None
    assert told.heard[1:] == [("closed", SANDBOX, one.exec_id)]


def test_another_program_beside_it_closes_the_grant_until_it_is_gone(callers, told):
    one, beside = expect(callers, granted()), expect(callers, call())
    assert callers.at(ADDRESS).call is None
    callers.left(feed.Left(sandbox_id=SANDBOX, exec_id=beside.exec_id))
    assert callers.at(ADDRESS).call == one
    assert [kind for kind, *_ in told.heard] == ["opened", "closed", "opened"]


def test_two_grants_are_none(callers):
    expect(callers, granted())
    expect(callers, granted())
    assert callers.at(ADDRESS).call is None


@pytest.mark.parametrize("profile", ["file", "tree"])
def test_the_file_helper_beside_it_closes_nothing(callers, profile):
    one = expect(callers, granted())
    expect(callers, call(profile=profile))
    assert callers.at(ADDRESS).call == one


def test_a_claimed_sandbox_keeps_its_address(callers):
    callers.renamed(feed.Renamed(sandbox_id=SANDBOX, to=OTHER))
    callers.expect(feed.Expect(sandbox_id=OTHER, call=granted()))
    assert callers.at(ADDRESS).sandbox_id == OTHER


def test_a_sandbox_that_is_gone_has_no_grant(callers, told):
    one = expect(callers, granted())
    callers.unwatch(feed.Unwatch(sandbox_id=SANDBOX))
    assert callers.at(ADDRESS) is None
    assert told.heard[-2:] == [("closed", SANDBOX, one.exec_id), ("gone", SANDBOX)]


def test_an_address_that_two_sandboxes_have_is_nobodys(callers):
    expect(callers, granted())
    callers.watch(feed.Watch(sandbox_id=OTHER, container=OTHER, template="base", address=ADDRESS))
    assert callers.at(ADDRESS) is None


def test_a_helper_that_starts_anew_knows_what_runs():
    callers, one = Callers(), granted()
    callers.watch(feed.Watch(sandbox_id=SANDBOX, container=SANDBOX, template="base", address=ADDRESS, calls=(one,)))
    assert callers.at(ADDRESS).call == one


def test_the_watcher_tells_what_it_hears():
    callers = Callers()
    bench = Bench(callers=callers, address=ADDRESS)
    one = bench.expect(network=("docs.python.org",))
    bench.turn()
    assert callers.at(ADDRESS).call == one
    bench.tell(feed.Left(sandbox_id=SANDBOX, exec_id=one.exec_id))
    bench.turn()
    assert callers.at(ADDRESS).call is None
    bench.expect(network=("docs.python.org",))
    bench.turn()
    bench.report(b"no report")
    bench.turn()
    assert callers.at(ADDRESS) is None
    bench.close()


def test_who_asks_hears_what_was_said_before_though_the_watcher_has_had_no_turn():
    callers = Callers()
    bench = Bench(callers=callers, address=ADDRESS)
    callers.hear_first(bench.watcher.hear)
    one = bench.expect(network=("docs.python.org",))
    assert callers.at(ADDRESS).call == one
    bench.tell(feed.Left(sandbox_id=SANDBOX, exec_id=one.exec_id))
    assert callers.at(ADDRESS).call is None
    bench.close()
