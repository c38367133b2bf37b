"""Reports from a sentry that may be the guest's: read, or refused."""

import contextlib
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opensafe.monitor import events
from tests.unit.monitor.wire import SANDBOX, SIGSYS, clone, end, execution, field, report


def parse(raw):
    return events.parse(memoryview(raw))


def test_reports_of_the_pinned_sentry_are_read():
    cloned = parse(clone(2, 3, parent=1, flags=16640))
    assert (cloned.kind, cloned.pid, cloned.parent, cloned.child, cloned.flags) == (events.CLONE, 2, 1, 3, 16640)
    executed = parse(execution(3, "/usr/bin/true", parent=2, argv=("/bin/true",)))
    assert (executed.pid, executed.parent, executed.path, executed.container) == (3, 2, "/usr/bin/true", SANDBOX)
    ended = parse(end(3, parent=2, status=SIGSYS, dropped=7))
    assert (ended.kind, ended.status, ended.dropped) == (events.EXIT, SIGSYS, 7)
    assert parse(end(2)).parent == 0


def test_a_header_may_grow_and_hide_nothing():
    longer = report(4, pid=2, size=12)
    assert parse(longer[:8] + b"\0" * 4 + longer[8:]).pid == 2


def test_long_command_lines_cost_no_more_than_short_ones():
    """What stands behind the path is never looked at: no count of arguments makes one report a burden."""
    raw = execution(3, "/bin/x", argv=("a",) * 200_000)
    assert parse(raw) == parse(raw[:64])  # cut in the middle of argv


def test_paths_are_bytes_to_the_guest():
    assert parse(execution(3, b"/tmp/\xff")).path == "/tmp/\\xff"
    assert parse(execution(3, "/tmp/\N{SNOWMAN}")).path == "/tmp/\N{SNOWMAN}"


_CONTEXT = field(1, field(4, 2) + field(6, SANDBOX))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x08\x00\x03",
        struct.pack("<HHI", 8, 0, 0) + _CONTEXT,  # unknown type
        struct.pack("<HHI", 8, 7, 0) + _CONTEXT,  # a type that was not asked for
        struct.pack("<HHI", 65535, 3, 0) + _CONTEXT,
        struct.pack("<HHI", 0, 3, 0) + _CONTEXT,
        struct.pack("<HHI", 8, 3, 0),  # no context
        struct.pack("<HHI", 8, 4, 0) + _CONTEXT[:-1],
        struct.pack("<HHI", 8, 4, 0) + field(1, field(6, SANDBOX)),  # whose?
        struct.pack("<HHI", 8, 4, 0) + field(1, field(4, 0)),
        struct.pack("<HHI", 8, 4, 0) + field(1, field(4, 1 << 40)),
        struct.pack("<HHI", 8, 4, 0) + field(1, field(4, (1 << 64) - 1)),
        struct.pack("<HHI", 8, 4, 0) + field(1, field(4, b"2")),
        struct.pack("<HHI", 8, 4, 0) + field(1, 5),
        struct.pack("<HHI", 8, 4, 0) + field(1, field(4, 2) + field(6, "x" * 65)),
        struct.pack("<HHI", 8, 4, 0) + _CONTEXT + _CONTEXT,  # twice
        struct.pack("<HHI", 8, 4, 0) + field(2, 1) + _CONTEXT,  # backwards
        struct.pack("<HHI", 8, 4, 0) + _CONTEXT + b"\x10" + b"\xff" * 10,
        struct.pack("<HHI", 8, 3, 0) + _CONTEXT + field(2, "/" * 4097),
        struct.pack("<HHI", 8, 3, 0) + _CONTEXT + b"\x12\xff\xff\xff\x7f/bin",
        struct.pack("<HHI", 8, 2, 0) + _CONTEXT + b"\x1d\0\0\0\0",  # a wire type that no field has
        struct.pack("<HHI", 8, 2, 0) + _CONTEXT,  # a clone of nobody
    ],
)
def test_what_no_sentry_sends_is_refused(raw):
    with pytest.raises(events.MalformedReportError):
        parse(raw)


@settings(max_examples=600, deadline=None)
@given(st.binary(max_size=300))
@example(b"\x08\x00\x03\x00\x00\x00\x00\x00\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")
def test_any_bytes_are_read_or_refused(raw):
    with contextlib.suppress(events.MalformedReportError):
        parse(raw)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from([clone(2, 3), execution(3, "/bin/x"), end(3, 2, 31)]), st.data())
def test_a_damaged_report_is_read_or_refused(raw, data):
    at = data.draw(st.integers(0, len(raw) - 1))
    damaged = raw[:at] + data.draw(st.binary(max_size=12)) + raw[at + data.draw(st.integers(0, 12)) :]
    with contextlib.suppress(events.MalformedReportError):
        event = parse(damaged)
        assert 0 < event.pid < 1 << 23
        assert len(event.path) <= 4 * 4096
