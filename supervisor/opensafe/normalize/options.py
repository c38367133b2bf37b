"""What becomes of an operand, and how options are told from operands.

Two readings: `read_options` with a program's full table, where what is not in the table is a doubt, and
`split_options` with the few options that matter, for programs that write and run nothing by an option.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from .word import HOLE, UNKNOWN, Word

Role = Literal["read", "write", "delete", "host", "text", "doubt"]
ROLES: Final[dict[str, Role]] = {"r": "read", "w": "write", "d": "delete", "h": "host", "t": "text"}


class Use(NamedTuple):
    """One operand and what becomes of it; `scheme` is assumed for a host written without one.

    A `text` is a file read as a program. A `doubt` names no file: its word says what is not understood.
    """

    role: Role
    word: Word
    scheme: str | None = None


LOOKS_LIKE_PATH: Final = re.compile(r"[^=]*/|~|\.|[\w.-]+\.[A-Za-z]\w{0,7}\Z")


class Table(NamedTuple):
    """All options of a program. The value of each says what it is: see `table`."""

    short: dict[str, str]
    long: dict[str, str]


def table(text: str) -> Table:
    """`-abc` are letters without value. A name, of one letter or more, may end in

    `:` a value follows, `=` one may be glued to it, then roles of the value (r w d h, t a program's text);
    `!` it runs a program or reads operands from elsewhere.
    """
    short: dict[str, str] = {}
    long: dict[str, str] = {}
    for token in text.split():
        if token[0] == "-":
            short.update(dict.fromkeys(token[1:], ""))
            continue
        found = re.fullmatch(r"([\w.#-]+)((?:[:=][rwdht]*)?!?)", token)
        if found is None:
            raise ValueError(token)
        (short if len(found[1]) == 1 else long)[found[1]] = found[2]
    return Table(short, long)


class Parsed(NamedTuple):
    """What a command line says under a table: operands, options with their values, and what was not understood."""

    operands: list[Word]
    options: list[tuple[str, Word | None]]
    doubts: list[str]

    def uses(self, known: Table) -> Iterator[Use]:
        """The doubts, and what becomes of the options' values."""
        for reason in self.doubts:
            yield Use("doubt", Word(reason))
        for name, value in self.options:
            kind = (known.short if len(name) == 1 else known.long)[name]
            if "!" in kind:
                yield Use("doubt", Word(f"the option {name} runs a program or takes operands from elsewhere"))
            if value is not None and not (kind[:1] == "=" and not value.text):
                for letter in kind[1:].rstrip("!"):
                    yield Use(ROLES[letter], value)


def read_options(words: Sequence[Word], known: Table, *, first_ends: bool = False) -> Parsed:
    """GNU getopt_long's reading: clusters, glued values, unambiguous abbreviations; `--` ends options.

    `first_ends`: the first operand ends the options too. A word out of which an option may come is a doubt.
    """
    operands: list[Word] = []
    options: list[tuple[str, Word | None]] = []
    doubts: list[str] = []
    rest = iter(words)
    for word in rest:
        text = word.text
        if word.may_be_option:
            doubts.append("an option may come from what is not known before the run")
            operands.append(word)
        elif text[:1] != "-" or text == "-":
            operands.append(word)
            if first_ends:
                operands.extend(rest)
        elif text == "--":
            operands.extend(rest)
        elif text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            exact = name if name in known.long else _completed(name, known.long)
            if exact is None:
                doubts.append(f"the option --{name[:40]} is not known")
                continue
            given = word.part(value) if equals else None
            if given is None and known.long[exact][:1] == ":":
                given = next(rest, UNKNOWN)
            options.append((exact, given))
        else:
            for at, letter in enumerate(text[1:], 2):
                kind = known.short.get(letter)
                if kind is None:
                    doubts.append(f"the option -{letter if letter != HOLE else '?'} is not known")
                    break
                if kind[:1] == ":":
                    options.append((letter, word.part(text[at:]) if text[at:] else next(rest, UNKNOWN)))
                    break
                if kind[:1] == "=":
                    options.append((letter, word.part(text[at:])))
                    break
                options.append((letter, None))
    return Parsed(operands, options, doubts)


def _completed(name: str, long: dict[str, str]) -> str | None:
    """The option that a shortened name stands for, where one only does."""
    found = [full for full in long if full.startswith(name)] if name else []
    return found[0] if len(found) == 1 else None


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
                options.append((name, word.part(value)))
            elif name in valued:
                options.append((name, next(rest, UNKNOWN)))
        elif text[1:] in valued and len(text) > 2:  # a single dash before a long name
            options.append((text[1:], next(rest, UNKNOWN)))
        else:
            for at, letter in enumerate(text[1:], 2):
                if letter in valued:
                    value = text[at:]
                    options.append((letter, word.part(value) if value else next(rest, UNKNOWN)))
                    break
    return operands, options


_OUTPUT: Final = re.compile(
    r"-o|--?(?:[\w-]*[-_])?(?:out|output|dest|destination|report|junit-?xml|target)(?:[-_]?(?i:file|dir|path|directory))?|--prefix|--log-?file"
)


#: By which formatters and filters write the files that they are given.
_IN_PLACE: Final = re.compile(r"-i|--in-?place|--write|--fix")


def path_like(args: Sequence[Word]) -> Iterator[Use]:
    """The reads of a program that is not known: every argument, or option's value, that looks like a path."""
    writes = False
    inplace = any(_IN_PLACE.fullmatch(word.text) for word in args)
    for word in args:
        text = word.text
        name, wrote, writes = "", writes or inplace, _OUTPUT.fullmatch(text) is not None
        if text.startswith("-"):
            name, equals, text = text.partition("=")
            if not equals:
                continue
            wrote = _OUTPUT.fullmatch(name) is not None
        if wrote and "://" not in text and HOLE not in text and "/" in text:
            yield Use("write", word.part(text))
        if "://" not in text and LOOKS_LIKE_PATH.match(text) and HOLE not in text:
            yield Use("read", word.part(text))
