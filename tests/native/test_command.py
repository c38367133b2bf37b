"""run, started before its command is known: one packet with words, environment and streams, on plain Linux."""

import os
import signal
import socket
import struct

import pytest

from tests.native.support import (
    EXDEV,
    MKDIR,
    MKDIRAT,
    Record,
    answering,
    children_of,
    parse_status,
    pipe_of,
    popen,
)

pytestmark = pytest.mark.root

COMMAND, EXEC, CWD = 17, 15, 13
ENOENT, EINVAL, ECANCELED = 2, 22, 125
FILTER = answering(EXDEV, MKDIR, MKDIRAT)


def packet(*words, env=("PATH=/usr/bin:/bin",)):
    text = b"".join(os.fsencode(word) + b"\0" for word in (*words, *env))
    return struct.pack("<II", len(words), len(env)) + text


class Waiting:
    """A runner that waits, and pipes for its program."""

    def __init__(self, run, program=FILTER, extra=(), bare=False):
        self.command, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.report, writer = os.pipe()
        filtered = pipe_of(program)
        prefix = ["/usr/bin/setpriv", "--bounding-set", "-all,+setuid,+setgid"]
        if bare:  # as the warden starts it: with no streams of its own
            prefix = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *prefix]
        words = ["--uid", "1000", "--gid", "1000", "--runner-uid", "990", "--report-fd", str(writer)]
        words += ["--filter-fd", str(filtered), "--command-fd", str(theirs.fileno()), *extra]
        passed = (writer, filtered, theirs.fileno())
        self.process = popen([*prefix, run, *words], pass_fds=passed, env={"SECRET": "of the runner"})
        for fd in (writer, filtered):
            os.close(fd)
        theirs.close()
        self.pipes = [os.pipe() for _ in range(3)]

    def send(self, data, streams=3):
        ends = [self.pipes[0][0], self.pipes[1][1], self.pipes[2][1]] * 2
        socket.send_fds(self.command, [data], ends[:streams])

    def finish(self):
        """(record, output)."""
        for end in (self.pipes[0][0], self.pipes[0][1], self.pipes[1][1], self.pipes[2][1]):
            os.close(end)
        with open(self.pipes[1][0], "rb") as output:
            text = output.read()
        os.close(self.pipes[2][0])
        record = Record.read(self.report)
        assert Record.read(self.report) is None
        os.close(self.report)
        self.command.close()
        self.process.wait(timeout=20)
        return record, text


@pytest.fixture
def waiting(native):
    made = []

    def start(*args, **options):
        made.append(Waiting(native / "guest" / "run", *args, **options))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()
        each.process.wait()


def exited(code):
    return Record(Record.LEADER_EXITED, 0, code << 8, 0)


def child_of(runner):
    while not (found := children_of(runner.process.pid)):
        os.sched_yield()
    return found[0]


@pytest.mark.parametrize("bare", [False, True])
def test_command_runs_with_what_the_packet_says_and_nothing_of_the_runner(waiting, bare):
    runner = waiting(bare=bare)
    script = "ulimit -n; pwd; env; ls /proc/self/fd; cat /proc/self/status; mkdir /tmp/never; exit 3"
    runner.send(
        packet("--cwd", "/usr", "--rlimit", "NOFILE=33", "--", "/bin/sh", "-c", script, env=("A=b c", "PATH=/bin"))
    )
    record, output = runner.finish()
    lines = output.decode().split("\n")
    assert record == exited(3)
    assert lines[:2] == ["33", "/usr"]
    assert {"A=b c", "PATH=/bin"} <= set(lines)
    assert b"SECRET" not in output
    assert [line for line in lines if line.isdigit()][1:] == ["0", "1", "2", "3"]  # the last is ls's own
    status = parse_status("\n".join(line for line in lines if ":" in line))
    assert status["Uid"].split() == ["1000"] * 4
    assert (status["CapEff"], status["NoNewPrivs"], status["Seccomp"], status["SigBlk"]) == (
        "0" * 16,
        "1",
        "2",
        "0" * 16,
    )


def test_arguments_pass_unchanged(waiting):
    runner = waiting()
    words = ("", "a  b", "--", "\n", "x" * 60_000)
    runner.send(packet("--cwd", "/", "--", "/usr/bin/printf", "%s|", *words))
    assert runner.finish() == (exited(0), "".join(f"{word}|" for word in words).encode())


