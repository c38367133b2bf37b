"""Checkpoints sign what root has read of the log, continue what was signed, and end where a line is out of place."""

import asyncio
import hashlib
import json
import os
import resource
import threading
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from opensafe.audit.checkpoints import read_notes
from opensafe.audit.signed import Signed
from opensafe.config import AuditSettings
from opensafe.errors import AuditError, LimitExceeded
from opensafe.model import chain, merkle
from opensafe.model.checkpoint import parse_checkpoint, parse_key, parse_note
from opensafe.warden import kernel
from opensafe.warden.checkpoints import Checkpoints
from opensafe.warden.following import Follower
from opensafe.warden.ledger import Ledger
from opensafe.warden.segments import Segments

pytestmark = pytest.mark.root


class Place:
    """A state directory with a log that the test writes, as the front does."""

    def __init__(self, state):
        self.state = state
        self.head = chain.Head()
        self.leaves = []
        self.segments = Segments(state / "audit", os.getegid(), 100)
        self.ledger = Ledger(state / "ledger.jsonl")

    def checkpoints(self, **every):
        settings = AuditSettings(**{"checkpoint_s": 3600, "checkpoint_records": 1_000_000} | every)
        return Checkpoints(self.state, os.getegid(), "0123456789", self.segments, self.ledger, settings)

    async def signed(self):
        """What a warden signs that begins and ends now."""
        checkpoints = self.checkpoints()
        await checkpoints.begin()
        await checkpoints.close()
        return checkpoints

    def write(self, count=1, **record):
        for _ in range(count):
            sealed = chain.seal(self.head, {"kind": "x", "n": len(self.leaves), **record})
            self.put(sealed.line + b"\n")
            self.head = sealed.head
            self.leaves.append(merkle.leaf(sealed.line))

    def put(self, data):
        os.write(self.segments.writer, data)

    def restart(self):
        self.segments.close()
        self.ledger.close()
        self.segments = Segments(self.state / "audit", os.getegid(), 100)
        self.ledger = Ledger(self.state / "ledger.jsonl")

    def note(self):
        return parse_note((self.state / "audit/checkpoint").read_bytes())

    def last(self):
        return parse_checkpoint(self.note().body)


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.segments.close()
    made.ledger.close()
    for segment in (tmp_path / "audit").iterdir():
        kernel.unprotect(segment)


async def test_a_checkpoint_is_of_all_that_was_written_and_verifies_with_the_public_key_alone(place):
    place.write(5)
    place.ledger.append("sandbox", sandbox_id="sb", leaf="ab" * 32)
    await place.signed()
    made = place.last()
    assert (made.size, made.root, made.ledger) == (5, merkle.root(place.leaves), place.ledger.head)
    key = parse_key((place.state / "audit/key.pub").read_text())
    [signature] = place.note().signatures
    assert (made.origin, signature.name, signature.key_id) == (key.name, key.name, key.key_id)
    Ed25519PublicKey.from_public_bytes(key.public).verify(signature.made, place.note().body)
    assert (place.state / "checkpoint.key").stat().st_mode & 0o777 == 0o600


async def test_an_empty_log_and_one_without_news_get_none(place):
    await place.signed()
    assert not (place.state / "audit/checkpoint").exists()
    place.write(3)
    await place.signed()
    place.restart()
    await place.signed()
    assert len((place.state / "audit/checkpoints.jsonl").read_bytes().splitlines()) == 1


async def test_a_later_start_reads_only_what_is_new_and_continues_the_tree(place, monkeypatch):
    place.write(300)
    await place.signed()
    place.restart()
    place.write(2)
    seen, take = [], Follower._take

    def counted(self, line):
        seen.append(line)
        take(self, line)

    monkeypatch.setattr(Follower, "_take", counted)
    await place.signed()
    assert (len(seen), place.last().size, place.last().root) == (2, 302, merkle.root(place.leaves))


@pytest.mark.parametrize("lost", ["frontier.json", "none"])
async def test_without_its_frontier_a_start_reads_all_again(place, lost):
    place.write(7)
    await place.signed()
    (place.state / lost).unlink(missing_ok=True)
    place.restart()
    place.write(1)
    await place.signed()
    assert (place.last().size, place.last().root) == (8, merkle.root(place.leaves))


async def test_segments_end_and_the_one_before_is_immutable(place):
    with pytest.raises(LimitExceeded, match="not full"):
        place.segments.begin_next()
    place.write(20)
    old = os.dup(place.segments.writer)
    assert place.segments.begin_next() == 1
    place.write(20)
    await place.signed()
    assert (place.last().size, place.last().root) == (40, merkle.root(place.leaves))
    with pytest.raises(PermissionError):  # also through a descriptor from before
        os.write(old, b"x")
    os.close(old)
    place.restart()
    place.write(1)
    await place.signed()
    assert place.last().size == 41


