"""`[ … ]`, `[[ … ]]` and subscripts: their words, and where bash evaluates one as arithmetic."""

import re
from typing import Final, Protocol

from tree_sitter import Node

from .expansions import KEY, counts, descend, is_plain_arithmetic
from .word import HOLE, Scope, Word
from .words import ENDS_WORD, read_words

_SPLITS: Final = frozenset({"&&", "||", "<", ">", "(", ")", ";", "&", "|", "|&", "<=", ">=", "<<", ">>", "++", "--"})
_RUNS: Final = re.compile(rb"`|\$\(|[<>]\(")
_ARITHMETIC_TESTS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


class Sliced(Scope, Protocol):
    """The text that a condition stands in."""

    def slice(self, node: Node) -> str:
        """The text of a node."""


def check_subscript(scope: Sliced, node: Node) -> None:
    index = scope.slice(node).partition("[")[2].removesuffix("]")
    name = scope.slice(node).partition("[")[0]
    if not (KEY.fullmatch(index) and scope.associative(name)) and not is_plain_arithmetic(index, scope):
        scope.doubt("a subscript that may not be a number, which may run commands")
    descend(node, scope)


def check_counted(scope: Sliced, node: Node) -> None:
    """`[[ a -eq b ]]` evaluates both as arithmetic, `[[ -v a ]]` a subscript of a."""
    texts = scope.slice(node).split()
    for child in node.children:
        if child.type == "binary_expression":
            operator = next((part for part in child.children if scope.slice(part) in _ARITHMETIC_TESTS), None)
            if operator is not None:
                for part in child.children:
                    if part is not operator and part.start_byte != operator.start_byte:
                        _check_number(scope, part)
        if child.child_count:
            check_counted(scope, child)
    if node.type == "test_command" and ("-v" in texts or "-R" in texts):
        at = texts.index("-v" if "-v" in texts else "-R")
        if not re.fullmatch(r"[A-Za-z_]\w*", texts[at + 1] if at + 1 < len(texts) else ""):
            scope.doubt("a test evaluates what is no plain name")
    found = sum(text in _ARITHMETIC_TESTS for text in texts)
    if node.type == "test_command" and found != _compared(scope, node):
        scope.doubt("a comparison of numbers that was not found")


def _compared(scope: Sliced, node: Node) -> int:
    own = node.type == "binary_expression" and any(scope.slice(part) in _ARITHMETIC_TESTS for part in node.children)
    return own + sum(_compared(scope, child) for child in node.children)


def _check_number(scope: Sliced, node: Node) -> None:
    if node.type == "command_substitution":
        if not counts(node, scope):
            scope.doubt("a comparison of what may not be a number, which may run commands")
        return
    text = scope.slice(node).replace('"', "")
    if not is_plain_arithmetic(text, scope):
        scope.doubt("a comparison of what may not be a number, which may run commands")


def splits(scope: Sliced, node: Node) -> bool:
    """Whether a shell operator stands inside `[ … ]`: to bash it ends the command or redirects."""
    for child in node.children:
        if child.type.endswith("_expression"):
            if splits(scope, child):
                return True
        elif child.type in _SPLITS or (child.type == "word" and ENDS_WORD.search(scope.slice(child))):
            return True
    return False


def flatten(scope: Sliced, node: Node, words: list[Word]) -> None:
    for child in node.children:
        if child.child_count and child.type.endswith("_expression"):
            flatten(scope, child, words)
        elif child.type == "command_substitution":
            words.append(Word(HOLE, split=not counts(child, scope)))
        elif child.child_count and _RUNS.search(scope.source, child.start_byte, child.end_byte):
            words.append(Word(HOLE, split=child.type != "string"))  # listed by _expression
        else:
            words += read_words(child, scope) if child.is_named else [Word(child.type)]
