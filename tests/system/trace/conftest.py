import subprocess
import sys

import pytest


@pytest.fixture
def opensafe():
    """Runs `opensafe` as a process of its own."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "opensafe.cli", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    return run
