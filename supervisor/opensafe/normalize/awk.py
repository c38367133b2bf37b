"""awk: its program, read token by token, and its operands.

All that an awk program can do beside computing has a token of its own: `system`, `getline`, a pipe, a redirection
behind `print`, the operand list `ARGV`, `@load`. Each is a doubt, but a redirection to one literal file.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .options import Use, read_options, table
from .word import Word

_OPTIONS: Final = table("F: v: f:t field-separator: assign: file:t version help")
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t]+|\\\n|\#[^\n]*) | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*) | (?P<after>\+\+|--|[)\]$]) | (?P<redirect>>>?)(?!=) | (?P<pipe>\|(?!\|)|@)
      | (?P<slash>/) | (?P<other>\|\||&&|>=|[-+*%^!=<~?:,;{}(\[\n]|&)""",
    re.VERBOSE | re.DOTALL,
)  # fmt: skip
_REGEX: Final = re.compile(r"/(?:[^/\\\n]|\\.)*/")
#: The known start of a name that is put together.
_START: Final = re.compile(r'[ \t]*\(?[ \t]*"([^"\\\n]+)"')
_TARGET: Final = re.compile(r'[ \t]*"([^"\\\n]*)"[ \t]*(?=[;}\n]|\Z)')
_EFFECTS: Final = frozenset({"system", "getline", "ARGV", "ARGC", "SYMTAB", "FUNCTAB", "PROCINFO"})
_KEYWORDS: Final = frozenset({"print", "printf", "return", "else", "do", "in", "case", "delete", "exit", "while", "if"})
_ASSIGNS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_OPEN_LINE: Final = frozenset({",", "{", "&&", "||"})


def awk(args: Sequence[Word]) -> Iterator[Use]:
    """What awk does with its arguments (without argv[0])."""
    parsed = read_options(args, _OPTIONS, first_ends=True)
    yield from parsed.uses(_OPTIONS)
    operands = list(parsed.operands)
    if not any(name in ("f", "file") for name, _ in parsed.options) and operands:
        program = operands.pop(0)
        if program.fixed() is None:
            yield Use("doubt", Word("a program that is not known before the run"))
        else:
            yield from program_uses(program.text)
    for word in operands:
        if not _ASSIGNS.match(word.text):
            yield Use("read", word)


def program_uses(program: str) -> Iterator[Use]:
    """The files a program writes, and a doubt where it may do more than compute."""
    at, before, printing, depth = 0, "\n", False, 0
    while at < len(program):
        token = _TOKEN.match(program, at)
        if token is None or token["pipe"] or token["name"] in _EFFECTS:
            yield Use("doubt", Word("a program that may run commands or choose its files"))
            return
        text, at = token[0], token.end()
        if token["space"]:
            continue
        if token["slash"]:
            value = before[-1:].isalnum() or before[-1:] in ('"', "_", ")", "]", "$") or before in ("++", "--")
            if value and (before in _KEYWORDS or (before == ")" and "/" in program[at:])):
                yield Use("doubt", Word("a program in which a slash may be a division or a pattern"))
                return
            if not value:
                pattern = _REGEX.match(program, at - 1)
                if pattern is None:
                    yield Use("doubt", Word("a program with an open pattern"))
                    return
                at, text = pattern.end(), ")"
        elif text in ("print", "printf"):
            printing, depth = True, 0
        elif text in ("(", "["):
            depth += 1
        elif text in (")", "]"):
            depth -= 1
        elif text in (";", "}") or (text == "\n" and before not in _OPEN_LINE):
            printing = False
        elif token["redirect"] and printing and depth <= 0:
            target = _TARGET.match(program, at)
            if target is None and (start := _START.match(program, at)):
                yield Use("write", Word(f"{start[1]}*", glob=True))  # and wherever the rest leads
            if target is None or target[1].startswith("/inet"):
                yield Use("doubt", Word("a program that writes a file it chooses"))
                return
            yield Use("write", Word(target[1]))
            at, text = target.end(), '"'
        before = text
