"""The grammar's blind spots: text between and inside its tokens that it does not show.

tree-sitter's bash grammar skips an escaped blank between words, ends some words early, and hides a dash or a
letter inside an operator's token, all without an error. What bash would read there is not guessed: it is a doubt.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from tree_sitter import Node

_BLANK: Final = re.compile(rb"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")
_BLANK_LINES: Final = re.compile(rb"(?:\\\n)*[ \t\n](?:[ \t\n]|\\\n)*")
REDIRECTS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})


def check_gaps(
    source: bytes, nodes: Sequence[Node], doubt: Callable[[str], None], *, glued: bool = False, lines: bool = False
) -> None:
    """Nothing but blanks may lie between neighbours, and something must unless they may be `glued`.

    `lines`: newlines are blanks too, as between statements.
    """
    end = -1
    redirected = True
    blank = _BLANK_LINES if lines else _BLANK
    for node in nodes:
        start, named = node.start_byte, node.is_named
        hides = not named and node.end_byte - start != len(node.type) and node.type != "\n"
        if hides and not (node.type == "$(" and source[start : node.end_byte].lstrip(b" \t") == b"$("):  # in a string
            doubt("the grammar hides text in an operator")
        if start == end:
            if named and node.type != "process_substitution" and not (glued or redirected or node.type in REDIRECTS):
                doubt("two words stand side by side")
        elif end >= 0 and not blank.fullmatch(source, end, start):
            doubt("the grammar leaves out a part of the text")
        end = node.end_byte
        redirected = node.type in REDIRECTS
