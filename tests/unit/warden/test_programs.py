"""The runner's report, and the command line of the runner."""

import struct

import pytest

from opensafe.model.calls import Program
from opensafe.model.ids import new_id
from opensafe.model.limits import CallLimits
from opensafe.model.sandbox import Launch
from opensafe.warden.sandbox import programs, runner


def record(kind, stage, value, remaining):
    return struct.pack("<IIiI", kind, stage, value, remaining)


@pytest.mark.parametrize(
    ("raw", "kind", "value", "detail", "remaining"),
    [
        (record(1, 0, 0, 0), "exited", 0, "", False),
        (record(1, 0, 3 << 8, 1), "exited", 3, "", True),
        (record(1, 0, 255 << 8, 0), "exited", 255, "", False),
        (record(1, 0, 9, 0), "signalled", 9, "", False),
        (record(1, 0, 11 | 0x80, 0), "signalled", 11, "", False),
        (record(1, 0, 0, 2), "exited", 0, "", False),
        (record(1, 0, 9, 3), "signalled", 9, "", True),
        (record(2, 15, 2, 0), "not_started", 2, "exec", False),
        (record(2, 13, 13, 0), "not_started", 13, "cwd", False),
    ],
)
def test_a_report_is_read(raw, kind, value, detail, remaining):
    reported = programs._decode(raw)
    assert reported is not None
    assert (reported.kind, reported.value, reported.detail, reported.remaining) == (kind, value, detail, remaining)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0" * 15,
        record(0, 0, 0, 0),
        record(3, 0, 0, 0),
        record(1, 0, 0x137F, 0),  # stopped, which nobody waits for
        record(1, 0, 0, 4),
        record(2, 18, 2, 0),
    ],
)
def test_what_no_runner_writes_is_no_end(raw):
    """R9: an end is never made up."""
    assert programs._decode(raw) is None


def launch(**changes):
    program = Program(argv=("a", "--", "b"), env=changes.pop("env", {}), cwd="/w")
    return Launch(
        sandbox_id=new_id("sb"), exec_id=new_id("exec"), program=program, profile="default", limits=CallLimits()
    )


def test_the_runner_gets_all_that_was_decided():
    made = runner.guest_program(launch(env={"A": "b"}), {0: 10, 1: 11, 2: 12}, report=13, filtered=14)
    assert made.argv == (
        "/.opensafe/run",
        *(
            "--uid",
            "1000",
            "--gid",
            "1000",
            "--runner-uid",
            "990",
            "--report-fd",
            "3",
            "--filter-fd",
            "4",
            "--cwd",
            "/w",
        ),
        *("--rlimit", "NPROC=128", "--rlimit", f"AS={768 << 20}", "--rlimit", f"FSIZE={512 << 20}"),
        *("--rlimit", "NOFILE=1024", "--rlimit", "CORE=0", "--", "a", "--", "b"),
    )
    assert made.env == ("HOME=/workspace", "A=b")
    assert made.capabilities == ("CAP_SETGID", "CAP_SETUID")
    assert made.descriptors == {0: 10, 1: 11, 2: 12, 3: 13, 4: 14}


def test_a_home_that_was_decided_stays():
    made = runner.guest_program(launch(env={"HOME": "/x"}), {}, report=3, filtered=4)
    assert made.env == ("HOME=/x",)
