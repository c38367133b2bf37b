"""Another package manager at work: the set-up waits for it, and not for ever."""

import subprocess
import sys

import pytest

from tools.provision.apt import wait_for_lists
from tools.provision.runner import Runner, StepError

HOLDER = """
import fcntl, sys
with open(sys.argv[1], "ab") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path):
    return tmp_path / "lock"


@pytest.fixture
def holder(lock):
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_free_lock_is_not_waited_for(lock, tmp_path):
    said: list[str] = []
    wait_for_lists(Runner(log=tmp_path / "log", say=said.append), lock)
    assert said == []


def test_a_held_lock_is_waited_for_and_said(lock, holder, tmp_path):
    said: list[str] = []

    def release(text):
        said.append(text)
        holder.stdin.close()

    wait_for_lists(Runner(log=tmp_path / "log", say=release), lock)
    assert [str(lock) in text for text in said] == [True]


def test_a_lock_that_stays_held_ends_the_step(lock, holder, tmp_path):
    with pytest.raises(StepError, match=r"held .* for 1 s"):
        wait_for_lists(Runner(log=tmp_path / "log", say=lambda _: None), lock, timeout_s=1)
