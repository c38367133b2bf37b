"""Traffic as people see it: whose, how much of it, and nothing where nobody can say."""

import types
from typing import Any

import pytest

from opensafe.config import EgressSettings
from opensafe.control.traffic import MOST, Traffic
from opensafe.errors import NotFound, Unavailable
from opensafe.model.calls import Principal
from opensafe.model.traffic import HostCount, OpenConnection, Sight

ADA, EVE = Principal(name="ada"), Principal(name="eve")


#: Not asked by lists.
NOBODY: Any = None


def row(number, principal="ada", state="running"):
    return types.SimpleNamespace(sandbox_id=f"sb-{number:020x}", principal=principal, state=state, cause="ttl")


class Store:
    def __init__(self, *rows):
        self.rows = rows
        self.sandboxes = self

    def live(self, *, principal):
        return [one for one in self.rows if principal in ("", one.principal) and one.state != "deleted"]

    def sandbox(self, sandbox_id):
        return next((one for one in self.rows if one.sandbox_id == sandbox_id), None)


def connection(sandbox_id, since=0):
    return OpenConnection(
        sandbox_id=sandbox_id,
        exec_id="exec-1",
        layer="tls",
        name="a.test",
        port=443,
        source="10.201.0.1",
        source_port=1,
        since_us=since,
        sent=0,
        received=0,
    )


class Helper:
    """Shows `rows` of each sandbox, two sandboxes at a time, and more than it was asked for if it `lies`."""

    def __init__(self, rows=1, lies=()):
        self.rows, self.lies = rows, lies
        self.asked = []

    async def look_out(self, what, sandbox_ids, **_):
        self.asked.append(tuple(sandbox_ids))
        covered = tuple(sandbox_ids)[:2]
        if what == "connections":
            shown = [connection(one, -number % 97) for one in (*covered, *self.lies) for number in range(self.rows)]
            return Sight(covered=len(covered), connections=tuple(shown))
        shown = [HostCount(sandbox_id=one, name=f"{n}.test", sent=n) for one in covered for n in range(self.rows)]
        return Sight(covered=len(covered), hosts=tuple(shown))


def traffic(store, helper, *, enabled=True):
    return Traffic(NOBODY, store, NOBODY, helper, EgressSettings(enabled=enabled))


async def test_one_sees_ones_own_sandboxes_and_staff_sees_all():
    shown = traffic(Store(row(1), row(2, "eve"), row(3)), Helper())
    assert [one.sandbox_id for one in (await shown.connections(ADA)).rows] == [row(1).sandbox_id, row(3).sandbox_id]
    assert [one.sandbox_id for one in (await shown.hosts(EVE)).rows] == [row(2).sandbox_id]
    for role in ("operator", "reviewer", "auditor"):
        page = await shown.connections(Principal(name="zoe", roles=(role,)))
        assert set(page.whose.values()) == {"ada", "eve"}
        assert len(page.rows) == 3
    assert (await shown.connections(Principal(name="zoe", roles=("developer",)))).rows == []


@pytest.mark.parametrize("asked", ["connections", "hosts"])
async def test_anothers_sandbox_is_not_found_and_a_deleted_one_says_so(asked):
    store = Store(row(1, "eve"), row(2, state="deleted"))
    ask = getattr(traffic(store, Helper()), asked)
    for wanted in (row(1).sandbox_id, "sb-none"):
        with pytest.raises(NotFound, match="no such sandbox"):
            await ask(ADA, wanted)
    with pytest.raises(NotFound, match="deleted"):
        await ask(ADA, row(2).sandbox_id)
    assert len((await ask(EVE, row(1).sandbox_id)).rows) == 1  # the control


async def test_all_pages_are_asked_for_and_what_is_beyond_the_bound_is_counted():
    store, helper = Store(*(row(number) for number in range(5))), Helper(rows=300)
    page = await traffic(store, helper).connections(ADA)
    assert [len(one) for one in helper.asked] == [5, 3, 1]
    assert (len(page.rows), page.more) == (MOST, 500)
    assert [one.since_us for one in page.rows] == sorted(one.since_us for one in page.rows)
    hosts = await traffic(store, helper).hosts(ADA)
    assert (len(hosts.rows), hosts.more) == (MOST, 500)
    assert [one.sent for one in hosts.rows[:3]] == [299, 298, 297]
    assert [one.sandbox_id for one in hosts.rows[::300]] == [row(number).sandbox_id for number in range(4)]


async def test_a_helper_can_show_nobody_what_is_anothers():
    helper = Helper(lies=(row(2).sandbox_id,))
    shown = traffic(Store(row(1), row(2, "eve")), helper)
    assert [one.sandbox_id for one in (await shown.connections(ADA)).rows] == [row(1).sandbox_id]


async def test_where_there_is_no_way_out_there_is_nothing_to_show_and_where_there_is_no_helper_nobody_can_say():
    with pytest.raises(NotFound, match="no way out") as told:
        await traffic(Store(row(1)), Helper(), enabled=False).connections(ADA)
    assert "enabled" in told.value.remedy

    class Gone:
        async def look_out(self, *_):
            raise Unavailable("the egress helper is not there")

    with pytest.raises(Unavailable):
        await traffic(Store(row(1)), Gone()).connections(ADA)