async def test_segments_that_have_ended_cost_no_descriptor_and_no_thread(place):
    checkpoints = place.checkpoints(checkpoint_records=1)
    await checkpoints.begin()

    def held():
        syncing = [thread for thread in threading.enumerate() if thread.name.startswith("sync-")]
        return len(os.listdir("/proc/self/fd")), len(syncing)

    counts = []
    for _ in range(6):
        place.write(20)
        await checkpoints.turn(at_once=True)
        counts.append(held())
        place.segments.begin_next()
    await checkpoints.close()
    assert counts[1] == counts[-1]


async def test_a_fragment_at_a_segments_end_is_accounted_for_in_the_next(place):
    place.write(20)
    place.put(b'{"half')
    place.segments.begin_next()
    place.write(fragment_sha256=hashlib.sha256(b'{"half').hexdigest())
    assert (await place.signed()).failure is None
    assert (place.last().size, place.last().root) == (21, merkle.root(place.leaves))


async def test_what_tore_twice_is_accounted_for_at_once(place):
    place.write(2)
    torn = b'{"half"\n{"index":2,"kind":"to'
    place.put(torn + b"\n")
    place.write(fragment_sha256=hashlib.sha256(torn).hexdigest())
    assert (await place.signed()).failure is None
    assert place.last().size == 3


async def test_what_the_front_writes_at_a_segments_end_while_it_is_read_is_read(place, monkeypatch):
    place.write(20)
    read = Segments.read

    def late(segments, number, offset, length):
        found = read(segments, number, offset, length)
        if number == 0 and not found and segments.number == 0:
            place.write(1)
            segments.begin_next()
            place.write(1)
        return found

    monkeypatch.setattr(Segments, "read", late)
    checkpoints = await place.signed()
    await checkpoints.turn(at_once=True)
    assert (checkpoints.failure, place.last().size) == (None, 22)


async def test_a_checkpoint_that_can_not_be_written_stops_starts_until_it_is(place):
    place.write(3)
    checkpoints = place.checkpoints()
    await checkpoints.begin()
    await checkpoints.turn(at_once=True)
    in_the_way = place.state / "audit/.checkpoint.new"
    in_the_way.mkdir()
    place.write(2)
    for _ in range(3):
        await checkpoints.turn(at_once=True)
        with pytest.raises(AuditError, match=r"can't be written"):
            checkpoints.require()
    assert place.last().size == 3
    in_the_way.rmdir()
    await checkpoints.turn(at_once=False)
    checkpoints.require()
    assert place.last().size == 5
    await checkpoints.close()
    place.restart()
    assert (await place.signed()).failure is None


async def test_half_a_line_of_the_history_is_cut_and_the_next_stands_by_itself(place):
    history = place.state / "audit/checkpoints.jsonl"
    for _ in range(2):
        place.write(1)
        await place.signed()
        with history.open("ab") as file:
            file.write(b'{"note":"opensafe/01')
        place.restart()
    place.write(1)
    await place.signed()
    sizes = [parse_checkpoint(parse_note(json.loads(line)["note"].encode()).body).size for line in history.open()]
    assert sizes == [1, 2, 3]


