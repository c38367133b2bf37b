"""run: one call set up, watched and reported, on plain Linux with the two capabilities it has in a sandbox."""

import os
import pathlib
import resource
import signal
import subprocess
import time

import pytest

from tests.native.support import (
    ALLOW,
    EXDEV,
    JUMP_IF_EQUAL,
    KILL_PROCESS,
    LOAD_NUMBER,
    MKDIR,
    MKDIRAT,
    RETURN,
    Call,
    Record,
    answering,
    bpf,
    children_of,
    parse_status,
    status_of,
    wait_for_end,
)

pytestmark = pytest.mark.root

STATUS_SETUP_FAILED = 125
STAGES = {
    "argument": 1,
    "filter_read": 2,
    "groups": 4,
    "rlimit": 11,
    "capabilities": 12,
    "cwd": 13,
    "filter": 14,
    "exec": 15,
    "terminal": 16,
    "command": 17,
}
ENOENT, ENOEXEC, EACCES, EINVAL, EPERM = 2, 8, 13, 22, 1


@pytest.fixture
def call(native):
    """Starts `run` with a command: call(*command, options=…, bpf_filter=…, environment=…, cwd=…)."""
    calls = []

    def start(*command, **options):
        calls.append(Call(native / "guest" / "run", *map(str, command), **options))
        return calls[-1]

    yield start
    for each in calls:
        each.close()


@pytest.fixture
def marker(open_dir):
    """A file that uid 1000 could make: its absence shows that nothing was executed."""
    open_dir.chmod(0o777)
    return open_dir / "executed"


def exited(status, flags=0):
    return Record(Record.LEADER_EXITED, 0, status, flags)


def setup_failed(stage, error):
    return Record(Record.SETUP_FAILED, STAGES[stage], error, 0)


def script(directory, name, text, mode=0o755):
    path = directory / name
    path.write_text(text)
    path.chmod(mode)
    return path


# how a call ends


def test_exit_status_and_output(call):
    assert call("/bin/sh", "-c", "echo out; echo err >&2; exit 3").finish() == (0, exited(3 << 8), "out\n", "err\n")


def test_arguments_and_environment_pass_unchanged(call):
    environment = {"PATH": "/bin", "A": "b c", "EMPTY": ""}
    _, _, output, _ = call("/usr/bin/env", environment=environment).finish()
    assert dict(line.split("=", 1) for line in output.splitlines()) == environment
    assert call("/bin/echo", "", "a  b", "--", "-n").finish()[2] == " a  b -- -n\n"


def test_death_by_signal_is_reported_as_such(call):
    assert call("/bin/sh", "-c", "kill -9 $$").finish()[:2] == (0, exited(signal.SIGKILL))


def test_many_short_children_are_reaped(call):
    status, record, _, _ = call("/bin/sh", "-c", "for i in $(seq 200); do ( /bin/true & ); done; exit 5").finish()
    assert status == 0
    assert (record.kind, record.value) == (Record.LEADER_EXITED, 5 << 8)


def test_daemon_is_adopted_reported_and_waited_for(call):
    running = call("/bin/sh", "-c", "( setsid sleep 300 >/dev/null 2>&1 & ); exit 4")
    assert running.record() == exited(4 << 8, Record.REMAINING)
    assert running.process.stdout.read() == b""  # end of file: `run` itself holds no stream open
    (daemon,) = children_of(running.process.pid)
    assert status_of(daemon)["PPid"] == str(running.process.pid)
    assert running.process.poll() is None
    pidfd = os.pidfd_open(running.process.pid)
    os.kill(daemon, signal.SIGKILL)
    wait_for_end(pidfd)
    os.close(pidfd)
    assert running.process.wait() == 0
    assert running.record() is None


# who the command is


def test_command_has_its_ids_no_privilege_and_a_session_of_its_own(call):
    _, _, output, _ = call("/bin/cat", "/proc/self/status").finish()
    status = parse_status(output)
    assert status["Uid"].split() == ["1000"] * 4
    assert status["Gid"].split() == ["1000"] * 4
    assert status["Groups"] == ""
    assert status["NoNewPrivs"] == "1"
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0000000000000000"}
    pid, session = call("/bin/sh", "-c", "echo $$; cut -d' ' -f6 /proc/$$/stat").finish()[2].split()
    assert pid == session


