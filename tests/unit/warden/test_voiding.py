"""After a power cut: an entry whose decision is gone is voided once, and one whose decision is there never."""

import os

import pytest

from opensafe.model import chain
from opensafe.warden import kernel
from opensafe.warden.ledger import Ledger
from opensafe.warden.segments import Segments
from opensafe.warden.voiding import void

pytestmark = pytest.mark.root


class Place:
    """A log and a ledger."""

    def __init__(self, state):
        self.state = state
        self.head = chain.Head()
        self.open()

    def open(self):
        self.segments = Segments(self.state / "audit", os.getegid())
        self.ledger = Ledger(self.state / "ledger.jsonl")

    def restart(self):
        self.close()
        self.open()

    def close(self):
        self.segments.close()
        self.ledger.close()

    def decide(self):
        """A decision in the log; its leaf."""
        sealed = chain.seal(self.head, {"kind": "decision"})
        os.write(self.segments.writer, sealed.line + b"\n")
        self.head = sealed.head
        return sealed.leaf

    def entries(self):
        lines = (self.state / "ledger.jsonl").read_bytes().splitlines()
        return [(link.record["kind"], link.record["leaf"]) for link in chain.verify(lines)]


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.close()
    for segment in (tmp_path / "audit").iterdir():
        kernel.unprotect(segment)


LOST = "ab" * 32


def test_what_lost_its_decision_is_voided_once(place):
    kept = place.decide()
    place.ledger.append("start", sandbox_id="sb-1", exec_id="exec-1", leaf=kept)
    place.ledger.append("start", sandbox_id="sb-1", exec_id="exec-2", leaf=LOST)
    place.restart()
    assert void(place.ledger, place.segments, 0) == 1
    assert place.entries() == [("start", kept), ("start", LOST), ("void", LOST)]
    place.restart()
    assert void(place.ledger, place.segments, 0) == 0
    assert bytes.fromhex(LOST) in place.ledger.used  # and stays spent


def test_a_decision_in_an_earlier_segment_is_found(place):
    kept = place.decide()
    place.segments.begin_next()
    place.decide()
    place.ledger.append("sandbox", sandbox_id="sb-1", leaf=kept)
    place.restart()
    assert void(place.ledger, place.segments, 0) == 0


def test_what_a_checkpoint_covers_and_what_has_ended_is_not_looked_for(place):
    place.ledger.append("start", sandbox_id="sb-1", exec_id="exec-1", leaf=LOST)
    place.ledger.append("start", sandbox_id="sb-1", exec_id="exec-2", leaf="cd" * 32)
    place.ledger.append("end", sandbox_id="sb-1", exec_id="exec-2")
    place.restart()
    assert void(place.ledger, place.segments, 1) == 0


def test_half_a_line_is_no_decision(place):
    sealed = chain.seal(place.head, {"kind": "decision"})
    os.write(place.segments.writer, sealed.line[:-3])
    place.ledger.append("start", sandbox_id="sb-1", exec_id="exec-1", leaf=sealed.leaf)
    place.restart()
    assert void(place.ledger, place.segments, 0) == 1
