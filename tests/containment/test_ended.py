"""A suite that is told to end takes along what it made: daemons, sandboxes, directories, networks."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

pytestmark = [pytest.mark.root, pytest.mark.runsc]

_MADE = ("run/opensafe-*", "var/lib/opensafe-*", "tmp/opensafe-*")


def made():
    """What a suite makes on the host."""
    return {os.fspath(path) for pattern in _MADE for path in pathlib.Path("/").glob(pattern)}


def running(names):
    """Processes that have one of the directories in their command line."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (entry / "cmdline").read_bytes().decode(errors="replace")
            if any(name in text for name in names):
                found.append(text)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_suite_that_is_told_to_end_leaves_nothing(number):
    before = made()
    process = subprocess.Popen(
        [sys.executable, "-m", "opensafe.cli", "escape", "run", "--boundary", "policy", "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 60
    while not running(made() - before):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.05)  # a daemon's coming has no event that others could wait for
    seen = made() - before
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + number, said
    assert b"Traceback" not in said
    assert made() - before == set()
    assert running(seen) == []
