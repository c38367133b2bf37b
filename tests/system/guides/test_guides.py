"""The guides' programs are run as they stand there; those that need more than a daemon are run beside their doors."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.harness.daemon import ROOT

pytestmark = [pytest.mark.root, pytest.mark.runsc]

GUIDES = pathlib.Path(ROOT, "docs/guides")
#: Run by tests/system/inspect, ray and integrations, which have what they need.
ELSEWHERE = {"inspect.md", "ray.md", "tools.md"}
PROGRAMS = [
    pytest.param(program, id=f"{guide.name}-{number}")
    for guide in sorted(GUIDES.glob("*.md"))
    if guide.name not in ELSEWHERE
    for number, program in enumerate(re.findall(r"^```python\n(.*?)^```", guide.read_text(), re.MULTILINE | re.DOTALL))
]


def test_every_guide_has_programs_that_are_run():
    here = {guide.id.partition("-")[0] for guide in PROGRAMS}
    assert here | ELSEWHERE == {guide.name for guide in GUIDES.glob("*.md")}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_guides_program_runs(daemon, tmp_path, program):
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PATH": path, "OPENSAFE_SOCKET": str(daemon.socket_of("agent"))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if "print(" in program:
        assert done.stdout
