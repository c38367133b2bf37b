"""Where sessions keep their grants: whose calls a sandbox runs, and how many names a session may have."""

import contextlib
from collections import Counter

import pytest

from opensafe.errors import Conflict, LimitExceeded
from opensafe.warden.sandbox.keeping import kept

from .test_sharing import launch


class Place:
    def __init__(self, session_id="ses-1", *names):
        self.session_id = session_id
        self.names = Counter(names)


def enter(place, *names, session_id="ses-1", others=(), most=3, program="/bin/true"):
    with kept(launch("one", program=program), place, (place, *others), session_id, names, most):
        pass


def test_names_are_kept_after_the_start():
    place = Place()
    enter(place, "a", "b")
    enter(place, "b")
    assert place.names == {"a": 1, "b": 2}


def test_a_start_that_fails_keeps_none_of_its_own():
    place = Place("ses-1", "a")
    with contextlib.suppress(OSError), kept(launch("one"), place, (place,), "ses-1", ("a", "b"), 3):
        raise OSError
    assert place.names == {"a": 1}


def test_another_sessions_call_is_refused_whatever_it_was_granted():
    for names in ((), ("a",)):
        with pytest.raises(Conflict, match="session that made it"):
            enter(Place(), *names, session_id="ses-2")
    enter(Place("ses-2"), session_id="ses-2")


def test_another_sessions_file_operation_is_not():
    enter(Place(), session_id="ses-2", program="/.opensafe/file")


def test_a_session_has_so_many_names_in_all_its_sandboxes():
    place, others = Place("ses-1", "a"), (Place("ses-1", "b"), Place("ses-2", "x", "y", "z"))
    enter(place, "c", others=others)
    with pytest.raises(LimitExceeded, match="too many names") as refused:
        enter(place, "d", others=others)
    assert (refused.value.value, refused.value.limit) == ("4", "egress.session_names = 3")
    enter(place, "a", "b", others=others)
    assert set(place.names) == {"a", "b", "c"}
