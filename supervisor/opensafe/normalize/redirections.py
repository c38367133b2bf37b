"""Redirections and here-documents, with the words and statements that the grammar hangs onto them."""

import re
from typing import Final, Protocol

from tree_sitter import Node

from .gaps import check_gaps
from .word import UNKNOWN, Scope, Word
from .words import read_words

_BARE_NUMBER: Final = re.compile(rb"(?<![^\s;&|()<>])\d+\Z")
_AFTER_DELIMITER: Final = tuple(bytes([char]) for char in b" \t\n;&|<>)")

Redirection = tuple[str, int | None, Word | None]


class Redirecting(Scope, Protocol):
    """The text that a redirection stands in."""

    def slice(self, node: Node) -> str:
        """The text of a node."""

    def redirect(self, op: str, target: Word | None) -> None:
        """Account for the file of one redirection."""

    def behind(self, node: Node, position: str) -> None:
        """Walk a statement once the one that is being read is through."""


def read_redirect(
    scope: Redirecting,
    node: Node,
    redirects: list[Redirection],
    extra: list[Word],
    position: str = "top",
) -> None:
    """One redirection: added to `redirects`; words that the grammar hangs onto it go to `extra`."""
    if node.type == "heredoc_redirect":
        _heredoc(scope, node, redirects, extra, position)
        return
    op, fd, target = "", None, None
    check_gaps(scope.source, node.children_by_field_name("destination"), scope.doubt)
    before = scope.source[max(0, node.start_byte - 24) : node.start_byte]
    if node.children[0].type == "file_descriptor":
        if not scope.slice(node.children[0]).isdigit():
            scope.doubt("a redirection's descriptor is no number")
    elif before.endswith(b"}") or (before[-1:].isdigit() and _BARE_NUMBER.search(before)):
        scope.doubt("a descriptor before a redirection is none to the grammar")
    check_gaps(scope.source, node.children, scope.doubt, glued=True)
    for child in node.children:
        if child.type == "file_descriptor":
            digits = scope.slice(child)
            fd = int(digits) if digits.isdigit() and len(digits) < 6 else None
        elif not child.is_named and not op:
            op = child.type
        elif child.is_named or child.type not in ("$",):
            words = read_words(child, scope)
            if target is None and not op.endswith("-"):
                target = words[0] if len(words) == 1 else UNKNOWN
            else:
                extra += words
    redirects.append((op, fd, target))
    scope.redirect(op, target)


def _heredoc(
    scope: Redirecting,
    node: Node,
    redirects: list[Redirection],
    extra: list[Word],
    position: str,
) -> None:
    """A here-document, and what the grammar hangs onto its first line: redirections, arguments, a pipeline."""
    op, fd, start, end, body = "<<", None, "", None, b""
    literal = True
    later: list[Node] = []
    for child in node.children:
        text = scope.source[child.start_byte : child.end_byte]
        match child.type:
            case "<<" | "<<-":
                op = child.type
                if text != op.encode():
                    scope.doubt("the grammar hides text in an operator")
            case "file_descriptor":
                fd = int(text) if text.isdigit() and len(text) < 6 else None
            case "heredoc_start":
                if scope.source[child.end_byte : child.end_byte + 1] not in _AFTER_DELIMITER:
                    scope.doubt("a here-document's delimiter goes on")
                start = scope.slice(child)
            case "heredoc_end":
                if scope.source[child.end_byte : child.end_byte + 1] not in (b"", b"\n"):
                    scope.doubt("a here-document's end is not alone on its line")
                end = scope.slice(child).strip()
            case "heredoc_body":
                body = text
                for part in child.named_children:
                    if part.type in ("simple_expansion", "expansion", "arithmetic_expansion"):
                        read_words(part, scope)
                        literal = False
                    elif part.type == "command_substitution":
                        scope.nested(part)
                        literal = False
            case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                read_redirect(scope, child, redirects, extra, position)
            case "word" | "string" | "raw_string" | "concatenation" | "number" | "ansi_c_string":
                extra += read_words(child, scope)
            case _:
                if child.is_named:
                    later.append(child)
    quoted = re.search(r"[\\'\"]", start) is not None
    delimiter = re.sub(r"[\\'\"]", "", start)
    if end is None or end != delimiter:
        scope.doubt("a here-document without its end")
    if not quoted and literal and re.search(rb"\$[({A-Za-z_]|`", re.sub(rb"\\.", b"", body)):
        scope.doubt("a here-document with expansions that were not found")
    content = body.decode("utf-8", "replace")
    fixed = quoted or (literal and not any(char in content for char in "\\$`"))
    word = Word(content) if fixed else UNKNOWN
    redirects.append((op, fd, word))
    for statement in later:
        scope.behind(statement, "pipe" if position == "top" else position)
