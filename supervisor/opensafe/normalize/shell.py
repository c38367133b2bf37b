"""Shell text to commands, by tree-sitter's bash grammar.

Texts with the characters that make readers disagree (control characters, invisible ones, odd line continuations)
are opaque from the start, as are those beyond what can be read in a bounded time. `parse_shell` never raises.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Parser

from .commands import Collector, ShellParse, Simple
from .environment import DEFAULT_CWD, GUEST_ENV
from .grammar import Text
from .options import Use
from .words import HOLE, Word

__all__ = ["ShellParse", "parse_argv", "parse_shell"]

MAX_TEXT: Final = 64 * 1024
MAX_OPERATORS: Final = 2048  # the grammar's error recovery takes time quadratic in them
MAX_STEPS: Final = 4096

# One parser for all: parsing holds no state between calls, and the front runs it on one thread.
_parser: Final = Parser(Language(tree_sitter_bash.language()))

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE: Final = re.compile(
    "[\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff]"
)
_GLUED_CONTINUATION: Final = re.compile(r"[^\s\\;&|(]\\\n\S|\\\\\n")
_SOCKET: Final = re.compile(r"/dev/(?:tcp|udp)/[A-Za-z0-9_.:-]+/[A-Za-z0-9]+")
_OPERATORS: Final = re.compile(r"[|<>()&`]")
_BASH: Final = frozenset({"bash", "rbash", "eval", "trap", "coproc"})
_BASH_ONLY: Final = re.compile(r"\$'|&>|<<<|[<>]\(|\|&")


def parse_shell(text: str, cwd: str = DEFAULT_CWD, env: Mapping[str, str] = GUEST_ENV) -> ShellParse:
    """All that bash would run for `text` in `cwd` with `env`, over-approximated; total.

    A text over 64 KiB is opaque and not looked at.
    """
    walk = _Walk(cwd, env)
    walk.text(text, "top", ())
    return walk.collector.result()


def parse_argv(argv: Sequence[str], cwd: str = DEFAULT_CWD, env: Mapping[str, str] = GUEST_ENV) -> ShellParse:
    """The same for an argv that no shell sees: wrappers are unwrapped, operands sorted; total."""
    walk = _Walk(cwd, env)
    if any(HOLE in word for word in argv) or not argv:
        walk.collector.doubt("an argv is empty or holds a NUL")
        return walk.collector.result()
    if sum(map(len, argv)) > 4 * MAX_TEXT:
        walk.collector.doubt("an argv is too long to be looked at")
        argv = argv[:1]
    walk.guarded(lambda: walk.collector.command(Simple([Word(word) for word in argv])))
    return walk.collector.result()


class _Walk:
    """One parse: the collector all texts feed, and the environment the outermost one starts with."""

    def __init__(self, cwd: str, env: Mapping[str, str]) -> None:
        self.collector = Collector(cwd, self.text)
        self._env = env
        for name, value in env.items():
            self.collector.variable(name, Word(value))
        self._scopes: list[Text] = []
        self._left = MAX_TEXT
        self._operators = MAX_OPERATORS
        self._steps = 0

    def text(self, text: str, position: str, via: tuple[str, ...]) -> None:
        """Walk one shell text, the outermost or one found inside another."""
        collector = self.collector
        self._left -= len(text)
        self._operators -= len(_OPERATORS.findall(text))
        if self._left < 0 or self._operators < 0 or len(self._scopes) >= 8:
            collector.doubt(f"shell text beyond {MAX_TEXT} characters, {MAX_OPERATORS} operators or 8 levels")
            return
        is_bash = (not via or via[-1] in _BASH) and "+B" not in text and "braceexpand" not in text
        if via and not is_bash and _BASH_ONLY.search(text):
            collector.doubt("a text for another shell uses what bash alone reads so")
        if _INVISIBLE.search(text):
            collector.doubt("the text holds invisible or look-alike characters")
        if _CONTROL.search(text):
            collector.doubt("the text holds control characters")
            text = _CONTROL.sub(" ", text)
        if "\\\n" in text and _GLUED_CONTINUATION.search(text):
            collector.doubt("a line continuation joins two words or follows a backslash")
        for found in _SOCKET.finditer(text):
            collector.use(Use("read", Word(found[0])), "a socket path")
        source = text.encode("utf-8", "replace")
        tree = _parser.parse(source)
        root = tree.root_node
        if root.has_error:
            collector.doubt("the shell grammar does not accept the text")
        scope = Text(self, source, via, is_bash=is_bash)
        self._scopes.append(scope)
        try:
            self.guarded(lambda: scope.statements(root.children, position))
        finally:
            self._scopes.pop()

    def spend(self) -> bool:
        """Count one statement; loops over known values multiply them, so there is an end to it."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            self.collector.doubt(f"more than {MAX_STEPS} statements")
        return self._steps <= MAX_STEPS

    def guarded(self, walk: Callable[[], None]) -> None:
        """Run `walk`; nesting beyond the interpreter's stack is a doubt, not a crash."""
        try:
            walk()
        except RecursionError:
            self.collector.doubt("the text is nested too deep")

    def inherited(self, name: str, scope: "Text") -> Word | None:
        """A variable's value from the call's environment, unless a text around or in `scope` may set it."""
        if not self.collector.names_are_sure:
            return None
        if name == "PWD":
            cwds = self.collector.cwds
            value = cwds[0] if cwds is not None and len(cwds) == 1 else None
        else:
            value = self._env.get(name)
        if value is None or any(other.mentions(name) for other in (*self._scopes, scope)):
            return None
        return Word(value)