async def test_a_history_that_has_no_room_for_a_line_keeps_none_of_it(place):
    for _ in range(6):  # longer than any other file that is written
        place.write(1)
        await place.signed()
        place.restart()
    history = place.state / "audit/checkpoints.jsonl"
    before = history.read_bytes()
    checkpoints = place.checkpoints()
    await checkpoints.begin()
    place.write(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
    try:
        await checkpoints.turn(at_once=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "can't be written" in str(checkpoints.failure)
    assert history.read_bytes() == before
    await checkpoints.close()
    assert checkpoints.failure is None
    assert history.read_bytes().startswith(before)


async def test_a_clock_that_goes_back_an_hour_between_checkpoints_changes_nothing(place, monkeypatch):
    place.write(2)
    await place.signed()
    first = place.last()
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3_600_000_000_000)
    place.restart()
    place.write(2)
    assert (await place.signed()).failure is None
    assert place.last().time_us < first.time_us
    assert (place.last().size, place.last().root) == (4, merkle.root(place.leaves))
    signed = Signed(read_notes(place.state), parse_key((place.state / "audit/key.pub").read_text()))
    for leaf in place.leaves:
        signed.record(leaf.hex())
    signed.log_ended()
    assert (signed.findings, signed.covered) == ([], 4)


async def test_a_ledger_that_can_not_be_written_stops_starts_and_says_so(place):
    place.write(1)
    checkpoints = place.checkpoints()
    await checkpoints.begin()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(AuditError):
            place.ledger.append("sandbox", sandbox_id="sb", leaf="ab" * 32)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await checkpoints.turn(at_once=False)
    with pytest.raises(AuditError, match="ledger is broken"):
        checkpoints.require()
    await checkpoints.close()


async def test_a_line_that_is_not_ended_is_not_signed(place):
    place.write(3)
    place.put(b'{"kind":"x"')
    await place.signed()
    assert place.last().size == 3


@pytest.mark.parametrize(
    "line",
    [
        b'{"index":3,"prev":"' + b"0" * 64 + b'"}',
        b'{"index":4,"kind":"x"}',
        b'not json\nnot json either\n{"index":3,"prev":"PREV"}',
        b'not json\n{"index":3,"prev":"PREV"}',
    ],
)
async def test_a_line_out_of_place_ends_signing_and_starting(place, line):
    place.write(3)
    checkpoints = place.checkpoints()
    await checkpoints.begin()
    checkpoints.require()
    place.put(line.replace(b"PREV", place.head.leaf.encode()) + b"\n")
    await checkpoints.close()
    with pytest.raises(AuditError, match="not intact"):
        checkpoints.require()
    assert not (place.state / "audit/checkpoint").exists()


def rewritten(path, change):
    kernel.unprotect(path)
    path.write_bytes(change(path.read_bytes()))


CHANGES = {
    "cut": lambda data: b"".join(data.splitlines(keepends=True)[:-1]),
    "emptied": lambda data: b"",
    "rewritten": lambda data: data.replace(b'"n":2', b'"n":7'),
}


@pytest.mark.parametrize(
    ("change", "forget"),
    [("cut", True), ("cut", False), ("emptied", True), ("emptied", False), ("rewritten", True)],
)
async def test_cp14_a_log_that_is_not_what_was_signed_is_not_continued(place, change, forget):
    """The next start says so. An edit before the frontier, which no start reads again, is `audit verify`'s to find."""
    place.write(5)
    await place.signed()
    rewritten(place.segments.path(0), CHANGES[change])
    place.restart()
    if forget:
        (place.state / "frontier.json").unlink()
    with pytest.raises(AuditError):
        await place.checkpoints().begin()


@pytest.mark.parametrize("name", ["checkpoint", "key"])
async def test_a_checkpoint_of_another_key_is_refused(place, name):
    place.write(5)
    await place.signed()
    if name == "key":
        (place.state / "checkpoint.key").unlink()
    else:
        path = place.state / "audit/checkpoint"
        path.write_text(path.read_text().replace("\n5\n", "\n4\n"))
    place.restart()
    with pytest.raises(AuditError, match="signature"):
        place.checkpoints()


async def test_after_so_many_records_one_is_signed_without_being_asked(place):
    checkpoints = place.checkpoints(checkpoint_records=3)
    place.write(3)
    await checkpoints.begin()
    checkpoints._task.cancel()  # its turns are taken here
    await checkpoints.turn(at_once=False)
    assert place.last().size == 3
    place.write(2)
    await checkpoints.turn(at_once=False)
    assert place.last().size == 3
    await checkpoints.close()
    assert place.last().size == 5


async def test_closing_waits_for_what_is_being_read_and_reads_no_line_twice(place, monkeypatch):
    reading, go_on = threading.Event(), threading.Event()
    take = Follower._take

    def slowly(follower, line):
        reading.set()
        assert go_on.wait(30)
        take(follower, line)

    checkpoints = place.checkpoints()
    await checkpoints.begin()
    monkeypatch.setattr(Follower, "_take", slowly)
    place.write(5)
    assert await asyncio.to_thread(reading.wait, 30)
    closing = asyncio.create_task(checkpoints.close())
    for _ in range(10):  # far enough that one that does not wait would read beside the other
        await asyncio.sleep(0)
    go_on.set()
    await closing
    assert checkpoints.failure is None
    assert (place.last().size, place.last().root) == (5, merkle.root(place.leaves))


async def test_signing_leaves_the_event_loop_free(place, monkeypatch):
    loop, threads = threading.current_thread(), []
    checkpoints = place.checkpoints()
    await checkpoints.begin()

    def noted(write):
        def writing(self, *rest):
            threads.append(threading.current_thread())
            write(self, *rest)

        return writing

    for name in "_put", "_append":
        monkeypatch.setattr(Checkpoints, name, noted(getattr(Checkpoints, name)))
    place.write(1)
    await checkpoints.close()
    assert len(threads) == 3
    assert loop not in threads
