"""Our own code with a fault put into it on purpose: the control of a check is the same code without the check.

A mutant is a change of text in one file of the package. It is applied to a copy, which the interpreter, or a whole
daemon, is started from; the package itself is never touched, and nothing in it knows of mutants.
"""

import contextlib
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Final

import msgspec

import opensafe
from opensafe.errors import InvalidArgument

PACKAGE: Final = pathlib.Path(opensafe.__file__).resolve().parent
#: Others must read it: a daemon's children are another user.
_MODE: Final = 0o755


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. file: relative to the package. old: text that stands there exactly once; new: what takes its place."""

    id: str
    file: str
    old: str
    new: str
    says: str = ""


@contextlib.contextmanager
def planted(*mutants: Mutant) -> Iterator[pathlib.Path]:
    """A directory to start Python from (PYTHONPATH) in which the package has these faults; gone afterwards.

    Raises InvalidArgument where a mutant's text is not there, or not once: the code has changed, and the mutant with
    it must.
    """
    with tempfile.TemporaryDirectory(prefix="opensafe-mutant-") as made:
        source = pathlib.Path(made)
        source.chmod(_MODE)
        copy = source / PACKAGE.name
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for mutant in mutants:
            _apply(copy, mutant)
        yield source


def check(mutant: Mutant) -> None:
    """Raises InvalidArgument where the mutant can't be applied to the package as it is."""
    _changed(PACKAGE, mutant)


def _apply(copy: pathlib.Path, mutant: Mutant) -> None:
    (copy / mutant.file).write_text(_changed(copy, mutant))


def _changed(package: pathlib.Path, mutant: Mutant) -> str:
    text = (package / mutant.file).read_text()
    times = text.count(mutant.old)
    if times != 1 or mutant.old == mutant.new:
        raise InvalidArgument(
            f"the text of mutant {mutant.id} stands {times} times in {mutant.file}",
            value=mutant.old,
            limit="once",
            remedy="Write the mutant anew for the code as it is.",
        )
    changed = text.replace(mutant.old, mutant.new)
    compile(changed, mutant.file, "exec")
    return changed
