"""Filters, records and processes that the tests of native/ share."""

import contextlib
import dataclasses
import os
import select
import signal
import struct
import subprocess

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
EXDEV = 0x00050000 | 18

LOAD_NUMBER = (0x20, 0, 0, 0)  # BPF_LD | BPF_W | BPF_ABS at offset 0 of struct seccomp_data
RETURN = 0x06
JUMP_IF_EQUAL = 0x15

MKDIR, MKDIRAT = 83, 258


def bpf(*instructions):
    """An array of struct sock_filter from (code, jt, jf, k)."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def answering(answer, *numbers):
    """A filter that answers the given system calls so and allows the rest."""
    tests = [(JUMP_IF_EQUAL, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    return bpf(LOAD_NUMBER, *tests, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, answer))


def pipe_of(data):
    """The reading end of a pipe that holds `data` (up to 64 KiB) and then ends."""
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    return reader


def status_of(pid="self"):
    """/proc/PID/status as a dict."""
    with open(f"/proc/{pid}/status") as file:
        return parse_status(file.read())


def parse_status(text):
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def popen(words, **options):
    """subprocess.Popen, without types: the pipes asked for are there."""
    return subprocess.Popen(words, **options)


def wait_for_end(pidfd, seconds=20):
    """Blocks until the process of a pidfd has ended; fails the test when it does not."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    assert poller.poll(seconds * 1000), "the process is still there"


@dataclasses.dataclass(frozen=True)
class Record:
    """One report of `run`, as native/guest/report.h defines it."""

    kind: int
    stage: int
    value: int
    flags: int

    LEADER_EXITED = 1
    SETUP_FAILED = 2
    REMAINING = 1
    CUT = 2

    @classmethod
    def read(cls, fd):
        """The next record, or None at the end of file."""
        data = os.read(fd, 16)
        return cls(*struct.unpack("<IIiI", data)) if data else None


class Call:
    """One `run` on this host, started with the two capabilities that it has in a sandbox and no other."""

    PREFIX = ("/usr/bin/setpriv", "--bounding-set", "-all,+setuid,+setgid")
    #: As for a program of uid 0.
    ROOT_PREFIX = ("/usr/bin/setpriv", "--bounding-set", "-all,+setuid,+setgid,+setpcap")

    def __init__(
        self,
        run,
        *command,
        ids=("1000", "1000"),
        options=(),
        bpf_filter=None,
        environment=None,
        cwd="/",
        prefix=PREFIX,
        sizes=None,
        **how,
    ):
        """`sizes`: what the control pipe of a terminal holds at the start; `control` is its other end."""
        self.report, writer = os.pipe()
        passed = [writer]
        words = [*prefix, run, "--uid", ids[0], "--gid", ids[1], "--runner-uid", "990", "--cwd", str(cwd)]
        words += ["--report-fd", str(writer), *options]
        if bpf_filter is not None:
            passed.append(pipe_of(bpf_filter))
            words += ["--filter-fd", str(passed[-1])]
        self.control = None
        if sizes is not None:
            reader, self.control = os.pipe()
            os.write(self.control, sizes)
            passed.append(reader)
            words += ["--terminal-fd", str(reader)]
        self.process = popen(
            [*words, "--", *command],
            pass_fds=passed,
            env=environment if environment is not None else {"PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **how,
        )
        for fd in passed:
            os.close(fd)

    def close(self):
        """Ends whatever is left of it."""
        os.close(self.report)
        self.hang_up()
        for child in children_of(self.process.pid):
            with contextlib.suppress(ProcessLookupError):  # it may end meanwhile
                os.kill(child, signal.SIGKILL)
        self.process.communicate(timeout=20)

    def hang_up(self):
        """Closes the control pipe, once."""
        if self.control is not None:
            os.close(self.control)
            self.control = None

    def record(self):
        return Record.read(self.report)

    def finish(self):
        """(exit status of `run`, its only record, output, errors) once all of it has ended."""
        output, errors = self.process.communicate(timeout=20)
        record = self.record()
        assert self.record() is None, "more than one record"
        return self.process.returncode, record, output.decode(), errors.decode()


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []
