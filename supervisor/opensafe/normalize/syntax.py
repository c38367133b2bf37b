"""Small questions about nodes of the grammar and what they say."""

import re

from tree_sitter import Node

from .word import Word


def gap(first: Node, second: Node) -> tuple[int, int]:
    return first.end_byte, second.start_byte


def assigned(name: str, value: Word) -> Word:
    return Word(f"{name}={value.text}")


def in_loop(node: Node) -> bool:
    """Whether a statement stands directly in the body of a `for` at the top of its text."""
    body = node.parent
    loop = body.parent if body is not None and body.type == "do_group" else None
    return loop is not None and loop.type == "for_statement" and at_top(loop)


def at_top(node: Node) -> bool:
    parent = node.parent
    if parent is not None and parent.type == "list" and parent.children[0] == node:  # first of `a && b`
        return at_top(parent)
    if parent is not None and parent.type == "redirected_statement" and node.type == "list":  # the last one's
        return at_top(parent)
    return parent is not None and parent.type == "program"


def leaves(statement: bytes) -> bool:
    """Whether a statement surely ends the script: only then does `cd X || …` settle the directory."""
    return re.fullmatch(rb"(exit|return)(\s+\d+)?", statement.strip()) is not None
