"""launch: each operation allowed, and refused with nothing executed."""

import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess

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
    answering,
    bpf,
    parse_status,
    pipe_of,
    popen,
    wait_for_end,
)

pytestmark = pytest.mark.root

NO_CAPABILITIES = "0000000000000000"
CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
SETPIPE_SZ = 1031  # F_SETPIPE_SZ
PAGE = 4096


@pytest.fixture
def launch(native):
    """Starts launch and waits: launch(*operations, command=[…], **subprocess options)."""

    def start(*operations, command=("/bin/cat", "/proc/self/status"), **options):
        words = [native / "launch", *map(str, operations), "--", *map(str, command)]
        return subprocess.run(words, capture_output=True, text=True, timeout=20, **options)

    return start


@pytest.fixture
def refused(launch, tmp_path):
    """Asserts that launch refuses in one line and does not start the program; returns the line."""

    def start(*operations, **options):
        marker = tmp_path / "executed"
        done = launch(*operations, command=["/usr/bin/touch", marker], **options)
        assert done.returncode == 125
        assert not marker.exists()
        return done.stderr

    return start


def test_program_runs_and_its_status_is_passed_through(launch):
    assert launch(command=["/bin/sh", "-c", "exit 7"]).returncode == 7


def test_missing_program_is_127_and_unusable_one_126(launch, tmp_path):
    missing = launch(command=["/nonexistent/program"])
    assert missing.returncode == 127
    assert missing.stderr == "launch: exec: /nonexistent/program: No such file or directory\n"
    assert launch(command=[tmp_path]).returncode == 126


@pytest.mark.parametrize(
    "operations",
    [
        ["--bogus"],
        ["--keep-fd=3"],
        ["--keep-fd", "2"],
        ["--keep-fd", "x"],
        ["--user", "0:1000"],
        ["--user", "1000:0"],
        ["--user", "4294967295:1000"],
        ["--user", "root:root"],
        ["--groups", "5"],
        ["--user", "1000:1000", "--groups", "0"],
        ["--rlimit", "NOFILE=unlimited"],
        ["--rlimit", "NOFILE=9223372036854775808"],
        ["--bind", "relative", "/mnt"],
        ["--filter-fd", "3"],
        ["--network-fd", "2"],
        ["--network-fd", "3", "--network-fd", "3"],
        ["--new-session", "--new-session"],
    ],
)
def test_command_lines_outside_the_closed_list_are_refused(refused, operations):
    errors = refused(*operations)
    assert errors.startswith("launch: usage: ")
    assert "--keep-fd N" in errors


def test_program_is_never_looked_up(native, tmp_path):
    done = subprocess.run([native / "launch", "--", "true"], capture_output=True, text=True)
    assert done.returncode == 125
    assert "absolute path" in done.stderr


def test_failure_is_one_line_whatever_the_object_holds(refused):
    errors = refused("--cgroup", "/tmp/a\nb\x1b[31m")
    assert errors == "launch: cgroup: not a plain path below /sys/fs/cgroup: /tmp/a?b?[31m\n"


# network


