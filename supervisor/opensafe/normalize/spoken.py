"""The text that echo and printf print, where all of it stands in the call.

What a number's format makes of its argument is left as it is: whoever reads the text looks for the names of programs.
A format that makes letters out of numbers, a time or an unknown width is not followed: `shows` tells.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .kept import MAX_TEXT
from .word import Word

_OPTIONS: Final = re.compile(r"-[neE]+")
_DIRECTIVE: Final = re.compile(r"%(?:(%)|([-+ #0]*+)(\d{0,3}+)(?:\.(\d{0,3}+))?+([bcdeEfgGisu]))")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS: Final = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v", "\\": "\\",
}  # fmt: skip
_IN_FORMAT: Final = {**_CONTROLS, '"': '"', "'": "'", "?": "?"}
_TEXTS: Final = frozenset("bcs")


def shows(program: str, args: Sequence[Word]) -> bool:
    """Whether what echo and printf print can be told, where their words are known."""
    texts = [word.text for word in args]
    if program == "echo":
        return not (_OPTIONS.match(texts[0] if texts else "") and any("\\c" in text for text in texts))
    if texts[:1] == ["--"]:
        texts = texts[1:]
    if not texts or texts[0][:1] == "-":
        return True
    found = list(_DIRECTIVE.finditer(texts[0]))
    cut = any(one[3] or one[4] is not None for one in found if one[5] in _TEXTS)
    told = texts[0].isascii() and all(text.isascii() for text in texts) if cut else True
    ends = any(one[5] == "b" for one in found) and any("\\c" in text for text in texts)
    return told and not ends and "%" not in _DIRECTIVE.sub("", texts[0])


def spoken(program: str, args: Sequence[Word]) -> str | None:
    """What the command prints; None for another program, and where a word is not known. Up to `MAX_TEXT` and more."""
    if program not in ("echo", "printf"):
        return None
    texts = []
    for word in args:
        text = word.fixed()
        if text is None:
            return None
        texts.append(text)
    return _echo(texts) if program == "echo" else _printf(texts)


def _echo(texts: list[str]) -> str:
    given = ""
    while texts and _OPTIONS.fullmatch(texts[0]):
        given += texts.pop(0)
    text = " ".join(texts)
    return (_unescaped(text, _CONTROLS) if "e" in given else text) + ("" if "n" in given else "\n")


def _printf(texts: list[str]) -> str:
    if texts[:1] == ["--"]:
        texts = texts[1:]
    if not texts or texts[0][:1] == "-":  # `-v NAME` prints nothing
        return ""
    form, left = texts[0], iter(texts[1:])
    takes = sum(not found[1] for found in _DIRECTIVE.finditer(form))
    rounds = -(-(len(texts) - 1) // takes) if takes else 1
    made: list[str] = []
    size = 0
    for _ in range(max(rounds, 1)):
        made += (said := list(_round(form, left)))
        size += sum(map(len, said))
        if size > MAX_TEXT:
            break
    return "".join(made)


def _round(form: str, left: Iterator[str]) -> Iterator[str]:
    """The format once, with what it takes of the arguments that are left."""
    at = 0
    for found in _DIRECTIVE.finditer(form):
        yield _unescaped(form[at : found.start()], _IN_FORMAT)
        at = found.end()
        percent, flags, width, cut, kind = found.groups()
        if percent:
            yield "%"
            continue
        text = next(left, "")
        if kind not in _TEXTS:
            yield text or "0"
            continue
        text = _unescaped(text, _CONTROLS) if kind == "b" else text[:1] if kind == "c" else text
        text = text[: int(cut or 0)] if cut is not None and kind != "c" else text
        yield text.ljust(int(width or 0)) if "-" in flags else text.rjust(int(width or 0))
    yield _unescaped(form[at:], _IN_FORMAT)


def _unescaped(text: str, escapes: dict[str, str]) -> str:
    return _ESCAPE.sub(lambda found: escapes.get(found[1], found[0]), text) if "\\" in text else text
