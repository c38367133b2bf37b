"""Branches, loops and functions: what may run, how often, and with which values."""

import re
from collections.abc import Sequence
from typing import Final

from tree_sitter import Node

from .assignments import Assignments
from .builtins import is_builtin
from .directories import join
from .environment import changes_behaviour
from .expansions import descend, is_plain_arithmetic
from .gaps import check_gaps
from .redirections import read_redirect
from .simple import Simple
from .syntax import at_top
from .word import REF, UNKNOWN, Word
from .words import read_words
from .wrappers import peel

RESERVED: Final = frozenset(
    {"if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done",
     "in", "function", "{", "}", "[[", "]]", "!"}
)  # fmt: skip
_FUNCTION_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PLAIN_NAME: Final = re.compile(r"\w[\w.-]*")


class Flow(Assignments):
    """The statements of one text that hold others."""

    def statement(self, node: Node, position: str) -> None:
        """One statement of any type."""
        raise NotImplementedError

    def statements(self, nodes: Sequence[Node], position: str, *, whole: bool = True) -> None:
        """A list of statements."""
        raise NotImplementedError

    def _listed(self, node: Node) -> Sequence[Word]:
        raise NotImplementedError

    def _expression(self, node: Node) -> None:
        raise NotImplementedError

    def _branches(self, node: Node, position: str) -> None:
        """`if`, `elif`, `else`: each branch may or may not run, so their directories are joined."""
        collector = self._collector
        before = collector.directories.now
        joined = before
        stack = collector.directories.pushed
        for child in node.children:
            if child.is_named:
                if child.type in ("elif_clause", "else_clause"):
                    collector.directories.now = before
                following = child.next_sibling
                background = following is not None and following.type == "&"
                self.statement(child, "background" if background else position)
                joined = join(joined, collector.directories.now)
        collector.directories.forget(stack)
        collector.directories.now = joined

    def _loop(self, node: Node, position: str) -> None:
        collector = self._collector
        before = collector.directories.now
        collector.repeats += 1
        if node.type == "c_style_for_statement":
            for name in ("initializer", "condition", "update"):
                for child in node.children_by_field_name(name):
                    if child.is_named:
                        self._counting(child)
        for child in node.children:
            if child.is_named and (child.type in ("do_group", "compound_statement") or node.type == "while_statement"):
                self.statement(child, position)
        collector.repeats -= 1
        self._settle(before)

    def _counting(self, node: Node) -> None:
        text = self.slice(node)
        if not is_plain_arithmetic(text, self):
            self.doubt("arithmetic on what may not be a number, which may run commands")
        descend(node, self)

    def _settle(self, before: tuple[str, ...] | None) -> None:
        """Behind a loop: its body may have run any number of times."""
        collector = self._collector
        if collector.directories.now != before:
            collector.directories.now = None
            collector.doubt("a loop changes the directory")

    def _for(self, node: Node, position: str) -> None:
        """`for x in …`: the body is walked once for each value where all are known."""
        body = node.child_by_field_name("body")
        variable = node.child_by_field_name("variable")
        listed = node.children_by_field_name("value")
        check_gaps(self.source, listed, self.doubt)
        values = [
            word
            for child in listed
            for word in (self._listed(child) if child.type == "command_substitution" else read_words(child, self))
        ]
        collector = self._collector
        if body is None or variable is None:
            collector.doubt("a loop without a body")
            return
        name = self.slice(variable)
        if changes_behaviour(name, None):
            collector.doubt(f"a loop sets {name}, which may change what programs do")
        if name == "PATH":
            collector.command(Simple((), {name: UNKNOWN}, (), "condition", self._via))
        if len(values) > 8 and all(_PLAIN_NAME.fullmatch(word.text) and not word.glob for word in values):
            values = [Word("*", glob=True)]
        usable = 0 < len(values) <= 8 and all(word.known or word == REF for word in values)
        usable = usable and name not in self._known
        before = collector.directories.now
        outer, self._within = self._within, []
        collector.repeats += 1
        for value in values if usable else [UNKNOWN]:
            if usable:
                self._known[name] = value
            self.statement(body, position)
        for inner in (name, *self._within):
            self._known[inner] = UNKNOWN
        self._within = outer
        collector.repeats -= 1
        self._settle(before)

    def _case(self, node: Node, position: str) -> None:
        collector = self._collector
        before = joined = collector.directories.now
        for child in node.children:
            if child.type == "case_item":
                collector.directories.now = before
                patterns = child.children_by_field_name("value")
                for pattern in patterns:
                    self._expression(pattern)
                self.statements([part for part in child.children if part not in patterns], position, whole=False)
                joined = join(joined, collector.directories.now)
            elif child.is_named:
                read_words(child, self)
        collector.directories.now = joined

    def _function(self, node: Node, position: str) -> None:
        """A function's body is walked where it is called, and at the end of the text if it never is."""
        body = node.child_by_field_name("body")
        name = node.child_by_field_name("name")
        redirects = node.children_by_field_name("redirect")
        before = self._collector.directories.place
        for child in redirects:
            read_redirect(self, child, [], [])
        text = self.slice(name) if name is not None else ""
        if body is None:
            self.doubt("a function without a body")
            return
        known = _FUNCTION_NAME.fullmatch(text) and not is_builtin(text) and text not in RESERVED
        sure = known and peel(text, [Word(text)]) is None and position == "top" and at_top(node) and not redirects
        sure = sure and not self._collector.repeats
        self._collector.lose(f"{text}()", anytime=not sure)
        if sure:
            self._functions[text] = body
            self._uncalled[text] = body
        else:
            self._functions.pop(text, None)
            if not known:
                self.doubt(f"a function named {text[:40]!r}, as the shell itself names something")
            self._body(text, body, None)
        self._collector.directories.place = before

    def _body(self, name: str, body: Node, arguments: Sequence[Word] | None) -> None:
        outer, self._given = self._given, arguments
        around, self._local = self._local, {}
        self._running.append(name)
        if arguments is None:
            self._collector.repeats += 1
        self.statement(body, "function")
        if arguments is None:
            self._collector.repeats -= 1
        self._running.pop()
        self._given, self._local = outer, around

    def _call(self, words: Sequence[Word], rest: Simple) -> bool:
        """Whether the words call a function of this text for sure; its body is walked with its arguments then."""
        name = words[0].fixed() if words else None
        body = self._functions.get(name) if name is not None else None
        if name is None or body is None or "functions" in self._collector.lost:
            return False
        self._uncalled.pop(name, None)
        if name in self._running or len(self._running) > 8:
            self.doubt("a function calls itself")
        else:
            self._body(name, body, tuple(words[1:]))
        self._collector.command(rest._replace(words=()))
        self._collector.directories.if_ok = self._collector.directories.now
        return True