def test_network_is_the_one_of_the_descriptor(launch):
    look = ["/bin/cat", "/proc/net/dev"]
    here = launch("--new-session", command=look).stdout.count(":")
    with popen(["/usr/bin/unshare", "--net", "/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdin.write(b"moved\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"moved\n"
        network = os.open(f"/proc/{other.pid}/ns/net", os.O_RDONLY)
        try:
            moved = launch("--network-fd", network, "--drop-capabilities", command=look, pass_fds=[network])
            held = launch("--network-fd", network, command=["/bin/ls", "/proc/self/fd"], pass_fds=[network])
        finally:
            os.close(network)
            other.stdin.close()
    assert [line.split(":")[0].strip() for line in moved.stdout.splitlines()[2:]] == ["lo"]
    assert here > 1
    assert held.stdout.split() == ["0", "1", "2", "3"]  # 3: of ls itself


def test_network_has_to_be_a_namespace_of_networks(refused):
    for path in ("/proc/self/ns/mnt", "/dev/null"):
        other = os.open(path, os.O_RDONLY)
        try:
            assert refused("--network-fd", other, pass_fds=[other]).startswith("launch: enter network namespace: ")
        finally:
            os.close(other)


# descriptors


def test_fs18_only_kept_descriptors_reach_the_program(launch):
    pipes = [fd for _ in range(3) for fd in os.pipe()]
    kept = (pipes[1], pipes[3])  # a gap below, one between and two left above
    probe = "for fd in $(seq 3 64); do [ -e /proc/self/fd/$fd ] && echo $fd; done; true"
    try:
        operations = [word for fd in kept for word in ("--keep-fd", fd)]
        done = launch(*operations, command=["/bin/sh", "-c", probe], pass_fds=pipes)
        control = subprocess.run(["/bin/sh", "-c", probe], capture_output=True, text=True, pass_fds=pipes)
    finally:
        for fd in pipes:
            os.close(fd)
    assert done.stdout.split() == [str(fd) for fd in sorted(kept)]
    assert control.stdout.split() == [str(fd) for fd in sorted(pipes)]


def test_keeping_a_descriptor_that_is_not_open_is_refused(refused):
    assert refused("--keep-fd", 900) == "launch: keep descriptor: --keep-fd: Bad file descriptor\n"


def test_missing_standard_stream_is_refused(native, tmp_path):
    marker = tmp_path / "executed"
    words = ["/bin/sh", "-c", f"exec {native}/launch -- /usr/bin/touch {marker} <&-"]
    assert subprocess.run(words, capture_output=True).returncode == 125
    assert not marker.exists()


# cgroups


def test_program_is_in_the_cgroup_and_without_the_operation_is_not(launch, cgroup):
    show = ["/bin/cat", "/proc/self/cgroup"]
    assert f"/{cgroup.name}\n" in launch("--cgroup", cgroup, command=show).stdout
    assert f"/{cgroup.name}\n" not in launch(command=show).stdout


def test_missing_cgroup_is_refused(refused, cgroup):
    errors = refused("--cgroup", cgroup / "missing")
    assert errors == f"launch: join cgroup: {cgroup}/missing: No such file or directory\n"


@pytest.mark.parametrize("path", ["/sys/fs/cgroup/../../../{tmp}", "{tmp}", "/sys/fs/cgroup-evil", "/sys/fs/cgroup"])
def test_directory_that_only_looks_like_a_cgroup_is_refused(refused, tmp_path, path):
    procs = tmp_path / "cgroup.procs"
    procs.touch()
    assert "not a plain path below /sys/fs/cgroup" in refused("--cgroup", path.format(tmp=tmp_path))
    assert procs.read_bytes() == b""


# binds


@pytest.fixture
def trees(tmp_path):
    """A source with a file and a mount below it, and an empty target."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "below").mkdir(parents=True)
    target.mkdir()
    (source / "file").write_text("content")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "opensafe-test", source / "below"], check=True)
    yield source, target
    subprocess.run(["umount", source / "below"], check=True)


def test_bind_is_readable_read_only_recursive_and_nosuid(launch, trees):
    source, target = trees
    script = f"cat {target}/file; touch {target}/new {target}/below/new; grep -F {target} /proc/self/mountinfo"
    done = launch("--bind", source, target, command=["/bin/sh", "-c", script])
    assert done.stdout.startswith("content")
    assert done.stderr.count("Read-only file system") == 2
    mounts = [line.split() for line in done.stdout.splitlines() if str(target) in line]
    assert len(mounts) == 2
    assert all({"ro", "nosuid"} <= set(fields[5].split(",")) for fields in mounts)


def test_bind_leaves_the_source_writable_to_others(launch, trees):
    source, target = trees
    assert launch("--bind", source, target, command=["/usr/bin/touch", source / "new"]).returncode == 0
    (source / "below" / "new").touch()


def test_bind_is_never_seen_outside(native, trees):
    source, target = trees
    words = [native / "launch", "--bind", source, target, "--", "/bin/sh", "-c", f"cat {target}/file; echo; read line"]
    with popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "content\n"  # it is in place now
        assert list(target.iterdir()) == []
        child.communicate("\n")
    assert str(target) not in pathlib.Path("/proc/self/mountinfo").read_text()


def test_bind_of_one_file(launch, trees):
    source, target = trees
    (target / "name").write_text("below the bind")
    done = launch("--bind", source / "file", target / "name", command=["/bin/cat", target / "name"])
    assert done.stdout == "content"


@pytest.mark.parametrize("through", ["source", "target", "parent"])
def test_bind_follows_no_symlink(refused, trees, tmp_path, through):
    source, target = trees
    link = tmp_path / "link"
    link.symlink_to({"source": source, "target": target, "parent": tmp_path}[through])
    pair = {"source": (link, target), "target": (source, link), "parent": (link / "source", target)}[through]
    assert "Too many levels of symbolic links" in refused("--bind", *pair)


def test_bind_of_a_missing_source_is_refused(refused, trees):
    assert "launch: open bind source: /nonexistent: " in refused("--bind", "/nonexistent", trees[1])


# identity


def test_user_replaces_every_id_and_drops_groups(launch):
    status = parse_status(launch("--user", "1234:2345").stdout)
    assert status["Uid"].split() == ["1234"] * 4
    assert status["Gid"].split() == ["2345"] * 4
    assert status["Groups"] == ""


def test_groups_are_the_ones_named(launch):
    assert parse_status(launch("--user", "1234:2345", "--groups", "7,5").stdout)["Groups"].split() == ["5", "7"]


def test_user_without_the_right_to_change_it_is_refused(native, open_dir):
    marker = open_dir / "executed"
    words = [native / "launch", "--user", "2000:2000", "--", "/usr/bin/touch", marker]
    done = subprocess.run(words, capture_output=True, text=True, user=1000, group=1000)
    assert (done.returncode, done.stderr) == (125, "launch: set groups: setgroups: Operation not permitted\n")
    assert not marker.exists()


@pytest.mark.parametrize("user", [[], ["--user", "1000:1000"]])
def test_dropped_capabilities_are_empty_in_all_five_sets(launch, user):
    status = parse_status(launch(*user, "--drop-capabilities").stdout)
    assert {name: status[name] for name in CAPABILITY_SETS} == dict.fromkeys(CAPABILITY_SETS, NO_CAPABILITIES)
    control = parse_status(launch(*user).stdout)
    assert control["CapBnd"] != NO_CAPABILITIES


def test_inherited_capabilities_are_dropped_too(native):
    given = ["/usr/bin/setpriv", "--inh-caps", "+net_raw", "--ambient-caps", "+net_raw"]
    words = ["--user", "1000:1000", "--", "/bin/cat", "/proc/self/status"]
    control = subprocess.run([*given, native / "launch", *words], capture_output=True, text=True)
    assert parse_status(control.stdout)["CapInh"] != NO_CAPABILITIES
    done = subprocess.run([*given, native / "launch", "--drop-capabilities", *words], capture_output=True, text=True)
    assert {parse_status(done.stdout)[name] for name in CAPABILITY_SETS} == {NO_CAPABILITIES}


def test_bounding_set_that_cannot_be_emptied_is_refused(native, open_dir):
    marker = open_dir / "executed"
    words = [native / "launch", "--drop-capabilities", "--", "/usr/bin/touch", marker]
    done = subprocess.run(words, capture_output=True, text=True, user=1000, group=1000)
    assert done.returncode == 125
    assert "launch: empty the bounding set: " in done.stderr
    assert not marker.exists()


def test_no_new_privileges_is_set_only_when_asked_for(launch):
    assert parse_status(launch("--no-new-privileges").stdout)["NoNewPrivs"] == "1"
    assert parse_status(launch().stdout)["NoNewPrivs"] == "0"


# limits, session, lifetime


def test_rlimit_is_soft_and_hard(launch):
    show = ["/bin/sh", "-c", "ulimit -Sn; ulimit -Hn"]
    assert launch("--rlimit", "NOFILE=77", command=show).stdout.split() == ["77", "77"]


def test_rlimit_above_the_hard_limit_is_refused_to_the_unprivileged(native, open_dir):
    marker = open_dir / "executed"
    low = [native / "launch", "--user", "1000:1000", "--rlimit", "NOFILE=64", "--"]
    high = [native / "launch", "--rlimit", "NOFILE=65", "--", "/usr/bin/touch", marker]
    done = subprocess.run([*low, *high], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (125, "launch: set rlimit: --rlimit: Operation not permitted\n")
    assert not marker.exists()


def test_new_session(launch):
    show = ["/bin/sh", "-c", "echo $$; cut -d' ' -f6 /proc/$$/stat"]
    pid, session = launch("--new-session", command=show).stdout.split()
    assert pid == session
    pid, session = launch(command=show).stdout.split()
    assert pid != session


def test_new_session_of_a_session_leader_is_refused(refused):
    assert "launch: new session: setsid: " in refused("--new-session", start_new_session=True)


def _parent_with_child(native, operations):
    """A shell that starts launch and waits for it; and a pidfd of the program."""
    script = f"{native}/launch {operations} -- /bin/sleep 300 & echo $!; wait"
    parent = popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    return parent, pid, os.pidfd_open(pid)


def _exec_done(pid):
    while os.readlink(f"/proc/{pid}/exe") != os.path.realpath("/bin/sleep"):
        os.sched_yield()


def test_program_dies_with_its_parent(native):
    parent, pid, pidfd = _parent_with_child(native, "--user 1000:1000 --drop-capabilities --die-with-parent")
    try:
        _exec_done(pid)
        parent.kill()
        parent.communicate()
        wait_for_end(pidfd)
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)


def test_program_outlives_its_parent_otherwise(native):
    parent, pid, pidfd = _parent_with_child(native, "--user 1000:1000")
    try:
        _exec_done(pid)
        parent.kill()
        parent.wait()
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)  # raises if it is gone
        wait_for_end(pidfd)
    finally:
        parent.stdout.close()
        os.close(pidfd)


@pytest.mark.parametrize("kill", [True, False])
def test_parent_that_ends_during_the_set_up_is_noticed(native, tmp_path, kill):
    """launch is held in the middle of its set-up by a filter that arrives in two parts."""
    marker = tmp_path / "executed"
    whole = bpf(*[(RETURN, 0, 0, ALLOW)] * (2 * PAGE // 8))
    reader, writer = os.pipe()
    fcntl.fcntl(writer, SETPIPE_SZ, PAGE)
    operations = f"--die-with-parent --no-new-privileges --filter-fd {reader}"
    script = f"{native}/launch {operations} -- /usr/bin/touch {marker} & echo $!; wait"
    words = ["/bin/sh", "-c", script]
    with popen(words, pass_fds=[reader], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        pidfd = os.pidfd_open(int(parent.stdout.readline()))
        try:
            os.close(reader)
            os.write(writer, whole[:PAGE])
            os.write(writer, whole[PAGE : PAGE + 8])  # returns only once launch has read the first page
            if kill:
                parent.kill()
                parent.wait()
            os.write(writer, whole[PAGE + 8 :])
            os.close(writer)
            wait_for_end(pidfd)
        finally:
            os.close(pidfd)
        errors = parent.communicate(timeout=20)[1]
    assert marker.exists() is not kill
    assert errors == ("launch: die with parent: the parent is already gone: --die-with-parent\n" if kill else "")


# filter


@pytest.fixture
def filtered(launch):
    def start(program, *operations, **options):
        fd = pipe_of(program)
        try:
            words = ["--filter-fd", fd, "--no-new-privileges", *operations]
            return launch(*words, pass_fds=[fd], **options)
        finally:
            os.close(fd)

    return start


def test_filter_is_in_force_and_lets_the_rest_through(filtered, launch, tmp_path):
    command = ["/bin/mkdir", tmp_path / "new"]
    done = filtered(answering(EXDEV, MKDIR, MKDIRAT), command=command)
    assert done.returncode == 1
    assert "Invalid cross-device link" in done.stderr
    assert not (tmp_path / "new").exists()
    assert filtered(answering(EXDEV, MKDIR, MKDIRAT), command=["/bin/true"]).returncode == 0
    assert launch(command=command).returncode == 0


def test_filter_comes_last_whatever_the_order_given(filtered, tmp_path):
    set_up = (1, 112, 117, 119, 126, 157, 160, 165, 272, 428, 436)  # write, setsid, …, prctl, mount, close_range
    operations = ["--new-session", "--user", "1000:1000", "--drop-capabilities", "--rlimit", "NOFILE=64"]
    done = filtered(answering(KILL_PROCESS, *set_up), *operations, "--bind", "/etc", "/mnt", command=["/bin/true"])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("size", [0, 4, 12, 4097 * 8])
def test_filter_that_is_not_whole_instructions_is_refused(refused, size):
    fd = pipe_of(b"\x06\0\0\0\0\0\xff\x7f" * (size // 8) + b"\0" * (size % 8))
    try:
        errors = refused("--no-new-privileges", "--filter-fd", fd, pass_fds=[fd])
    finally:
        os.close(fd)
    assert errors == "launch: filter: not 1 to 4096 whole instructions: --filter-fd\n"


def test_filter_of_the_greatest_size_is_taken(filtered):
    assert filtered(bpf(*[(RETURN, 0, 0, ALLOW)] * 4096), command=["/bin/true"]).returncode == 0


def test_filter_that_the_kernel_refuses_stops_the_launch(refused):
    fd = pipe_of(bpf(LOAD_NUMBER, (JUMP_IF_EQUAL, 200, 200, 0), (RETURN, 0, 0, ALLOW)))
    try:
        assert "launch: install filter: " in refused("--no-new-privileges", "--filter-fd", fd, pass_fds=[fd])
    finally:
        os.close(fd)
