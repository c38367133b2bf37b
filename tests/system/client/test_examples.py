"""The examples are programs: each is run as its first lines say, and prints what it is there to show."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.harness.daemon import ROOT

pytestmark = [pytest.mark.root, pytest.mark.runsc]

EXPECTED = {
    "quickstart.py": "42\negress.domain.allowlist: evil.example.com\n",
    "judge.py": "right: passed\nwrong: CommandFailed\nendless: CommandTimedOut\n",
    "stream.py": "line 1\nline 2\nline 3\nTYPED\nTrue\n",
}
REVIEWED = {"review.py"}


def _start(daemon, name):
    return subprocess.Popen(
        [sys.executable, ROOT / "examples/sdk" / name],
        env={**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of("agent"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_all_of_them_are_run():
    assert {path.name for path in pathlib.Path(ROOT, "examples/sdk").glob("*.py")} == EXPECTED.keys() | REVIEWED


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints(daemon, name):
    process = _start(daemon, name)
    assert process.communicate(timeout=60) == (EXPECTED[name], "")
    assert process.returncode == 0


async def test_the_one_of_reviews_goes_on_once_approved(daemon):
    process = _start(daemon, "review.py")
    try:
        review_id = process.stdout.readline().split()[-1]
        async with daemon.client("reviewer") as reviewer:
            await reviewer.approve_review(review_id, (await reviewer.get_review(review_id)).digest)
        assert process.communicate(timeout=60) == ("approved\n", "")
    finally:
        process.kill()
        process.communicate()
