"""Operands of the programs on files whose syntax no table of options describes."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from .awk import awk
from .find import find
from .git import git
from .options import Use, path_like
from .sed import sed
from .tar import tar
from .word import HOLE, UNKNOWN, Word


def dd(args: Sequence[Word]) -> Iterator[Use]:
    for word in args:
        name, _, value = word.text.partition("=")
        if name in ("if", "of"):
            yield Use("read" if name == "if" else "write", Word(value, word.glob))
        elif HOLE in name:
            yield Use("write", UNKNOWN)


def cmake(args: Sequence[Word]) -> Iterator[Use]:
    """`cmake -E copy …` is a tool box of its own; a script given with -P is the workspace's."""
    for option, value in pairwise([*args, UNKNOWN]):
        if option.text == "-E":
            yield Use("doubt", Word("a tool of its own"))
        elif option.text in ("-B", "--build", "--install", "--prefix"):
            yield Use("write", value)
        elif option.text in ("-P", "-C", "-S"):
            yield Use("read", value)
        elif option.text[:2] in ("-B", "-P") and len(option.text) > 2:
            yield Use("write", option.part(option.text[2:]))
    yield from path_like(args)


def hyperfine(args: Sequence[Word]) -> Iterator[Use]:
    yield Use("doubt", Word("its operands are run by a shell"))
    yield from path_like(args)


FILE_PROGRAMS: Final[dict[str, Callable[[Sequence[Word]], Iterator[Use]]]] = {
    "awk": awk, "bsdtar": tar, "cmake": cmake, "dd": dd, "find": find, "gawk": awk, "git": git, "gnutar": tar,
    "gtar": tar, "hyperfine": hyperfine, "mawk": awk, "nawk": awk, "sed": sed, "tar": tar,
}  # fmt: skip
