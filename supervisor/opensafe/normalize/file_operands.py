"""Operands of the programs on files whose syntax no table of options describes."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from .awk import awk
from .environment import changes_behaviour
from .find import find
from .git import git
from .options import LOOKS_LIKE_PATH, Use, path_like, read_options, table
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


_CMAKE_TOOLS: Final = frozenset(
    {"capabilities", "cat", "compare_files", "copy", "copy_directory", "copy_if_different", "echo", "make_directory",
     "md5sum", "rename", "sha256sum", "touch"}
)  # fmt: skip


def cmake(args: Sequence[Word]) -> Iterator[Use]:
    """`cmake -E copy …` is a tool box of its own; a script given with -P is the workspace's."""
    for option, value in pairwise([*args, UNKNOWN]):
        if option.text == "-E" and value.text in _CMAKE_TOOLS:
            yield from (Use("write", word) for word in args if LOOKS_LIKE_PATH.match(word.text))
        elif option.text == "-E":
            yield Use("doubt", Word("a tool of its own"))
        elif option.text in ("-B", "--build", "--install", "--prefix"):
            yield Use("write", value)
        elif option.text in ("-P", "-C", "-S"):
            yield Use("read", value)
        elif option.text[:2] in ("-B", "-P") and len(option.text) > 2:
            yield Use("write", option.part(option.text[2:]))
    yield from path_like(args)


def jq(args: Sequence[Word]) -> Iterator[Use]:
    """The filter, then files; `--arg NAME VALUE` and its like take two words."""
    at, filtered, files = 0, False, True
    while at < len(args):
        word, text = args[at], args[at].text
        at += 1
        if text in ("--arg", "--argjson"):
            at += 2
        elif text in ("--slurpfile", "--rawfile"):
            yield from (Use("read", named) for named in args[at + 1 : at + 2])
            at += 2
        elif text in ("--indent", "--seq-indent"):
            at += 1
        elif text in ("-f", "--from-file", "-L"):
            yield from (Use("read", named) for named in args[at : at + 1])
            at, filtered = at + 1, True
        elif text in ("--args", "--jsonargs"):
            files = False
        elif text[:1] == "-" and len(text) > 1:
            continue
        elif not filtered:
            filtered = True
        elif files:
            yield Use("read", word)


def make(args: Sequence[Word]) -> Iterator[Use]:
    """Its files are programs, as scripts are; a variable of the command line may be one too."""
    known = _MAKE
    parsed = read_options(args, known)
    yield from parsed.uses(known)
    staged = any(word.text.startswith("DESTDIR=") for word in parsed.operands)
    for word in parsed.operands:
        name, equals, value = word.text.partition("=")
        if equals and (_MAKE_RUNS.match(name) or re.search(r"[`]|\$[({]", value) or name[-1:] == "!"):
            yield Use("doubt", Word("make with a variable that may run a command"))
        elif value and (name == "DESTDIR" or (name.lower() == "prefix" and not staged)):
            yield Use("write", word.part(value))
        elif equals and changes_behaviour(name.rstrip(":+?"), word.part(value).fixed()):
            yield Use("doubt", Word(f"make with the variable {name[:40]}"))


_MAKE: Final = table(
    "-bmBdeiknpqrRsStvw C:r directory:r f:t file:t makefile:t I:r include-dir:r j= jobs= l= load-average= max-load= o: "
    "old-file: W: what-if: new-file: assume-new: assume-old: O= output-sync= E:! eval:! always-make debug= "
    "environment-overrides ignore-errors keep-going just-print dry-run recon print-data-base question no-builtin-rules "
    "no-builtin-variables silent quiet no-silent no-keep-going stop touch trace version help print-directory "
    "no-print-directory warn-undefined-variables shuffle="
)
_MAKE_RUNS: Final = re.compile(r"\.?SHELL|MAKE|GNUMAKE|\.(?:ONESHELL|EXTRA)|MFLAGS")


FILE_PROGRAMS: Final[dict[str, Callable[[Sequence[Word]], Iterator[Use]]]] = {
    "awk": awk, "bsdtar": tar, "cmake": cmake, "dd": dd, "find": find, "gawk": awk, "git": git, "gnutar": tar,
    "gmake": make, "gojq": jq, "jq": jq, "gtar": tar, "make": make, "mawk": awk, "nawk": awk, "sed": sed, "tar": tar,
}  # fmt: skip
