"""Other ways to run a program: what they took, or why they can't."""

import contextlib
import pathlib
import sys

import pytest

from opensafe.bench import exec_peer_program, others
from opensafe.bench.unwatched import Unwatched
from opensafe.errors import OpenSafeError
from opensafe.warden.sandbox.layout import Layout

ANSWERS = """#!{python}
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print({of_a_program!r} if "argv" in asked else {of_its_version!r}, flush=True)
"""


@pytest.fixture
def environment(tmp_path):
    """An environment whose interpreter answers what a test tells it to."""
    (tmp_path / "bin").mkdir()

    def answers(of_a_program, of_its_version='{"version": "1"}'):
        python = tmp_path / "bin/python"
        python.write_text(
            ANSWERS.format(python=sys.executable, of_a_program=of_a_program, of_its_version=of_its_version)
        )
        python.chmod(0o755)
        return tmp_path

    return answers


def library(environment):
    return others.library("gvisor", environment, pathlib.Path("/nowhere/runsc"))


def test_a_library_tells_what_a_program_took(environment):
    with library(environment('{"version": "1", "ns": 5}')) as way:
        assert (way.version, way.run(["/bin/true"])) == ("1", 5)


@pytest.mark.parametrize(
    ("answer", "why"), [('{"error": "can not"}', "can not"), ("no json", "no answer"), ("[]", "no answer")]
)
def test_a_library_that_fails_has_a_reason(environment, answer, why):
    with library(environment(answer)) as way, pytest.raises(OpenSafeError, match=why):
        way.run(["/bin/true"])
    with pytest.raises(OpenSafeError, match=why), library(environment("", answer)):
        pass


def test_a_command_line_is_timed_by_its_caller_and_must_end_with_0():
    way: others.Way = others.CommandLine("1", "/usr/bin/env")
    assert way.run(["true"]) is None
    with pytest.raises(OpenSafeError, match="env ended with 1"):
        others.CommandLine("1", "/usr/bin/env").run(["false"])


def test_what_is_not_there_says_how_to_get_it_and_what_fails_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(others, "_PATH", str(tmp_path))
    bare = Unwatched(Layout(*(tmp_path for _ in range(5))), "sb")
    with contextlib.ExitStack() as stack:
        found = others.Others(stack, bare, tmp_path)
        assert not found.ready
        assert {name: other.error.partition(": ")[2] for name, other in found.found.items()} == {
            "gvisor": "run `make peers`",
            "temenos": "run `make peers`",
            "runc": "apt-get install runc",
            "bubblewrap": "apt-get install bubblewrap",
        }


def test_one_that_failed_is_not_asked_again(environment, tmp_path, monkeypatch):
    monkeypatch.setattr(others, "_PATH", str(tmp_path))
    bare = Unwatched(Layout(*(tmp_path for _ in range(5))), "sb")
    with contextlib.ExitStack() as stack:
        found = others.Others(stack, bare, environment('{"version": "1", "ns": 5}'))
        assert found.ready.keys() == {"gvisor", "temenos"}
        found.give_up("gvisor", OpenSafeError("broken"))
        assert found.ready.keys() == {"temenos"}
        assert (found.found["gvisor"].version, found.found["gvisor"].error) == ("1", "broken")


def test_the_program_needs_nothing_of_ours():
    source = pathlib.Path(exec_peer_program.__file__).read_text()
    assert "opensafe" not in source
