"""F7: scripts made at random from the constructs that change what words mean, run by bash with recording shims.

Each script is made from its number alone, so that a failure names the script that repeats it. What bash executed was
predicted, or the script was called opaque; what it wrote was listed, or the script was called opaque. The target of
docs/fuzzing.md makes the same scripts, guided by coverage.
"""

import random

import pytest

from opensafe.normalize.shell import parse_shell
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.scripts import Shell, covered, script, written

SCRIPTS = 120


def _made(seed):
    return script(Draw(random.Random(seed).randbytes(400)))


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    return Shell(tmp_path_factory.mktemp("bash"))


@pytest.mark.parametrize("first", range(0, SCRIPTS, 24))
def test_f7_generated_scripts_are_predicted_or_opaque(first, shell):
    for seed in range(first, first + 24):
        text = _made(seed)
        parse = parse_shell(text)
        if parse.opaque:
            continue
        executed = shell.run(text)
        assert all(covered(parse, argv) for argv in executed.argvs), (seed, text, executed)
        assert all(written(parse, made) for made in executed.made), (seed, text, executed)


def test_some_generated_scripts_are_understood_and_run_something(shell):
    understood = [text for text in map(_made, range(60)) if not parse_shell(text).opaque]
    assert len(understood) > 10
    assert any(shell.run(text).argvs for text in understood)
