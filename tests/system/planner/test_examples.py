"""The examples, as somebody would run them."""

import os
import subprocess
import sys

import pytest

from tests.harness.daemon import ROOT

pytestmark = [pytest.mark.root, pytest.mark.runsc]


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/planner/*.py")), ids=lambda path: path.name)
def test_an_example_runs(daemon, path):
    ended = subprocess.run(
        [sys.executable, path],
        env={**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of("agent"))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert "gate -> observe (refuse) blocked, egress.domain.allowlist" in ended.stdout
    assert ended.stdout.endswith("The answer is 42.\n")