def test_command_cannot_become_anybody_else(call):
    tries = "import os\nfor uid in (0, 990):\n try: os.setuid(uid); print('became', uid)\n except OSError: print('no')"
    assert call("/usr/bin/python3", "-c", tries).finish()[2] == "no\nno\n"


def test_fs18_command_sees_three_descriptors_only(call):
    look = "for fd in $(seq 0 64); do [ -e /proc/self/fd/$fd ] && echo $fd; done"
    assert call("/bin/sh", "-c", look, bpf_filter=answering(EXDEV, MKDIR)).finish()[2].split() == ["0", "1", "2"]


def test_signals_blocked_around_run_are_not_blocked_in_the_command(call):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        _, _, output, _ = call("/bin/cat", "/proc/self/status").finish()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    assert int(parse_status(output)["SigBlk"], 16) == 0


def test_rlimits_are_soft_and_hard(call):
    options = ["--rlimit", "NOFILE=33", "--rlimit", "NPROC=500"]
    shown = call("/bin/sh", "-c", "ulimit -Sn; ulimit -Hn", options=options).finish()[2]
    assert shown.split() == ["33", "33"]
    raised = call("/bin/sh", "-c", "ulimit -n 34", options=options).finish()[1]
    assert raised.value != 0


def test_working_directory(call, open_dir):
    assert call("/bin/pwd", cwd=open_dir).finish()[2] == f"{open_dir}\n"


# who the runner is


def test_command_of_uid_0_has_no_capability_and_can_get_none(call):
    text = "cat /proc/self/status; id -u; chown 1000 /proc/self/fd/0 2>&1; echo $?"
    options = {"ids": ("0", "0"), "prefix": Call.ROOT_PREFIX}
    status, record, output, _ = call("/bin/sh", "-c", text, **options).finish()
    found = parse_status(output)
    assert (status, record) == (0, exited(0))
    assert {found[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0000000000000000"}
    assert found["Uid"].split() == ["0"] * 4
    assert "Operation not permitted" in output
    assert output.endswith("1\n")


def test_without_the_capability_to_empty_the_bounding_set_nothing_runs_as_uid_0(call, marker):
    status, record, _, _ = call("/usr/bin/touch", marker, ids=("0", "0")).finish()
    assert (status, record) == (STATUS_SETUP_FAILED, setup_failed("capabilities", EPERM))
    assert not marker.exists()


def test_command_has_the_groups_given_and_its_runner_none(call):
    text = "cat /proc/self/status; grep ^Groups /proc/$PPID/status"
    _, _, output, _ = call("/bin/sh", "-c", text, ids=("1001", "1002"), options=("--groups", "7,1003")).finish()
    found = parse_status(output)
    assert (found["Uid"].split(), found["Gid"].split()) == (["1001"] * 4, ["1002"] * 4)
    assert [line.split()[1:] for line in output.splitlines() if line.startswith("Groups")] == [["7", "1003"], []]


def settled(pid):
    """Status of a runner that sleeps: it gives up its last capabilities when the program runs, before it waits."""
    deadline = time.monotonic() + 10
    while not (status := status_of(pid))["State"].startswith("S") and time.monotonic() < deadline:
        os.sched_yield()
    return status


def test_runner_has_its_own_uid_no_capability_and_one_descriptor(call):
    running = call("/bin/sh", "-c", "echo; read line")
    assert running.process.stdout.readline() == b"\n"
    (leader,) = children_of(running.process.pid)
    os.kill(leader, signal.SIGSTOP)
    running.process.stdin.write(b"\n")
    running.process.stdin.flush()
    status = settled(running.process.pid)
    assert status["Uid"].split() == ["990"] * 4
    assert status["Gid"].split() == ["990"] * 4
    assert status["Groups"] == ""
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0000000000000000"}
    (descriptor,) = os.listdir(f"/proc/{running.process.pid}/fd")
    assert os.readlink(f"/proc/{running.process.pid}/fd/{descriptor}").startswith("pipe:")
    os.kill(leader, signal.SIGCONT)
    assert running.record() == exited(0)


@pytest.mark.parametrize("how", [{}, {"ids": ("0", "0"), "prefix": Call.ROOT_PREFIX}], ids=["own", "root"])
def test_command_cannot_signal_trace_or_open_the_runner(call, how):
    tries = (
        "import ctypes, os\n"
        "libc, runner, refused = ctypes.CDLL(None, use_errno=True), os.getppid(), []\n"
        "for number in (0, 9, 15, 19):\n"
        "    try: os.kill(runner, number)\n"
        "    except PermissionError: refused.append('signal')\n"
        "for request in (16, 0x4206):\n"  # PTRACE_ATTACH, PTRACE_SEIZE
        "    if libc.ptrace(request, runner, 0, 0) < 0: refused.append('trace')\n"
        "words = open(f'/proc/{runner}/cmdline').read().split('\\0')\n"
        "report = words[words.index('--report-fd') + 1]\n"
        "for name in ('mem', 'environ', 'maps', f'fd/{report}'):\n"
        "    try: open(f'/proc/{runner}/{name}', 'rb').read(1)\n"
        "    except PermissionError: refused.append('open')\n"
        "print(*refused)\n"
        "os.kill(os.getpid(), 0)\n"  # the benign twin: itself it may signal
    )
    status, record, output, errors = call("/usr/bin/python3", "-c", tries, **how).finish()
    assert (status, record, errors) == (0, exited(0), "")
    assert output.split() == ["signal"] * 4 + ["trace"] * 2 + ["open"] * 4


# what fails before anything is executed


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--rlimit", "NOFILE=-1"], "NOFILE=-1: not a number"),
        (["--rlimit", "BOGUS=1"], "BOGUS=1: unknown name"),
        (["--verbose", "1"], "--verbose: unknown operation"),
        (["--uid", "1001"], "--uid: given twice"),
        (["--filter-fd", "2"], "2: out of range"),
    ],
)
def test_wrong_argument_is_stage_argument(call, marker, options, word):
    status, record, _, errors = call("/usr/bin/touch", marker, options=options).finish()
    assert (status, record) == (STATUS_SETUP_FAILED, setup_failed("argument", EINVAL))
    assert errors == f"run: {word}\n"
    assert not marker.exists()


