"""run with a terminal, on plain Linux: what is typed, what comes out, sizes, hang-up."""

import fcntl
import os
import signal
import struct
import time

import pytest

from tests.native.support import Call, Record, children_of, wait_for_end

pytestmark = pytest.mark.root

TERMINAL, EPIPE = 16, 32
PYTHON = "/usr/bin/python3"


def size(columns, rows):
    return struct.pack("<HH", columns, rows)


SMALL = size(80, 24)


@pytest.fixture
def call(native):
    """Starts `run` with a command on a terminal: call(*command, sizes=…)."""
    calls = []

    def start(*command, sizes=SMALL, **options):
        calls.append(Call(native / "guest" / "run", *map(str, command), sizes=sizes, **options))
        return calls[-1]

    yield start
    for each in calls:
        each.close()


def say(call, data):
    call.process.stdin.write(data)
    call.process.stdin.flush()


def hear(call, text):
    """Reads until `text` has come out; all of it."""
    heard = b""
    while text not in heard:
        chunk = os.read(call.process.stdout.fileno(), 4096)
        assert chunk, f"ended without {text!r}: {heard!r}"
        heard += chunk
    return heard


def shell(call, script, **options):
    return call("/bin/sh", "-c", script, **options)


def ended(call):
    """(record, what came out until the end), after the end of input."""
    output, errors = call.process.communicate(timeout=20)
    assert errors == b"", "there is one stream"
    return call.record(), output


EXITED = Record(Record.LEADER_EXITED, 0, 0, 0)


def test_three_streams_are_one_terminal_of_the_command_s_user(call):
    record, output = ended(shell(call, "tty; stat -c %u $(tty); test -t 0 -a -t 1 -a -t 2 && echo all >&2"))
    name, owner, all_three = output.split(b"\r\n")[:3]
    assert record == EXITED
    assert name.startswith(b"/dev/pts/")
    assert (owner, all_three) == (b"1000", b"all")


def test_it_is_the_controlling_terminal_of_the_command_s_session(call):
    look = "import os; f = os.open('/dev/tty', os.O_RDWR); print(os.tcgetpgrp(f) == os.getpgrp() == os.getpid())"
    assert ended(call(PYTHON, "-c", look)) == (EXITED, b"True\r\n")


def test_fs18_command_sees_three_descriptors_only(call):
    look = "for fd in $(seq 0 64); do [ -e /proc/self/fd/$fd ] && echo $fd; done"
    assert ended(shell(call, look))[1].split() == [b"0", b"1", b"2"]


def test_size_at_the_start_is_the_last_one_that_was_there(call):
    assert ended(shell(call, "stty size", sizes=size(1, 1) + size(132, 50)))[1] == b"50 132\r\n"


def test_resize_is_seen_and_signalled(call):
    running = shell(call, "trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done")
    hear(running, b"up")
    for columns in range(100, 110):
        os.write(running.control, size(columns, 7))
        hear(running, b"7 %d" % columns)
    running.hang_up()


@pytest.mark.parametrize(("typed", "came"), [(b"", b""), (b"one\ntwo\n", b"one\ntwo\n"), (b"half", b"half")])
def test_r20_end_of_input_ends_reading_also_in_the_midst_of_a_line(call, typed, came):
    running = shell(call, "stty -echo; echo; cat")
    hear(running, b"\r\n")  # the echo is off by now
    say(running, typed)
    record, output = ended(running)
    assert (record, output.replace(b"\r\n", b"\n")) == (EXITED, came)


def test_r22_all_byte_values_pass_in_both_directions(call):
    data = bytes(range(256)) * 64
    echo = f"import os, sys, tty; tty.setraw(0); os.write(1, b'!'); n = {len(data)}\n"
    echo += "while n: d = os.read(0, n); os.write(1, d); n -= len(d)"
    running = call(PYTHON, "-c", echo)
    hear(running, b"!")
    say(running, data)
    record, output = ended(running)
    assert (record, output) == (EXITED, data)


def test_signal_characters_reach_the_foreground(call):
    running = shell(call, "trap 'echo int; exit 3' INT; trap 'echo quit' QUIT; echo up; while :; do sleep 0.01; done")
    hear(running, b"up")
    say(running, b"\x1c")
    hear(running, b"quit")
    say(running, b"\x03")
    record, output = ended(running)
    assert record == Record(Record.LEADER_EXITED, 0, 3 << 8, 0)
    assert b"int" in output


