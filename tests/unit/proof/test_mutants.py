"""Planted faults: in a copy, once, and in the interpreter that is started from it alone."""

import os
import subprocess
import sys

import pytest

import opensafe
from opensafe.errors import InvalidArgument
from opensafe.proof import mutants
from opensafe.proof.mutants import Mutant

VERSION = f'__version__ = "{opensafe.__version__}"'
OTHER = Mutant(id="version", file="__init__.py", old=VERSION, new='__version__ = "0.0.0-mutant"')


def version(source):
    asked = [sys.executable, "-c", "import opensafe; print(opensafe.__version__)"]
    there = {"PYTHONPATH": str(source)} if source else {}
    return subprocess.run(asked, env={**os.environ, **there}, capture_output=True, text=True, check=True).stdout.strip()


def test_a_fault_is_in_the_copy_and_nowhere_else():
    with mutants.planted(OTHER) as source:
        assert version(source) == "0.0.0-mutant"
        assert version(None) == opensafe.__version__
    assert not source.exists()


@pytest.mark.parametrize(
    "mutant",
    [
        Mutant(id="absent", file="__init__.py", old="no such text", new=""),
        Mutant(id="twice", file="errors.py", old="class ", new=""),
        Mutant(id="same", file="__init__.py", old=VERSION, new=VERSION),
    ],
    ids=lambda mutant: mutant.id,
)
def test_a_mutant_that_is_not_one_is_refused(mutant):
    with pytest.raises(InvalidArgument, match=mutant.id):
        mutants.check(mutant)
    with pytest.raises(InvalidArgument), mutants.planted(mutant):
        pass


def test_a_mutant_that_is_no_python_is_refused():
    with pytest.raises(SyntaxError):
        mutants.check(Mutant(id="broken", file="__init__.py", old=VERSION, new="__version__ = ("))
