"""The guest's records are a stranger's bytes: exactly one form each, and nothing else gets to a client."""

import pytest

from opensafe import errors
from opensafe._proto.v1 import files_pb2
from opensafe.api import file_records


def test_an_entry_is_read_as_it_is():
    info = file_records.entry(b"f 123 0644 -1.000000005 a b\n\xff")
    assert (info.name, info.size, info.mode, info.mtime_unix_ns) == (b"a b\n\xff", 123, 0o644, -(10**9) + 5)
    assert info.type == files_pb2.FILE_TYPE_REGULAR


@pytest.mark.parametrize(
    "record",
    [
        b"", b"f", b"f 1 0644 1.000000000 ", b"f 1 0644 1.000000000 a/b", b"f 1 0644 1.000000000 ..",
        b"f 1 0644 1.000000000 .", b"f -1 0644 1.000000000 a", b"f 1 0999 1.000000000 a", b"q 1 0644 1.000000000 a",
        b"f 1 0644 1 a", b"f 9999999999999999999 0644 1.000000000 a", b"f 1 0644 999999999999.000000000 a",
        b"f 1 0644 1.000000000 " + b"n" * 256, b" f 1 0644 1.000000000 a", b"f  1 0644 1.000000000 a",
    ],
)  # fmt: skip
def test_R36_an_entry_that_is_none_ends_the_call(record):
    with pytest.raises(errors.FileFailed, match="malformed"):
        file_records.entry(record)


def test_a_change_is_read_as_it_is():
    change = file_records.change(b"t 7 d a/b")
    assert (change.kind, change.cookie, change.directory, change.path) == (
        files_pb2.FILE_CHANGE_KIND_MOVED_TO, 7, True, b"a/b",
    )  # fmt: skip


@pytest.mark.parametrize(
    "record", [b"", b"z 0 d a", b"c 0 d /a", b"c 0 d a/../b", b"c 0 d ..", b"c 4294967296 d a", b"c -1 d a", b"c 0  a"]
)
def test_a_change_that_is_none_ends_the_call(record):
    with pytest.raises(errors.FileFailed):
        file_records.change(record)


def test_records_are_cut_wherever_they_were_written():
    records = file_records.Records()
    assert [record for piece in (b"a", b"b\0c\0d", b"\0") for record in records.feed(piece)] == [b"ab", b"c", b"d"]
    records.end()


def test_a_record_without_end_is_bounded():
    records = file_records.Records()
    assert list(records.feed(b"x" * file_records.MAX_RECORD)) == []
    with pytest.raises(errors.FileFailed):
        list(records.feed(b"x"))


def test_a_record_that_is_cut_ends_the_call():
    records = file_records.Records()
    assert list(records.feed(b"half")) == []
    with pytest.raises(errors.FileFailed):
        records.end()


def test_what_was_left_out_is_read_and_counted():
    done = file_records.left_out(b"held a\0special b\nc\0file: download: 5 left out: .\n")
    assert [(item.reason, item.path) for item in done.left_out] == [("held", b"a"), ("special", b"b\nc")]
    assert done.left_out_count == 5
    assert file_records.left_out(b"").left_out_count == 0
    with pytest.raises(errors.FileFailed):
        file_records.left_out(b"invented a\0")


@pytest.mark.parametrize("status", [10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21])
def test_each_status_of_the_helper_has_an_error_of_its_own(status):
    error = file_records.failure(status, b"file: read: ENOENT: a\x1b[2J\n", "/workspace/a")
    assert type(error) not in (errors.FileError, errors.FileFailed)
    assert "\x1b" not in str(error)
    assert error.value == "/workspace/a"


@pytest.mark.parametrize("status", [1, 2, 16, 126, 255])
def test_an_unknown_status_is_a_failure(status):
    assert type(file_records.failure(status, b"", "a")) is errors.FileFailed
