"""The README's program, as a reader would paste it."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.harness.daemon import Daemon

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"

pytestmark = [pytest.mark.root, pytest.mark.runsc]


@pytest.fixture
def socket():
    daemon = Daemon().start()
    yield daemon.run / "principals" / "agent" / "opensafe.sock"
    assert daemon.stop() == 0
    assert daemon.remove() == []


def test_the_readmes_program_prints_the_output_and_a_no_with_its_rule(socket):
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "OPENSAFE_SOCKET": str(socket)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    allowed, blocked = ended.stdout.splitlines()
    assert allowed == "42"
    assert blocked.startswith("egress.domain.allowlist evil.example.com ")
