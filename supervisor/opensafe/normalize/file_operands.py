"""Operands of the programs on files whose syntax no table of options describes: dd, tar, sed, awk, find."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from .options import Use, split_options
from .words import HOLE, UNKNOWN, Word


def dd(args: Sequence[Word]) -> Iterator[Use]:
    for word in args:
        name, _, value = word.text.partition("=")
        if name in ("if", "of"):
            yield Use("read" if name == "if" else "write", Word(value, word.glob))
        elif HOLE in name:
            yield Use("write", UNKNOWN)


def tar(args: Sequence[Word]) -> Iterator[Use]:
    words = list(args)
    if words and not words[0].text.startswith("-"):
        words[0] = Word("-" + words[0].text)
        # Old style: the values follow the cluster in the order of its letters.
        letters, values, rest = words[0].text[1:], [], words[1:]
        for letter in letters:
            if letter in "fCTXbIg" and rest:
                values += [Word("-" + letter), rest.pop(0)]
        words = [Word("-" + "".join(c for c in letters if c not in "fCTXbIg")), *values, *rest]
    valued = dict.fromkeys(
        ["f", "file", "C", "directory", "T", "files-from", "X", "b", "I", "exclude", "transform", "g"], ""
    )
    operands, options = split_options(words, valued)
    flags = "".join(word.text for word in words if word.text[:1] == "-" and word.text[:2] != "--")
    longs = {word.text for word in words}
    creates = bool(set("cruA") & set(re.sub(r"[^A-Za-z]", "", flags))) or bool(
        longs & {"--create", "--append", "--update"}
    )
    place = Word(".")
    for name, value in options:
        if name in ("f", "file"):
            if value.text != "-":
                yield Use("write" if creates else "read", value)
        elif name in ("C", "directory"):
            place = value
        elif name in ("T", "files-from", "X"):
            yield Use("read", value)
    if creates:
        yield from (Use("read", word) for word in operands)
    elif not (longs & {"--list", "-t"} or "t" in flags):
        yield Use("write", place)


def sed(args: Sequence[Word]) -> Iterator[Use]:
    operands, options = split_options(args, dict.fromkeys(["e", "f", "expression", "file", "l", "s"], ""))
    scripted = any(name in ("e", "f", "expression", "file") for name, _ in options)
    in_place = any(re.match(r"-[A-Za-z]*i|--in-place", word.text) for word in args)
    for name, value in options:
        if name in ("f", "file"):
            yield Use("read", value)
    for word in operands if scripted else operands[1:]:
        yield Use("read", word)
        if in_place:
            yield Use("write", word)


def awk(args: Sequence[Word]) -> Iterator[Use]:
    operands, options = split_options(
        args, dict.fromkeys(["f", "F", "v", "i", "file", "assign", "field-separator"], "")
    )
    scripted = False
    for name, value in options:
        if name in ("f", "file", "i"):
            scripted = True
            yield Use("read", value)
    yield from (Use("read", word) for word in (operands if scripted else operands[1:]) if "=" not in word.text)


def find(args: Sequence[Word]) -> Iterator[Use]:
    roots = find_roots(args)
    deletes = any(word.text == "-delete" for word in args)
    for root in roots:
        yield Use("read", root)
        if deletes:
            yield Use("delete", root)
    for option, value in pairwise(args):
        if option.text in ("-fprint", "-fprintf", "-fprint0", "-fls"):
            yield Use("write", value)
        elif option.text in ("-newer", "-samefile", "-files0-from"):
            yield Use("read", value)


def find_roots(args: Sequence[Word]) -> list[Word]:
    """The starting points of a `find`; `.` where none is given."""
    roots: list[Word] = []
    rest = iter(args)
    for word in rest:
        if word.text in ("-H", "-L", "-P") or word.text.startswith("-O"):
            continue
        if word.text == "-D":
            next(rest, None)
            continue
        if word.text[:1] in ("-", "(", "!", ","):
            break
        roots.append(word)
    return roots or [Word(".")]


FILE_PROGRAMS: Final[dict[str, Callable[[Sequence[Word]], Iterator[Use]]]] = {
    "awk": awk, "bsdtar": tar, "dd": dd, "find": find, "gawk": awk, "mawk": awk, "nawk": awk, "sed": sed, "tar": tar,
}  # fmt: skip
