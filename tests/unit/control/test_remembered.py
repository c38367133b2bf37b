"""What a session's calls wrote: known from the verdict on, certain once the call succeeded, never lost unnoticed."""

import contextlib
import itertools

import msgspec
import pytest

from opensafe.control.remembered import Remembered
from opensafe.model.decision import Action
from opensafe.model.facts import PathFact
from opensafe.model.records import SandboxRecord, SessionRecord
from opensafe.model.written import Left
from opensafe.state.store import Store
from tests.unit.state.test_store import SESSION, decision

OTHER = "ses-00000000000000000002"
S = "/workspace/s"


class Front:
    """A store, what is remembered in it, and calls of one session."""

    def __init__(self, path):
        self.store = Store(path)
        self.remembered = Remembered(self.store)
        self._numbers = itertools.count()

    def fold(self, record):
        self.store.fold(self.store.folded, record)

    def begin(self, *texts, path=S, sure=None, session=SESSION):
        """A call is allowed that may write one of these texts; its key."""
        key = session, f"c{next(self._numbers)}"
        known = self.remembered.of(session).texts.get(path) or ()
        left = Left(texts={path: (*known, *texts) if texts else ()}, sure={} if sure is None else {path: (sure,)})
        self.remembered.learn(key, "dec-1", left)
        return key

    def write(self, text, *, well=True, path=S, session=SESSION):
        """A whole call that writes a file."""
        self.remembered.ended(self.begin(text, path=path, sure=text, session=session), well=well)

    def known(self, path=S, session=SESSION):
        return self.remembered.of(session).texts.get(path)


@pytest.fixture
def front(tmp_path):
    front = Front(tmp_path / "index.sqlite")
    with contextlib.closing(front.store):
        for name in (SESSION, OTHER):
            front.fold(SessionRecord(time_us=1, session_id=name, principal="agent", state="open", agent="a"))
        yield front


def test_a_text_is_known_from_the_verdict_on_and_alone_once_the_call_succeeded(front):
    front.write("one")
    call = front.begin("two", sure="two")
    assert front.known() == ("one", "two")
    front.remembered.ended(call, well=True)
    assert front.known() == ("two",)


def test_a_call_that_failed_leaves_both(front):
    front.write("one")
    front.write("two", well=False)
    assert front.known() == ("one", "two")
    front.write("three")
    assert front.known() == ("three",)


def test_of_calls_side_by_side_none_is_the_last(front):
    slow = front.begin("slow")
    front.write("quick")
    assert front.known() == ("slow", "quick")
    front.remembered.ended(slow, well=True)
    front.write("after")
    assert front.known() == ("after",)


def test_a_slow_write_does_not_take_away_what_was_written_meanwhile(front):
    slow = front.begin("slow", sure="slow")
    quick = front.begin("quick")
    front.remembered.ended(quick, well=True)
    front.remembered.ended(slow, well=True)
    assert front.known() == ("slow", "quick")


def test_sessions_and_files_know_nothing_of_each_other(front):
    front.write("one")
    assert front.known(session=OTHER) is None
    assert front.known(path="/workspace/t") is None


def test_what_is_not_known_stays_so_until_it_is_written_over(front):
    front.remembered.ended(front.begin(), well=True)
    assert front.known() == ()
    call = front.begin("two")
    assert front.known() == ()
    front.remembered.ended(call, well=True)
    assert front.known() == ()
    front.write("three")
    assert front.known() == ("three",)


def test_too_many_texts_of_one_file_are_not_known(front):
    for number in range(8):
        front.write(str(number), well=False)
    assert len(front.known()) == 8
    front.write("8", well=False)
    assert front.known() == ()


def test_of_too_much_text_the_oldest_is_not_known_any_more(front):
    for number in range(33):
        front.write(f"{number:02}" * 32768, path=f"/workspace/{number}")
    assert front.known("/workspace/0") == ()
    assert front.known("/workspace/1") == ("01" * 32768,)
    assert Remembered(front.store).of(SESSION) == front.remembered.of(SESSION)


def test_of_too_many_files_none_is_known(front):
    for number in range(4096):
        front.write("x", path=f"/workspace/{number}")
    assert not front.remembered.of(SESSION).crowded
    front.write("x", path="/workspace/more")
    assert front.remembered.of(SESSION).crowded
    assert Remembered(front.store).of(SESSION).crowded
    assert not front.remembered.of(OTHER).crowded


def test_a_session_that_is_not_at_hand_is_read_again(front):
    front.write("one")
    for number in range(100):
        front.remembered.of(f"ses-{number}")
    assert front.known() == ("one",)


def test_texts_outlive_the_front(front, tmp_path):
    front.write("one")
    front.write("two", well=False)
    front.store.close()
    again = Front(tmp_path / "index.sqlite")
    with contextlib.closing(again.store):
        assert again.known() == ("one", "two")


def allowed(call_id, *paths, number="1"):
    record = decision(call_id, Action.ALLOW)
    writes = tuple(PathFact(path=path) for path in paths)
    asked = msgspec.structs.replace(record.input, call=msgspec.structs.replace(record.input.call, writes=writes))
    return msgspec.structs.replace(record, input=asked, decision_id=f"dec-{number}")


def test_a_decision_that_is_folded_from_the_log_alone_leaves_files_that_are_not_known(front):
    front.fold(allowed("c-log", S, number="log"))
    assert Remembered(front.store).of(SESSION).texts == {S: ()}


def test_a_decision_that_was_told_of_leaves_what_it_was_told_with(front):
    front.write("one")
    front.fold(allowed("c-told", S))
    assert Remembered(front.store).of(SESSION).texts == {S: ("one",)}
    blocked = msgspec.structs.replace(allowed("c-no", S, number="no"), result=decision("c-no", Action.BLOCK).result)
    front.fold(blocked)
    assert Remembered(front.store).of(SESSION).texts == {S: ("one",)}


def test_nothing_is_kept_of_a_closed_session(front):
    front.write("one")
    running = front.begin("two", sure="two")
    front.fold(SessionRecord(time_us=9, session_id=SESSION, principal="agent", state="closed"))
    front.remembered.ended(running, well=True)
    assert Remembered(front.store).of(SESSION).texts == {}


@pytest.mark.parametrize(("sandboxes", "known"), [(("sb-1",), ("two",)), (("sb-1", "sb-2"), ("one", "two"))])
def test_PE_16b_of_several_sandboxes_none_takes_the_place_of_anothers_file(front, sandboxes, known):
    for name in sandboxes:
        made = SandboxRecord(time_us=1, sandbox_id=name, session_id=SESSION, principal="agent", state="running")
        front.fold(msgspec.structs.replace(made, template="base"))
    front.write("one")
    front.write("two")
    assert front.known() == known


def test_what_is_not_kept_takes_no_room(front):
    for number in range(4096):
        front.write("x", path=f"/workspace/{number}")
    for number in range(100):
        front.write("y" * 60_000, path=f"/workspace/more-{number}")
    assert front.known("/workspace/0") == ("x",)
    assert front.remembered.of(SESSION).crowded


def test_a_pattern_is_known_to_be_one_also_after_a_restart(front):
    front.write("one", path="/workspace/s*.sh")
    front.write("two", path="/workspace/t.sh")
    assert front.remembered.of(SESSION).wild == ("/workspace/s*.sh",)
    assert Remembered(front.store).of(SESSION).wild == ("/workspace/s*.sh",)
