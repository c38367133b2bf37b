"""Who is at the browser: links work once and not for long, sessions end, and nothing grows without bound."""

import pytest

from opensafe.console import signing_in
from opensafe.console.signing_in import LINK_S, SESSIONS_MAX, Doorkeeper
from opensafe.errors import InvalidArgument


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def doors(clock):
    return Doorkeeper(frozenset({"alice", "bob"}), {"a@site.test": "alice"}, life_s=3600, idle_s=600, clock=clock)


def test_a_link_signs_in_once(doors):
    token = doors.link("alice")
    accepted = doors.accept(token)
    assert accepted is not None
    cookie, person = accepted
    assert person.principal == "alice"
    assert doors.find(cookie) == person
    assert doors.accept(token) is None


def test_a_link_is_over_after_its_time(doors, clock):
    in_time, late = doors.link("alice"), doors.link("alice")
    clock.now += LINK_S - 1
    assert doors.accept(in_time) is not None
    clock.now += 1
    assert doors.accept(late) is None


@pytest.mark.parametrize("token", ["", "x", "é" * 50, "a" * 100_000])
def test_what_is_no_link_signs_nobody_in(doors, token):
    doors.link("alice")
    assert doors.accept(token) is None


def test_there_is_no_link_for_a_principal_that_is_not_served(doors):
    with pytest.raises(InvalidArgument, match="mallory"):
        doors.link("mallory")


def test_a_session_ends_where_nothing_is_asked_and_goes_on_where_something_is(doors, clock):
    cookie, _ = doors.accept(doors.link("bob"))
    for _ in range(5):
        clock.now += 599
        assert doors.find(cookie) is not None
    clock.now += 600
    assert doors.find(cookie) is None


def test_a_session_ends_after_its_life_whatever_is_asked(doors, clock):
    cookie, person = doors.accept(doors.link("bob"))
    while clock.now + 500 < person.ends:
        clock.now += 500
        assert doors.find(cookie) is not None
    clock.now = person.ends
    assert doors.find(cookie) is None


def test_looking_whether_a_session_lasts_does_not_prolong_it(doors, clock):
    cookie, _ = doors.accept(doors.link("bob"))
    for _ in range(5):
        clock.now += 119
        assert doors.live(cookie)
    clock.now += 10
    assert not doors.live(cookie)
    assert doors.find(cookie) is None


def test_a_page_that_asks_of_its_own_accord_does_not_prolong_it(doors, clock):
    cookie, _ = doors.accept(doors.link("bob"))
    for _ in range(5):
        clock.now += 119
        assert doors.find(cookie, by_person=False) is not None
    clock.now += 10
    assert doors.find(cookie, by_person=False) is None


def test_signing_out_ends_one_session_and_leaves_another(doors):
    one, _ = doors.accept(doors.link("alice"))
    other, _ = doors.accept(doors.link("alice"))
    doors.end(one)
    assert doors.find(one) is None
    assert doors.find(other) is not None


def test_a_proxys_user_is_the_principal_it_is_mapped_to_or_its_own_name(doors):
    mapped, own = doors.vouched("a@site.test"), doors.vouched("bob")
    assert (mapped.principal, mapped.name, mapped.vouched) == ("alice", "a@site.test", True)
    assert own.principal == "bob"
    assert mapped.csrf != own.csrf
    assert mapped == doors.vouched("a@site.test")
    assert doors.vouched("mallory") is None
    assert doors.vouched("") is None


def test_sessions_are_bounded_the_longest_unused_first(doors):
    first, _ = doors.accept(doors.link("alice"))
    kept, _ = doors.accept(doors.link("alice"))
    for _ in range(SESSIONS_MAX - 1):
        assert doors.find(kept) is not None
        doors.accept(doors.link("bob"))
    assert doors.find(first) is None
    assert doors.find(kept) is not None


def test_links_are_bounded(doors):
    first = doors.link("alice")
    for _ in range(signing_in._LINKS_MAX):
        doors.link("bob")
    assert doors.accept(first) is None


def test_nothing_that_a_browser_holds_is_kept(doors):
    token = doors.link("alice")
    cookie, _ = doors.accept(doors.link("bob"))
    held = repr(vars(doors))
    assert token not in held
    assert cookie not in held