@pytest.mark.parametrize(("uid", "runner"), [("1000", "0"), ("1000", "1000"), ("0", "0")])
def test_root_for_the_runner_and_the_runner_s_own_uid_for_the_command_are_refused(native, marker, uid, runner):
    reader, writer = os.pipe()
    words = ["--uid", uid, "--gid", "1000", "--runner-uid", runner, "--cwd", "/", "--report-fd", str(writer)]
    done = subprocess.run(
        [native / "guest" / "run", *words, "--", "/usr/bin/touch", marker], pass_fds=[writer], capture_output=True
    )
    os.close(writer)
    assert done.returncode == STATUS_SETUP_FAILED
    assert Record.read(reader) == setup_failed("argument", EINVAL)
    os.close(reader)
    assert not marker.exists()


@pytest.mark.parametrize("report", [[], ["--report-fd", "77"], ["--report-fd", "0"]])
def test_call_that_could_not_report_is_not_started(native, marker, report):
    words = ["--uid", "1000", "--gid", "1000", "--runner-uid", "990", "--cwd", "/", *report]
    done = subprocess.run([native / "guest" / "run", *words, "--", "/usr/bin/touch", marker], capture_output=True)
    assert done.returncode == STATUS_SETUP_FAILED
    assert not marker.exists()


def test_missing_capabilities_are_stage_groups(call, marker):
    record = call("/usr/bin/touch", marker, prefix=(), user=1000, group=1000).finish()[1]
    assert record == setup_failed("groups", EPERM)
    assert not marker.exists()


def test_limit_above_the_hard_limit_is_stage_rlimit(call, marker):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    record = call("/usr/bin/touch", marker, options=["--rlimit", f"NOFILE={hard + 1}"]).finish()[1]
    assert record == setup_failed("rlimit", EPERM)
    assert not marker.exists()


def test_working_directory_is_entered_as_the_command_s_user(call, marker, open_dir):
    closed = open_dir / "closed"
    closed.mkdir(mode=0o700)
    assert call("/usr/bin/touch", marker, cwd=closed).finish()[1] == setup_failed("cwd", EACCES)
    assert call("/usr/bin/touch", marker, cwd=open_dir / "no").finish()[1] == setup_failed("cwd", ENOENT)
    assert not marker.exists()


