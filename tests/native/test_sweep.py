"""sweep on plain Linux, with calls that are harmless there: what each answers, and that none is skipped."""

import os
import subprocess

import pytest

from tests.native.support import EXDEV, KILL_PROCESS, answering, pipe_of

GETUID, GETPID, PAUSE, EXIT, KILL, FORK, VFORK, CLONE, UMASK = 102, 39, 34, 60, 62, 57, 58, 56, 95
NOWHERE = 9999
STOP, TERMINATE = 19, 15


@pytest.fixture
def sweep(native):
    def run(*words, **options):
        program = native / "proof" / "sweep"
        done = subprocess.run([program, *map(str, words)], capture_output=True, timeout=20, text=True, **options)
        return done.returncode, done.stdout.splitlines()

    return run


def test_each_call_is_answered_in_its_order(sweep):
    status, lines = sweep("fork", "syscall", NOWHERE, GETUID, NOWHERE + 1)
    assert status == 0
    assert lines == [f"{NOWHERE} errno=ENOSYS/38", f"{GETUID} result={os.getuid()}", "10000 errno=ENOSYS/38", "done 3"]


def test_what_blocks_stops_or_ends_its_process_is_answered_so_and_the_next_goes_on(sweep):
    attempts = {
        PAUSE: "blocked",
        f"{EXIT}:3": "exited=3",
        f"{KILL}:i,{TERMINATE}": f"signal={TERMINATE}",
        f"{KILL}:i,{STOP}": f"stopped={STOP}",
        f"{UMASK}:1": "result=18",
    }
    status, lines = sweep("fork", "syscall", *attempts, preexec_fn=lambda: os.umask(0o22))
    assert status == 0
    expected = [f"{str(word).partition(':')[0]} {answer}" for word, answer in attempts.items()]
    assert lines == [*expected, f"done {len(attempts)}"]


@pytest.mark.parametrize("number", [FORK, VFORK, CLONE])
def test_a_call_that_makes_a_child_leaves_one_sweep(sweep, number):
    status, lines = sweep("fork", "syscall", number, NOWHERE)
    assert status == 0
    assert lines[0].startswith(f"{number} result=")
    assert lines[1:] == [f"{NOWHERE} errno=ENOSYS/38", "done 2"]


def test_a_process_that_a_call_got_through_to_makes_no_further_one(sweep):
    """GETPID answers with another number each time: each is a child of its own."""
    _, lines = sweep("fork", "syscall", GETPID, GETPID)
    assert len(set(lines[:2])) == 2


def test_alone_it_stops_where_one_got_through(sweep):
    assert sweep("alone", "syscall", NOWHERE, GETUID, NOWHERE) == (
        0, [f"{NOWHERE} errno=ENOSYS/38", f"{GETUID} result={os.getuid()}"],
    )  # fmt: skip
    assert sweep("alone", "syscall", NOWHERE) == (0, [f"{NOWHERE} errno=ENOSYS/38", "done 1"])


@pytest.mark.parametrize(("answer", "says"), [(EXDEV, "errno=EXDEV/18"), (KILL_PROCESS, "signal=31")])
def test_a_filter_shows(native, answer, says):
    """Run by the runner with a filter, as in a sandbox."""
    filtered, (report, report_end) = pipe_of(answering(answer, UMASK)), os.pipe()
    words = [native / "guest" / "run", "--uid", "65534", "--gid", "65534", "--cwd", "/", "--runner-uid", "65533"]
    options = ["--report-fd", str(report_end), "--filter-fd", str(filtered), "--"]
    done = subprocess.run(
        [*words, *options, native / "proof" / "sweep", "fork", "syscall", str(UMASK), str(NOWHERE)],
        pass_fds=(filtered, report_end), capture_output=True, text=True, timeout=20,
    )  # fmt: skip
    for descriptor in (filtered, report, report_end):
        os.close(descriptor)
    assert done.stdout.splitlines() == [f"{UMASK} {says}", f"{NOWHERE} errno=ENOSYS/38", "done 2"]


@pytest.mark.parametrize(
    "words",
    [
        [], ["fork"], ["fork", "syscall"], ["x", "syscall", 1], ["fork", "x", 1], ["fork", "syscall", "x"],
        ["fork", "syscall", "1:x"], ["fork", "syscall", "1:0,0,0,0,0,0,0"], ["fork", "syscall", "1:,"],
        ["fork", "syscall", *([1] * 2049)],
    ],
)  # fmt: skip
def test_usage(sweep, words):
    assert sweep(*words) == (2, [])
