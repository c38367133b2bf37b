"""What is removed from the archive of bundles, and what never is: the records are real ones."""

import os

import msgspec
import pytest

from opensafe.model.canonical import canonical_json
from opensafe.model.records import Bundle, BundleRecord, DaemonRecord, RefusalRecord
from opensafe.warden.prune import AT_ONCE, SPARES, prune


def digest(number):
    return f"{number:064x}"


def line(record):
    return canonical_json({**msgspec.to_builtins(record), "index": 0, "prev": "0" * 64}) + b"\n"


def judged_by(number):
    bundle = Bundle(revision=f"{number}-x", digest=digest(number))
    return line(DaemonRecord(time_us=1, state="stopped", version="0", bundles={"opensafe": bundle}))


def put(number, state):
    return line(BundleRecord(time_us=1, state=state, digest=digest(number), number=number, reason="r"))


@pytest.fixture
def place(tmp_path):
    """Makes an archive of bundles 0 to `count` - 1, the newest last, and a log of two segments; prunes."""
    archive, audit = tmp_path / "bundles", tmp_path / "audit"
    archive.mkdir()
    audit.mkdir()

    def pruned(count, *segments):
        for number in range(count):
            path = archive / f"{digest(number)}.tar.gz"
            path.touch()
            os.utime(path, (number, number))
        for number, lines in enumerate(segments):
            (audit / f"segment-{number:06d}.jsonl").write_bytes(b"".join(lines))
        removed = [int(name, 16) for name in prune(archive, audit)]
        assert {path.name for path in archive.glob("*.tar.gz")} == {
            f"{digest(number)}.tar.gz" for number in set(range(count)) - set(removed)
        }
        return removed

    return pruned


def test_few_are_kept_all(place):
    assert place(SPARES, []) == []


def test_the_oldest_of_those_that_nobody_needs_go(place):
    assert place(SPARES + 3, []) == [0, 1, 2]


def test_what_a_record_was_judged_by_stays_whatever_its_segment(place):
    assert place(SPARES + 5, [judged_by(0)], [judged_by(2)]) == [1, 3, 4]


def test_of_what_was_put_in_place_only_the_last_activated_is_needed(place):
    log = [put(0, "activated"), put(1, "activated"), put(2, "refused"), put(3, "removed")]
    assert place(SPARES + 5, log) == [0, 2, 3, 4]


def test_a_client_that_writes_of_a_bundle_can_keep_one_and_remove_none(place):
    text = msgspec.json.encode({"bundles": {"opensafe": {"digest": digest(0)}}}).decode()
    said = RefusalRecord(
        time_us=1, principal="a", session_id="", call_id="", tool=text, reason="", message=put(1, "activated").decode()
    )
    assert place(SPARES + 2, [judged_by(1), line(said)]) == [0]


def test_not_more_than_so_many_at_one_start(place):
    assert place(SPARES + AT_ONCE + 10, []) == list(range(AT_ONCE))


def test_a_log_that_can_not_be_read_removes_nothing(place, tmp_path):
    (tmp_path / "audit" / "segment-000001.jsonl").mkdir()
    assert place(SPARES + 3, []) == []


def test_other_files_are_nobodys_concern(place, tmp_path):
    for name in (".part", "x.tar.gz.part", "UPPER" + "A" * 59 + ".tar.bz2"):
        (tmp_path / "bundles" / name).touch()
    assert place(SPARES + 1, []) == [0]
    assert (tmp_path / "bundles" / ".part").exists()
