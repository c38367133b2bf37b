"""A suite that is told to end takes along what it made: daemons, and their directories."""

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

pytestmark = [pytest.mark.root, pytest.mark.runsc]


def daemons(owner):
    """Names of the private daemons that a process began, which their directories have."""
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (entry / "cmdline").read_bytes().decode(errors="replace")
            parent = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
            if parent == owner and (named := re.search(r"/run/(opensafe-[\w-]+)/opensafe\.toml", text)):
                found.add(named[1])
    return found


def left(names):
    """Directories of these daemons, and processes that have one of them in their command line."""
    tops = (pathlib.Path("/run"), pathlib.Path("/var/lib"))
    found = [str(top / name) for top in tops for name in names if (top / name).exists()]
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (entry / "cmdline").read_bytes().decode(errors="replace")
            found += [text] if any(name in text for name in names) else []
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_suite_that_is_told_to_end_leaves_nothing(number):
    process = subprocess.Popen(
        [sys.executable, "-m", "opensafe.cli", "escape", "run", "--boundary", "policy", "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 60
    while not (begun := daemons(process.pid)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.05)  # a daemon's coming has no event that others could wait for
    assert left(begun)
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + number, said
    assert b"Traceback" not in said
    assert left(begun) == []
