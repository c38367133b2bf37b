"""sed: its script, read command by command as GNU sed 4.9 does, and its operands.

The script's commands are a positive list. `r` and `w` name files, `e` and what is not known here is a doubt.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .options import Use, read_options, table
from .word import HOLE, NUMBER, TOLD, Word

_OPTIONS: Final = table(
    "-nErsuzb e: f:t i= l: quiet silent debug expression: file:t in-place= line-length: null-data posix "
    "regexp-extended sandbox separate unbuffered zero-terminated follow-symlinks! binary help version"
)  # fmt: skip
_ADDRESS: Final = re.compile(r"[0-9]+(?:~[0-9]+)?|\$")
_SECOND: Final = re.compile(r"[0-9]+|\$|[+~][0-9]+")
_BLANKS: Final = re.compile(r"[ \t]*")
_BETWEEN: Final = re.compile(r"[ \t\n;]*")
_END: Final = re.compile(r"[ \t]*(?:[;\n]|(?=[}#])|\Z)")
_LABEL: Final = re.compile(r"[ \t]*[A-Za-z0-9_.-]*[ \t]*(?:[;\n]|\Z)")
_NUMBER: Final = re.compile(r"[ \t]*[0-9]*")
_TEXT: Final = re.compile(r"(?:[^\\\n]|\\.|\\\Z)*", re.DOTALL)
_LINE: Final = re.compile(r"[ \t]*([^\n]*)\n?")
_FLAGS: Final = re.compile(r"[gpiImM0-9]*")
_MATCH_FLAGS: Final = re.compile(r"[IM]*")


class _NotModelledError(Exception):
    """The script holds something that is not on the list."""


def sed(args: Sequence[Word]) -> Iterator[Use]:
    """What sed does with its arguments (without argv[0])."""
    parsed = read_options(args, _OPTIONS)
    yield from parsed.uses(_OPTIONS)
    operands = list(parsed.operands)
    scripts = [value for name, value in parsed.options if name in ("e", "expression") and value is not None]
    if not scripts and not any(name in ("f", "file") for name, _ in parsed.options) and operands:
        scripts = [operands.pop(0)]
    yield from script_uses("\n".join(_filled(script.text) for script in scripts))
    suffixes = [value for name, value in parsed.options if name in ("i", "in-place")]
    for word in operands:
        yield Use("read", word)
        if suffixes:
            yield Use("write", word)
    for suffix in suffixes:
        if suffix is not None and not re.fullmatch(r"[\w.~-]*", suffix.text):
            yield Use("doubt", Word("a backup suffix that names another place"))
        elif suffix is not None and suffix.text:
            yield from (Use("write", word.part(word.text + suffix.text)) for word in operands)


def _filled(script: str) -> str:
    """The script with a number for what holds one, and with a word for a line that files or git show.

    Where such a word stands in a pattern or a replacement, that is as good as a script of the workspace; elsewhere it
    is no command.
    """
    return script.replace(NUMBER, "1").replace(TOLD, "_") if script[:1] != HOLE or script[:2] == NUMBER else script


def script_uses(script: str) -> Iterator[Use]:
    """The files a script names, and a doubt where it may do more than edit."""
    if HOLE in script:
        yield Use("doubt", Word("a script that is not known before the run"))
        return
    try:
        yield from _commands(script)
    except _NotModelledError:
        yield Use("doubt", Word("a script that may run commands or write files"))


def _commands(script: str) -> Iterator[Use]:
    at = _after(_BETWEEN, script, 0)
    while at < len(script):
        if script[at] == "}":
            at = _end(script, at + 1)
        elif script[at] == "#":
            at = (script.find("\n", at) + 1) or len(script)
        else:
            at = _command_at(script, at)
            name = script[at : at + 1]
            at += 1
            match name:
                case "{":
                    pass
                case "=" | "d" | "D" | "g" | "G" | "h" | "H" | "n" | "N" | "p" | "P" | "x" | "z" | "F":
                    at = _end(script, at)
                case "l" | "q" | "Q":
                    at = _end(script, _after(_NUMBER, script, at))
                case "b" | "t" | "T" | ":":
                    at = _after(_LABEL, script, at)
                case "a" | "i" | "c":
                    at = _after(_TEXT, script, at)
                case "y":
                    at = _end(script, _delimited(script, _delimited(script, at) - 1))
                case "s":
                    at = _after(_FLAGS, script, _delimited(script, _delimited(script, at) - 1))
                    if script[at : at + 1] == "w":
                        yield Use("write", Word(_file(script, at + 1)))
                        at = _after(_LINE, script, at + 1)
                    else:
                        at = _end(script, at)
                case "r" | "R" | "w" | "W":
                    yield Use("read" if name in "rR" else "write", Word(_file(script, at)))
                    at = _after(_LINE, script, at)
                case _:
                    raise _NotModelledError
        at = _after(_BETWEEN, script, at)


def _command_at(script: str, at: int) -> int:
    """Where the command begins behind its addresses."""
    first = _address(script, at, _ADDRESS)
    if first != at:
        comma = _after(_BLANKS, script, first)
        if script[comma : comma + 1] == ",":
            second = _after(_BLANKS, script, comma + 1)
            first = _address(script, second, _SECOND)
            if first == second:
                raise _NotModelledError
    at = _after(_BLANKS, script, first)
    while script[at : at + 1] == "!":
        at = _after(_BLANKS, script, at + 1)
    return at


def _address(script: str, at: int, simple: re.Pattern[str]) -> int:
    if script[at : at + 1] == "/":
        return _after(_MATCH_FLAGS, script, _delimited(script, at))
    if script[at : at + 1] == "\\":
        return _after(_MATCH_FLAGS, script, _delimited(script, at + 1))
    return _after(simple, script, at)


def _delimited(script: str, at: int) -> int:
    """The place behind the delimiter that closes what the one at `at` opens."""
    mark = script[at : at + 1]
    if mark in ("", "\n", "\\"):
        raise _NotModelledError
    at += 1
    while at < len(script) and script[at] != mark:
        if script[at] == "\n":
            raise _NotModelledError
        at += 2 if script[at] == "\\" else 1
    if at >= len(script):
        raise _NotModelledError
    return at + 1


def _after(pattern: re.Pattern[str], script: str, at: int) -> int:
    found = pattern.match(script, at)
    if found is None:
        if pattern is _END or pattern is _LABEL:
            raise _NotModelledError
        return at
    return found.end()


def _end(script: str, at: int) -> int:
    return _after(_END, script, at)


def _file(script: str, at: int) -> str:
    found = _LINE.match(script, at)
    if found is None or not found[1]:
        raise _NotModelledError
    return found[1]