def test_what_waits_cannot_be_opened_by_another_process_of_the_same_user(waiting):
    runner = waiting()
    pid = child_of(runner)
    tries = (
        "import os\n"
        f"for pid in ({pid}, os.getpid()):\n"
        "  for name in ('mem', 'environ', 'fd/0'):\n"
        "    try: os.close(os.open(f'/proc/{pid}/{name}', os.O_RDONLY)); print('open')\n"
        "    except PermissionError: print('refused')\n"
    )
    while True:  # it takes its identity first
        with open(f"/proc/{pid}/status") as file:
            if parse_status(file.read())["Seccomp"] == "2":
                break
    done = popen(["/usr/bin/python3", "-c", tries], stdout=-1, user=1000, group=1000, extra_groups=[]).communicate()[0]
    assert done.split() == [b"refused"] * 3 + [b"open"] * 3
    runner.send(packet("--cwd", "/", "--", "/bin/true"))
    assert runner.finish()[0] == exited(0)


WORDS = ("--cwd", "/", "--", "/bin/true")
WHOLE = packet(*WORDS)


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        WHOLE[:7],
        WHOLE[:-1],
        WHOLE + b"\0",
        WHOLE + b"x",
        struct.pack("<II", 5, 1) + WHOLE[8:],
        struct.pack("<II", 2**31, 2**31) + WHOLE[8:],
        struct.pack("<II", 0xFFFFFFFF, 2) + WHOLE[8:],
        struct.pack("<II", 0, 0),
        packet("--", "/bin/true"),
        packet("--cwd", "/"),
        packet("--cwd", "/", "--"),
        packet("--cwd", "relative", "--", "/bin/true"),
        packet("--cwd", "/", "--uid", "0", "--", "/bin/true"),
        packet("--cwd", "/", "--runner-uid", "1000", "--", "/bin/true"),
        packet("--cwd", "/", "--rlimit", "NOFILE=-1", "--", "/bin/true"),
        packet("--cwd", "/", "--", *["x"] * 2100),
        packet(*WORDS, "x" * 70_000),
    ],
)
def test_what_is_no_packet_runs_nothing(waiting, data):
    runner = waiting()
    runner.send(data)
    assert runner.finish()[0] == Record(Record.SETUP_FAILED, COMMAND, EINVAL, 0)


@pytest.mark.parametrize("streams", [0, 1, 2, 4])
def test_three_streams_and_no_other_number(waiting, streams):
    runner = waiting()
    runner.send(WHOLE, streams=streams)
    assert runner.finish()[0] == Record(Record.SETUP_FAILED, COMMAND, EINVAL, 0)


def test_r9_one_that_is_not_needed_says_that_nothing_ran(waiting):
    runner = waiting()
    runner.command.close()
    assert runner.finish()[0] == Record(Record.SETUP_FAILED, COMMAND, ECANCELED, 0)


def test_later_stages_are_told_as_ever(waiting):
    for words, stage in ((("--cwd", "/nowhere", "--", "/bin/true"), CWD), (("--cwd", "/", "--", "/nowhere"), EXEC)):
        runner = waiting()
        runner.send(packet(*words))
        assert runner.finish()[0] == Record(Record.SETUP_FAILED, stage, ENOENT, 0)


def test_one_that_is_killed_while_it_waits_is_reported(waiting):
    runner = waiting()
    os.kill(child_of(runner), signal.SIGKILL)
    assert runner.finish()[0] == Record(Record.LEADER_EXITED, 0, signal.SIGKILL, 0)


def test_signals_that_can_be_blocked_do_not_end_the_waiting(waiting):
    runner = waiting()
    pid = child_of(runner)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(pid, number)
    runner.send(packet("--cwd", "/", "--", "/bin/sh", "-c", "exit 4"))
    record, _ = runner.finish()
    assert record.kind == Record.LEADER_EXITED  # they are pending, and take effect on the program


@pytest.mark.parametrize(
    "extra", [("--cwd", "/"), ("--rlimit", "NOFILE=3"), ("--", "/bin/true"), ("--terminal-fd", "9")]
)
def test_what_belongs_to_the_packet_is_refused_on_the_command_line(waiting, extra):
    runner = waiting(extra=extra)
    assert runner.finish()[0] == Record(Record.SETUP_FAILED, 1, EINVAL, 0)


def test_filter_is_on_before_the_command_comes(waiting):
    runner = waiting()
    pid = child_of(runner)
    while True:
        with open(f"/proc/{pid}/status") as file:
            status = parse_status(file.read())
        if status["Seccomp"] == "2":
            break
    assert (status["CapEff"], status["CapPrm"], status["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
    runner.send(packet("--cwd", "/", "--", "/bin/true"))
    assert runner.finish()[0] == exited(0)
