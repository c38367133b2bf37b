"""Programs that make a local Ray cluster of their own: run in a directory, and nothing of the cluster outlives them."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_LOG_TO_DRIVER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_MEMORY_MONITOR": "1",
    "PYTHONWARNINGS": "ignore",
}


@contextlib.contextmanager
def driven(driver, *arguments, timeout):
    """The directory in which the program has run to its end, and what it said; it gets the directory first."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # a short path: sockets lie in it
    try:
        ran = subprocess.run(
            [sys.executable, driver, directory, *arguments],
            env={**os.environ, **_QUIET, "RAY_TMPDIR": os.fspath(directory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        assert ran.returncode == 0, ran.stdout
        yield directory, ran.stdout
    finally:
        for pid in named(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        shutil.rmtree(directory)


def named(directory):
    """Processes that have the directory in their command line."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(directory) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
