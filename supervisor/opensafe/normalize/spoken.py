"""The text that echo and printf print, where all of it stands in the call.

What a number's format makes of its argument is left as it is: whoever reads the text looks for the names of programs.
"""

import re
from collections.abc import Sequence
from typing import Final

from .word import Word

_OPTIONS: Final = re.compile(r"-[neE]+")
_DIRECTIVE: Final = re.compile(r"%(?:(%)|[-+ #0]*+\d*+(?:\.\d++)?+([a-zA-Z]))")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_MAX_ROUNDS: Final = 64


def spoken(program: str, args: Sequence[Word]) -> str | None:
    """What the command prints; None for another program, and where a word is not known."""
    words = [word.fixed() for word in args]
    if program not in ("echo", "printf") or None in words:
        return None
    texts = [word for word in words if word is not None]
    return _echo(texts) if program == "echo" else _printf(texts)


def _echo(texts: list[str]) -> str:
    given = ""
    while texts and _OPTIONS.fullmatch(texts[0]):
        given += texts.pop(0)
    text = " ".join(texts)
    return (_unescaped(text) if "e" in given else text) + ("" if "n" in given else "\n")


def _printf(texts: list[str]) -> str:
    if texts[:1] == ["--"]:
        texts = texts[1:]
    if not texts or texts[0][:1] == "-":  # `-v NAME` prints nothing
        return ""
    form, left, made = texts[0], texts[1:], ""
    for _ in range(_MAX_ROUNDS):
        said, at = "", 0
        before = len(left)
        for found in _DIRECTIVE.finditer(form):
            said += _unescaped(form[at : found.start()])
            at = found.end()
            if found[1]:
                said += "%"
                continue
            text = left.pop(0) if left else ""
            said += _unescaped(text) if found[2] == "b" else text
        made += said + _unescaped(form[at:])
        if not left or len(left) == before:
            break
    return made


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[0]), text) if "\\" in text else text