def test_job_control_stops_and_continues(call):
    running = call("/bin/bash", "--norc", "-i", environment={"PATH": "/usr/bin:/bin", "PS1": "ready> "})
    hear(running, b"ready> ")
    say(running, b"echo up; cat\n")
    hear(running, b"\nup\r\n")
    say(running, b"word\n")
    hear(running, b"word\r\nword\r\n")  # the echo and the answer
    say(running, b"\x1a")
    hear(running, b"ready> ")
    say(running, b"jobs; fg\n")
    assert b"Stopped" in hear(running, b"\ncat\r\n")
    say(running, b"again\n")
    hear(running, b"again\r\nagain\r\n")
    say(running, b"\x03")
    hear(running, b"ready> ")
    say(running, b"exit 7\n")
    assert ended(running)[0].value == 7 << 8


def test_r24_flood_of_output_arrives_whole_through_a_slow_reader(call):
    running = shell(call, "stty raw; yes | head -c 3000000")
    heard = 0
    while chunk := os.read(running.process.stdout.fileno(), 1000):
        heard += len(chunk)
    assert heard == 3_000_000
    assert running.record() == EXITED


def test_flood_of_input_that_nobody_reads_holds_back_the_writer_and_nothing_else(call):
    running = shell(call, "stty raw -echo; echo up; exec sleep 1000")
    hear(running, b"up")
    os.set_blocking(running.process.stdin.fileno(), False)
    written = 0
    stuck = 0
    while stuck < 100:
        try:
            written += os.write(running.process.stdin.fileno(), b"x" * 4096)
            stuck = 0
        except BlockingIOError:
            stuck += 1
            time.sleep(0.001)
    assert written < 1 << 20
    (leader,) = children_of(running.process.pid)
    os.kill(leader, signal.SIGKILL)
    assert running.record() == Record(Record.LEADER_EXITED, 0, signal.SIGKILL, 0)


def test_signal_character_gets_through_while_nobody_reads(call):
    running = call("/usr/bin/yes")
    hear(running, b"y\r\ny")
    (leader,) = children_of(running.process.pid)
    pidfd = os.pidfd_open(leader)
    say(running, b"\x03")
    wait_for_end(pidfd)
    os.close(pidfd)
    running.hang_up()  # else it might wait for a reader for five seconds
    assert running.record().value == signal.SIGINT


def test_r26_output_that_nobody_takes_is_told(call, open_dir):
    open_dir.chmod(0o777)
    running = shell(call, f"stty raw; read go; head -c 9000 /dev/zero; touch {open_dir}/done; exec sleep 1000")
    fcntl.fcntl(running.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    say(running, b"\n")
    while not list(open_dir.iterdir()):
        time.sleep(0.001)
    (leader,) = children_of(running.process.pid)
    os.kill(leader, signal.SIGKILL)
    running.hang_up()
    record = running.record()
    assert record.value == signal.SIGKILL
    assert record.flags & Record.CUT


def test_closed_output_hangs_up(call):
    running = call("/usr/bin/yes")
    hear(running, b"y\r\ny")
    running.process.stdout.close()
    assert running.record() == Record(Record.LEADER_EXITED, 0, signal.SIGHUP, Record.CUT)


def test_end_of_the_control_pipe_hangs_up(call):
    running = shell(call, "trap 'exit 9' HUP; echo up; while :; do sleep 0.01; done")
    hear(running, b"up")
    running.hang_up()
    assert running.record() == Record(Record.LEADER_EXITED, 0, 9 << 8, 0)


@pytest.mark.parametrize("rest", [b"x", b"xyz", size(1, 1) + b"x"])
def test_what_is_no_record_of_sizes_hangs_up(call, rest):
    running = shell(call, "trap 'exit 9' HUP; echo up; while :; do sleep 0.01; done")
    hear(running, b"up")
    os.write(running.control, rest)
    assert running.record().value == 9 << 8


@pytest.mark.parametrize("sizes", [b"x", size(1, 1) + b"xyz"])
def test_wrong_first_size_is_stage_terminal(call, open_dir, sizes):
    open_dir.chmod(0o777)
    running = call("/usr/bin/touch", open_dir / "executed", sizes=sizes)
    assert running.record() == Record(Record.SETUP_FAILED, TERMINAL, EPIPE, 0)
    assert list(open_dir.iterdir()) == []


def test_what_the_leader_leaves_is_hung_up(call):
    running = shell(call, "trap '' INT; (trap 'exit' HUP; echo up; while :; do sleep 0.01; done) & sleep 0.2; exit 4")
    hear(running, b"up")
    pidfd = os.pidfd_open(running.process.pid)
    assert running.record().value == 4 << 8
    wait_for_end(pidfd)
    os.close(pidfd)


def test_command_cannot_signal_the_runner_that_holds_its_terminal(call):
    running = shell(call, "kill -9 $PPID; kill -0 $$ && echo itself; cat /proc/$PPID/fd/3")
    record, output = ended(running)
    assert record.value != 0
    assert b"itself" in output
    assert output.lower().count(b"not permitted") + output.lower().count(b"permission denied") == 2