@pytest.mark.parametrize("size", [0, 12, 4097 * 8])
def test_filter_of_a_wrong_size_is_stage_filter_read(call, marker, size):
    record = call("/usr/bin/touch", marker, bpf_filter=b"\x06" * size).finish()[1]
    assert record == setup_failed("filter_read", EINVAL)
    assert not marker.exists()


def test_filter_that_the_kernel_refuses_is_stage_filter(call, marker):
    program = bpf(LOAD_NUMBER, (JUMP_IF_EQUAL, 200, 200, 0), (RETURN, 0, 0, ALLOW))
    assert call("/usr/bin/touch", marker, bpf_filter=program).finish()[1] == setup_failed("filter", EINVAL)
    assert not marker.exists()


def test_program_that_cannot_be_executed_is_stage_exec(call, open_dir):
    plain = script(open_dir, "plain", "text", mode=0o644)
    no_format = script(open_dir, "no-format", "text without an interpreter line")
    assert call("/nonexistent").finish()[1] == setup_failed("exec", ENOENT)
    assert call(plain).finish()[1] == setup_failed("exec", EACCES)
    assert call(no_format).finish()[1] == setup_failed("exec", ENOEXEC)


# filter


def test_filter_answers_its_errno_and_lets_the_rest_through(call, marker):
    program = answering(EXDEV, MKDIR, MKDIRAT)
    _, record, _, errors = call("/bin/mkdir", marker, bpf_filter=program).finish()
    assert record == exited(1 << 8)
    assert "Invalid cross-device link" in errors
    assert not marker.exists()
    assert call("/usr/bin/touch", marker, bpf_filter=program).finish()[1] == exited(0)
    assert marker.exists()
    assert call("/bin/mkdir", f"{marker}-unfiltered").finish()[1] == exited(0)


def test_filter_that_kills_shows_as_sigsys(call, marker):
    record = call("/bin/mkdir", marker, bpf_filter=answering(KILL_PROCESS, MKDIR, MKDIRAT)).finish()[1]
    assert (record.kind, record.value & 0x7F) == (Record.LEADER_EXITED, signal.SIGSYS)


def test_filter_of_the_greatest_size_arrives_through_a_pipe(call):
    program = bpf(*[(RETURN, 0, 0, ALLOW)] * 4096)
    _, _, output, _ = call("/bin/cat", "/proc/self/status", bpf_filter=program).finish()
    assert parse_status(output)["Seccomp"] == "2"


# PATH


def test_name_is_searched_in_path_in_order(call, open_dir):
    first, second = open_dir / "first", open_dir / "second"
    first.mkdir()
    second.mkdir()
    script(first, "tool", "#!/bin/sh\necho first\n", mode=0o644)
    script(second, "tool", "#!/bin/sh\necho second\n")
    path = {"PATH": f"/nonexistent:{first}:{second}"}
    assert call("tool", environment=path).finish()[2] == "second\n"
    (first / "tool").chmod(0o755)
    assert call("tool", environment=path).finish()[2] == "first\n"
    assert call("missing", environment=path).finish()[1] == setup_failed("exec", ENOENT)


@pytest.mark.parametrize("path", ["", ":", "::", ".", ":/nonexistent:."])
def test_current_directory_is_never_searched(call, open_dir, path):
    script(open_dir, "tool", "#!/bin/sh\necho here\n")
    assert call("tool", environment={"PATH": path}, cwd=open_dir).finish()[1] == setup_failed("exec", ENOENT)
    assert call("./tool", environment={"PATH": path}, cwd=open_dir).finish()[2] == "here\n"


def test_path_has_a_default_where_it_is_unset(call):
    assert call("true", environment={"HOME": "/"}).finish()[1] == exited(0)


def test_r35_path_of_the_command_is_the_one_it_was_given(call, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert call("true", environment={"PATH": "/nonexistent"}).finish()[1] == setup_failed("exec", ENOENT)


def test_stage_numbers_are_documented():
    readme = (pathlib.Path(__file__).resolve().parents[2] / "native" / "README.md").read_text()
    assert all(f"{number} {name}" in readme.replace("\n", " ") for name, number in STAGES.items())
