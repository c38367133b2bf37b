"""Records are found wherever they lie: over segments, behind fragments, in lines of any length; forwards and back."""

import random

import pytest

from opensafe.audit import past
from opensafe.audit.past import ahead, backward
from opensafe.audit.segment import segment_path, segment_paths
from opensafe.errors import AuditError
from opensafe.model import chain
from opensafe.model.records import DaemonRecord


class Written:
    """Records as a daemon with some crashes behind it leaves them: `lines` are its records'."""

    def __init__(self, state, seed, count=60):
        self.state, self.lines = state, []
        chance = random.Random(seed)
        (state / "audit").mkdir()
        head, segments = chain.Head(), [b""]
        while head.size < count:
            if chance.random() < 0.15:
                segments.append(b"")
            if chance.random() < 0.1:
                torn = chance.randbytes(chance.choice((1, 50, 3000))).replace(b"\n", b" ")
                sealed = chain.seal_torn(head, torn)
                segments[-1] += torn + b"\n"
            else:
                text = "a" * chance.choice((0, 10, 700, 5000))
                sealed = chain.seal(head, DaemonRecord(time_us=head.size, state="started", version=text, bundles={}))
            segments[-1] += sealed.line + b"\n"
            self.lines.append(sealed.line)
            head = sealed.head
        for number, content in enumerate(segments):
            segment_path(state, number).write_bytes(content)
        self.last = segment_path(state, len(segments) - 1)

    def ahead(self, index, end=None, size=1 << 30):
        return [one.line for one in ahead(self.state, index, len(self.lines) if end is None else end, size)]

    def back(self, before, end=None):
        found = backward(self.state, before, len(self.lines) if end is None else end)
        return [one.line for _, one in found if one is not None]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(past, "_BLOCK", 512)
    monkeypatch.setattr(past, "_NEAR", 256)


@pytest.fixture(params=range(12))
def written(tmp_path, request):
    return Written(tmp_path, request.param)


def test_every_record_is_found_forwards_and_back(written):
    for index in range(len(written.lines) + 1):
        assert written.ahead(index) == written.lines[index:]
        assert written.back(index) == written.lines[:index][::-1]


def test_pieces_go_on_without_gap_or_repeat(written):
    found: list[bytes] = []
    while len(found) < len(written.lines):
        piece = written.ahead(len(found), size=1000)
        assert piece
        found += piece
    assert found == written.lines


def test_what_is_not_on_disk_yet_is_neither_read_nor_asked_for(written):
    for end in (1, 30, 59):
        assert written.ahead(0, end) == written.lines[:end]
        assert written.back(60, end) == written.lines[:end][::-1]


@pytest.mark.parametrize("left", [b"", b"{", b"{}", b'{"index":60,"kind":"x"'])
def test_a_last_line_without_its_end_is_left_out(written, left):
    with written.last.open("ab") as file:
        file.write(left)
    for index in (0, 59, 60):
        assert written.ahead(index) == written.lines[index:]
        assert written.back(index) == written.lines[:index][::-1]


def test_a_line_that_lacks_its_end_alone_counts_where_another_segment_has_begun(tmp_path):
    written = Written(tmp_path, 1, count=10)
    written.last.write_bytes(written.last.read_bytes()[:-1])
    sealed = chain.seal(chain.Head(10, "0" * 64), {"kind": "daemon"})
    number = int(written.last.stem.partition("-")[2])
    segment_path(tmp_path, number + 1).write_bytes(sealed.line + b"\n")
    written.lines.append(sealed.line)
    for index in range(12):
        assert written.ahead(index) == written.lines[index:]
        assert written.back(index) == written.lines[:index][::-1]


def test_an_empty_segment_has_just_begun(written):
    number = int(written.last.stem.partition("-")[2])
    segment_path(written.state, number + 1).touch()
    assert written.ahead(0) == written.lines
    assert written.back(60) == written.lines[::-1]


def test_a_record_that_is_missing_is_an_error_and_no_gap(tmp_path):
    written = Written(tmp_path, 3)
    for end in (61, 99):
        with pytest.raises(AuditError, match="not where it has to be"):
            written.ahead(0, end)
        with pytest.raises(AuditError, match="not where it has to be"):
            written.back(end, end)
    for path in segment_paths(tmp_path):
        path.write_bytes(path.read_bytes().replace(written.lines[-2] + b"\n", b""))
    with pytest.raises(AuditError, match="not where it has to be"):
        written.ahead(58, 59)
    back = (one for _, one in backward(tmp_path, 60, 60) if one is not None)
    assert next(back).line == written.lines[59]
    with pytest.raises(AuditError, match="not where it has to be"):
        next(back)


def test_a_line_longer_than_any_record_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(past, "MAX_LINE", 2000)
    written = Written(tmp_path, 4)
    with pytest.raises(AuditError, match="longer than any record"):
        written.back(60)


def test_what_a_record_is_chosen_by_is_read_from_its_line():
    line = b'{"index":7,"kind":"connection","prev":"","rules":["egress.a"],"session_id":"ses-1","time_us":9}'
    one = past.entry(line)
    assert (one.index, one.facets.kind, one.session_id, one.facets.time_us) == (7, "connection", "ses-1", 9)
    assert [*one.facets.rule_ids] == ["egress.a"]
    assert past.entry(line[:-1]) is None
    assert past.entry(b"[]") is None
    assert past.entry(b"\xff") is None
