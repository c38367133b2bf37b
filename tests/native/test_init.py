"""init: PID 1 of a PID namespace, as of a sandbox."""

import os
import signal
import subprocess

import pytest

from tests.native.support import children_of, status_of, wait_for_end

pytestmark = pytest.mark.root


@pytest.fixture
def init(native):
    """The host's pid of a running init in a PID namespace of its own."""
    words = ["/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc", native / "guest" / "init"]
    with subprocess.Popen(words) as outer:
        while not (children := children_of(outer.pid)) or status_of(children[0])["Name"] != "init":
            os.sched_yield()
        yield children[0]
        outer.kill()


def inside(init, script):
    words = ["/usr/bin/nsenter", "--target", str(init), "--pid", "--mount", "/bin/sh", "-c", script]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def blocked(init):
    """The signals init does not take. SIGKILL and SIGSTOP can't be blocked; SIGCHLD is being waited for."""
    mask = int(status_of(init)["SigBlk"], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_r12_two_hundred_orphans_leave_no_zombie(init):
    assert inside(init, "for i in $(seq 200); do ( /bin/true & ); done").returncode == 0
    # A process that init has not reaped yet is still its child: the last one gone means all reaped.
    while children_of(init):
        os.sched_yield()
    assert inside(init, "ls -d /proc/[0-9]* | wc -l").stdout.strip() == "4"  # init, sh, ls, wc


def test_no_signal_from_inside_or_outside_ends_it(init):
    inside(init, "for s in TERM INT HUP QUIT USR1 PIPE ALRM SEGV KILL; do kill -$s 1; done")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        os.kill(init, number)
    while status_of(init)["State"] != "S (sleeping)":
        os.sched_yield()
    assert blocked(init) == set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
    assert inside(init, "echo alive").stdout == "alive\n"


def test_it_sleeps_between_deaths(init):
    while status_of(init)["State"] != "S (sleeping)":
        os.sched_yield()
    inside(init, "true")
    before = int(status_of(init)["voluntary_ctxt_switches"])
    inside(init, "true")  # not a child of init: it is not woken
    assert int(status_of(init)["voluntary_ctxt_switches"]) == before


def test_kill_from_the_host_ends_it(init):
    pidfd = os.pidfd_open(init)
    os.kill(init, signal.SIGKILL)
    wait_for_end(pidfd)
    os.close(pidfd)
