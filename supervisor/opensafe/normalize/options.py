"""What becomes of an operand, and how options are told from operands."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from .words import HOLE, UNKNOWN, Word

Role = Literal["read", "write", "delete", "host"]


class Use(NamedTuple):
    """One operand and what becomes of it; `scheme` is assumed for a host written without one."""

    role: Role
    word: Word
    scheme: str | None = None


LOOKS_LIKE_PATH: Final = re.compile(r"[^=]*/|~|\.|[\w.-]+\.[A-Za-z]\w{0,7}\Z")


def split_options(words: Sequence[Word], valued: dict[str, str]) -> tuple[list[Word], list[tuple[str, Word]]]:
    """Operands, and (option, value) pairs of the options in `valued`; getopt_long's rules, `--` ends options."""
    operands: list[Word] = []
    options: list[tuple[str, Word]] = []
    rest = iter(words)
    for word in rest:
        text = word.text
        if text[:1] != "-" or text == "-":
            operands.append(word)
        elif text == "--":
            operands.extend(rest)
        elif text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            if equals:
                options.append((name, Word(value, word.glob)))
            elif name in valued:
                options.append((name, next(rest, UNKNOWN)))
        elif text[1:] in valued and len(text) > 2:  # a single dash before a long name
            options.append((text[1:], next(rest, UNKNOWN)))
        else:
            for at, letter in enumerate(text[1:], 2):
                if letter in valued:
                    value = text[at:]
                    options.append((letter, Word(value, word.glob) if value else next(rest, UNKNOWN)))
                    break
    return operands, options


def path_like(args: Sequence[Word]) -> Iterator[Use]:
    """The reads of a program that is not known: every argument, or option's value, that looks like a path."""
    for word in args:
        text = word.text
        if text.startswith("-"):
            _, equals, text = text.partition("=")
            if not equals:
                continue
        if "://" not in text and LOOKS_LIKE_PATH.match(text) and HOLE not in text:
            yield Use("read", Word(text, word.glob))
