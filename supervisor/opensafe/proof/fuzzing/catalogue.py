"""The targets of a checkout: the files of fuzz/targets, and the inputs kept for each below fuzz/corpus."""

import functools
import importlib.util
import pathlib
from collections.abc import Iterator
from typing import Final

import msgspec

import opensafe
from opensafe.errors import InvalidArgument

from .target import Target

DIRECTORY: Final = pathlib.Path(opensafe.__file__).resolve().parents[2] / "fuzz"


class Located(msgspec.Struct, frozen=True, eq=False):
    """A target and the file that it stands in."""

    target: Target
    file: pathlib.Path

    @property
    def corpus(self) -> pathlib.Path:
        """Where inputs for it are kept: fuzz/corpus/fNN."""
        return self.file.parents[1] / "corpus" / self.file.stem.partition("_")[0]

    def kept(self) -> Iterator[bytes]:
        """The inputs kept for it, in a fixed order."""
        for path in sorted(self.corpus.glob("*")):
            yield path.read_bytes()


@functools.cache
def targets(directory: pathlib.Path = DIRECTORY) -> tuple[Located, ...]:
    """Every target, in the order of their numbers. Raises InvalidArgument where none is, as outside a checkout."""
    files = sorted((directory / "targets").glob("f[0-9][0-9]_*.py"))
    if not files:
        raise InvalidArgument("there are no targets", value=str(directory), remedy="Run this in a checkout.")
    return tuple(Located(_read(file), file) for file in files)


def target(name: str, directory: pathlib.Path = DIRECTORY) -> Located:
    """The one with this id. Raises InvalidArgument."""
    for located in targets(directory):
        if located.target.id == name.upper():
            return located
    known = ", ".join(located.target.id for located in targets(directory))
    raise InvalidArgument("there is no such target", value=name, limit=known)


def _read(file: pathlib.Path) -> Target:
    spec = importlib.util.spec_from_file_location(f"fuzz_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise InvalidArgument("this can't be read as Python", value=str(file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    read = getattr(module, "TARGET", None)
    number = file.stem.partition("_")[0].lstrip("f0")
    if not isinstance(read, Target) or read.id != f"F{number}":
        raise InvalidArgument("the file has no TARGET of its number", value=file.name, limit=f"F{number}")
    return read
