"""The posture of processes: facts as sets, and what is read of a process that we made ourselves."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from opensafe.proof import posture

STANDS = dict.fromkeys(posture.EXPECTED, "process 1")


def test_what_stands_as_expected_has_no_fault_whatever_comes_and_goes():
    assert posture.faults(STANDS) == ()
    assert posture.faults(STANDS | dict.fromkeys(posture.ALLOWED, "process 1")) == ()
    assert posture.gained(STANDS, STANDS | dict.fromkeys(posture.ALLOWED, "process 1")) == ()


def test_SY_09_one_thread_without_the_filter_is_a_fault_beside_all_that_have_it():
    facts = STANDS | {"sentry Seccomp 0": "process 7, thread 9"}
    assert posture.faults(facts) == ("sentry Seccomp 0 (process 7, thread 9)",)
    assert posture.gained(STANDS, facts) == ("sentry Seccomp 0 (process 7, thread 9)",)


def test_SY_10_what_is_missing_is_a_fault():
    facts = {fact: where for fact, where in STANDS.items() if fact != "gofer net apart"}
    assert posture.faults(facts) == ("not gofer net apart",)


def test_a_mount_is_a_fault_unless_it_was_given():
    fact = "sentry mount /x exported rw"
    assert posture.faults(STANDS | {fact: "process 1"})
    assert not posture.faults(STANDS | {fact: "process 1"}, allowed=(fact,))


def test_a_process_that_belongs_to_no_sandbox_is_a_stranger_in_every_fact(tmp_path):
    with (tmp_path / "file").open("w") as file, subprocess.Popen(["sleep", "60"], stdout=file) as child:
        try:
            facts = posture.read([child.pid])
            assert posture.threads([child.pid]) == 1
        finally:
            child.kill()
    assert {"stranger sleep Seccomp 0", "stranger sleep net shared", "stranger sleep user shared"} <= facts.keys()
    assert f"stranger sleep descriptor host {tmp_path}/file wo" in facts
    assert all(fact.startswith("stranger sleep ") for fact in facts)
    assert len([fault for fault in posture.faults(facts) if fault.startswith("stranger")]) == len(facts)


@pytest.mark.parametrize("what", ["ended", "never was"])
def test_what_has_ended_is_left_out(what):
    with subprocess.Popen(["true"]) as child:
        child.wait()
    assert posture.read([child.pid if what == "ended" else 2**22 + 1]) == {}
    assert posture.threads([child.pid]) == 0


def test_a_zombie_has_no_mounts_and_what_else_keeps_from_reading_them_is_told(tmp_path):
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert posture._mounts(pathlib.Path(f"/proc/{child.pid}")) == []
        assert posture.read([child.pid]) == {}
    (tmp_path / "mountinfo").mkdir()
    with pytest.raises(IsADirectoryError):
        posture._mounts(tmp_path)


def test_namespaces_are_compared_with_those_of_the_process_named():
    with subprocess.Popen(["sleep", "60"]) as child, subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert "stranger sleep mnt shared" in posture.read([child.pid], beside=other.pid)
        finally:
            os.kill(child.pid, signal.SIGKILL)
            os.kill(other.pid, signal.SIGKILL)


def test_only_processes_of_runsc_below_a_run_directory_are_around_a_guest(tmp_path):
    words = ["runsc-sandbox", f"--root={tmp_path}/runsc", "boot", "sb-1"]
    code = f"import subprocess, sys; subprocess.run(['sleep', '60'])  # {tmp_path}"
    with subprocess.Popen([*words[:1], "-c", code, *words[1:]], executable=sys.executable) as sentry:
        try:
            while len(found := posture.around(tmp_path)) < 2:
                assert sentry.poll() is None
                time.sleep(0.01)  # no event tells of a child's child
            assert sentry.pid in found
            assert posture.around(tmp_path, "sb-1") == found
            assert posture.around(tmp_path, "sb-2") == posture.around(tmp_path / "other") == set()
        finally:
            for pid in posture.around(tmp_path):
                os.kill(pid, signal.SIGKILL)
