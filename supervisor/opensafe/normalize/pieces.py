"""Names of secrets that code spells in pieces: `'.e' + 'nv'`, whatever puts them together.

A literal that names a secret is a fact already. What is looked for here are two or three literals that name one only
side by side, and beginnings that only a search for such a name has; both are a doubt, in any language.
"""

import re
from collections.abc import Sequence
from typing import Final

_LITERAL: Final = re.compile(
    r"""'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`|%w[\[({]([^\])}]*)[\])}]"""
)
_HOLES: Final = re.compile(r"\$\{[^}]*\}|\{\w*\}|%s|\s+")
_MAX_LITERALS: Final = 40
_MAX_LENGTH: Final = 48
_SECRET: Final = re.compile(
    r"(?<![\w.])\.env(?![\w-])|\bid_(?:rsa|dsa|ecdsa|ed25519)\b|\.ssh(?![\w-])|\.aws(?![\w-])|\.netrc\b|\.npmrc\b|\.pypirc\b|\.pgpass\b"
    r"|git-credentials|\.kube(?![\w-])|\.gnupg|\.docker/config|\.(?:bash|zsh|python)_history|/etc/(?:shadow|gshadow|sudoers)|/root\b"
    r"|\.bashrc|\.zshrc|\.profile\b|\.git/(?:hooks|config)|/proc/(?:self|[0-9])"
)
_BEGINNING: Final = re.compile(r"(?:\./|~/|/workspace/)?\.(?:e|en|ss|aw|netr|npmr|kub|gnup)[*?\[]*[a-z*?\]$]?")
_STARTS: Final = re.compile(r"(?:[./][a-z]{0,8}|\bi|id_?[a-z]*|git-?[a-z]*|_)\Z")
_FRAGMENT: Final = re.compile(r"[\w./~*?-]{2,}|[a-z]")


def names_secret(text: str) -> bool:
    """Whether a text names a place of secrets, or one where a change would start programs."""
    return _SECRET.search(text) is not None


def spells_secret(code: str) -> bool:
    """Whether literals of the code name a place of secrets only together, or begin to."""
    pieces: dict[str, None] = {}
    order: list[str] = []
    for found in _LITERAL.finditer(code):
        text = next((group for group in found.groups() if group), "")
        if len(text) <= _MAX_LENGTH:
            order.append(text)
            pieces.update(dict.fromkeys([text, *_HOLES.split(text)]))
    if any(_BEGINNING.fullmatch(text) and not _SECRET.search(text) for text in pieces):
        return True
    fragments = [text for text in pieces if _FRAGMENT.fullmatch(text)][:_MAX_LITERALS]
    starts = [text for text in fragments if _STARTS.search(text)]
    if any(_spelt([start, text]) for start in starts for text in fragments if start != text):
        return True
    return any(_spelt(order[at : at + 3]) for at in range(min(len(order), _MAX_LITERALS)))


def _spelt(parts: Sequence[str]) -> bool:
    """Whether the parts name one across all of their joints, and not on their own."""
    whole = "".join(parts)
    first, last = len(parts[0]), len(whole) - len(parts[-1])
    return any(found.start() < first and found.end() > last for found in _SECRET.finditer(whole)) and not any(
        _SECRET.search(part) for part in parts
    )
