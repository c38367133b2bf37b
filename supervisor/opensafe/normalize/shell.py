"""Shell text to commands, by tree-sitter's bash grammar.

Texts with the characters that make readers disagree (control characters, invisible ones, odd line continuations)
are opaque from the start, as are those beyond what can be read in a bounded time. `parse_shell` never raises.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Parser, Tree

from opensafe.model.written import NOTHING, NOTHING_LEFT, Left, Written

from .commands import Collector
from .environment import DEFAULT_CWD, GUEST_ENV, UNSET
from .findings import ShellParse
from .grammar import Text
from .names import Names
from .options import Use
from .simple import Simple
from .word import HOLE, Word

__all__ = ["ShellParse", "parse_argv", "parse_shell", "read_argv", "read_shell"]

MAX_TEXT: Final = 64 * 1024
MAX_STEPS: Final = 4096
_CHUNK: Final = 512
_MAX_READS: Final = 4096  # of a chunk each: what the grammar's scanner looks at, ahead and again
_FREE_PROGRESS: Final = 64  # reports of 100 steps each, beside one for every 32 bytes
_MAX_DOCUMENTS: Final = 64  # that are taken out of a text which the grammar does not accept

# One parser for all: parsing holds no state between calls, and the front runs it on one thread.
_parser: Final = Parser(Language(tree_sitter_bash.language()))

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE: Final = re.compile(
    "[\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff]"
)
_GLUED_CONTINUATION: Final = re.compile(r"[^\s\\;&|(]\\\n\S|\\\\\n")
_KEEPS_CONTINUATION: Final = re.compile(r"'|#|<<|\\\\\n")  # without these bash drops every backslash-newline
_HERE_DOCUMENT: Final = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(?:(?:.*\n)*?[ \t]*\2(?=\n|\Z)|.*\Z)")
_HERE_START: Final = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1")
_TIMED: Final = re.compile(r"(\A|[\n;&|(]\s*|\bdo |\bthen )time(?: -p)?(?= +(?:for|while|until|if|case|\{|\(\()\s)")
_LITERAL_DOCUMENT: Final = re.compile(r"(?s)\A[^'\"`\\#]*?<<-?[ \t]*(['\"])(\w+)\1[^\n'\"`\\]*\n.*?\n[ \t]*\2(?=\n|\Z)")
_SOCKET: Final = re.compile(r"/dev/(?:tcp|udp)/[A-Za-z0-9_.:-]+/[A-Za-z0-9]+")
_NUMBER: Final = re.compile(r"(?:-?[0-9]{1,18})?")
_BASH: Final = frozenset({"bash", "rbash", "eval", "trap", "coproc"})
_BASH_ONLY: Final = re.compile(r"\$'|&>|<<<|[<>]\(|\|&")


def parse_shell(text: str, cwd: str = DEFAULT_CWD, env: Mapping[str, str] = GUEST_ENV) -> ShellParse:
    """All that bash would run for `text` in `cwd` with `env`, over-approximated; total.

    A text over 64 KiB is opaque and not looked at.
    """
    return read_shell(text, cwd, env)[0]


def parse_argv(argv: Sequence[str], cwd: str = DEFAULT_CWD, env: Mapping[str, str] = GUEST_ENV) -> ShellParse:
    """The same for an argv that no shell sees: wrappers are unwrapped, operands sorted; total."""
    return read_argv(argv, cwd, env)[0]


def read_shell(
    text: str, cwd: str = DEFAULT_CWD, env: Mapping[str, str] = GUEST_ENV, before: Written = NOTHING
) -> tuple[ShellParse, Left]:
    """As `parse_shell`, where the session's calls before wrote files; and what this one leaves."""
    return _settled(cwd, env, before, lambda walk: walk.text(text, "top", ()))


def read_argv(
    argv: Sequence[str], cwd: str = DEFAULT_CWD, env: Mapping[str, str] = GUEST_ENV, before: Written = NOTHING
) -> tuple[ShellParse, Left]:
    """As `parse_argv`, likewise."""
    if any(HOLE in word for word in argv) or not argv:
        return ShellParse(reasons=("an argv is empty or holds a NUL",)), NOTHING_LEFT
    long = sum(map(len, argv)) > 4 * MAX_TEXT
    words = [Word(word) for word in (argv[:1] if long else argv)]

    def walk(walk: _Walk) -> None:
        if long:
            walk.collector.doubt("an argv is too long to be looked at")
        walk.guarded(lambda: walk.collector.command(Simple(words)))
        walk.guarded(walk.collector.finish)

    return _settled(cwd, env, before, walk)


def _settled(
    cwd: str, env: Mapping[str, str], before: Written, walk: Callable[["_Walk"], None]
) -> tuple[ShellParse, Left]:
    """The parse once nothing was relied on that a later part of the text takes away: at most two walks."""
    trees: dict[bytes, Tree | None] = {}
    first = _Walk(cwd, env, frozenset(), trees, before)
    walk(first)
    lost = first.collector.lost_too_late
    if not lost:
        return first.result()
    second = _Walk(cwd, env, frozenset(lost), trees, before)
    walk(second)
    if second.collector.lost_too_late:
        second.collector.doubt("what a loop changes was relied on before")
    return second.result()


def _distinct_ends(text: str) -> str:
    """The text with other words for the ends of here-documents with which one of their lines begins, as SQL's `S` may.

    The grammar takes such a line for the end. What the documents hold is not changed.
    """
    for found in list(_HERE_START.finditer(text))[:16]:
        word = found[2]
        body = text[found.end() :].split("\n")[1:]
        end = next((at for at, line in enumerate(body) if line.lstrip("\t") == word), None)
        if end is None or not any(line.startswith(word) for line in body[:end]):
            continue
        other = f"{word}_END_{len(text)}"
        start = text.find(found[0])
        if other in text or text.count(found[0]) != 1:
            continue
        head, tail = text[: start + len(found[0])], text[start + len(found[0]) :]
        lines = tail.split("\n")
        lines[end + 1] = lines[end + 1].replace(word, other)
        text = head[: len(head) - len(found[0])] + found[0].replace(word, other) + "\n".join(lines)
    return text


def _parse(source: bytes, most: int) -> tuple[Tree | None, int]:
    """The tree, and how many chunks were read for it; None where `most` or the steps due to the length did not do."""
    reads, steps = 0, _FREE_PROGRESS + len(source) // 32

    def read(offset: int, _point: object) -> bytes:
        nonlocal reads
        reads += 1
        return source[offset : offset + _CHUNK] if reads <= most else b""

    def stop(_offset: int, _has_error: bool) -> bool:
        nonlocal steps
        steps -= 1
        return steps < 0 or reads > most

    try:
        tree = _parser.parse(read, progress_callback=stop)
    except ValueError:
        _parser.reset()
        return None, reads
    return (tree if reads <= most else None), reads


class _Walk:
    """One parse: the collector all texts feed, and the environment the outermost one starts with."""

    def __init__(
        self,
        cwd: str,
        env: Mapping[str, str],
        lost: frozenset[str],
        trees: dict[bytes, Tree | None],
        before: Written,
    ) -> None:
        self.collector = Collector(cwd, self.text, lost, before)
        self.collector.home = lambda: self.inherited("HOME", self._scopes[-1]) if self._scopes else None
        self._env = env
        self._trees = trees
        for name, value in env.items():
            self.collector.touches.variable(name, Word(value))
        self._scopes: list[Text] = []
        self._left = MAX_TEXT
        self._room = 4 * MAX_TEXT
        self._steps = 0
        self._reads = _MAX_READS

    def text(self, text: str, position: str, via: tuple[str, ...]) -> None:
        """Walk one shell text, the outermost or one found inside another."""
        collector = self.collector
        self._left -= len(text)
        if self._left < 0 or len(self._scopes) >= 8:
            collector.doubt(f"shell text beyond {MAX_TEXT} characters or 8 levels")
            return
        is_bash = (not via or via[-1] in _BASH) and "+B" not in text and "braceexpand" not in text
        if via and not is_bash and _BASH_ONLY.search(text):
            collector.doubt("a text for another shell uses what bash alone reads so")
        if _INVISIBLE.search(text):
            collector.doubt("the text holds invisible or look-alike characters")
        if _CONTROL.search(text):
            collector.doubt("the text holds control characters")
            text = _CONTROL.sub(" ", text)
        if "\\\n" in text and not _KEEPS_CONTINUATION.search(text):
            text = text.replace("\\\n", "")
        timed = _TIMED.search(text) if "time" in text else None
        if timed is not None and not re.search(r"['\"`#\\]|<<", text[: timed.start()]):
            text = text[: timed.end(1)] + " " * (timed.end() - timed.end(1)) + text[timed.end() :]
        if "\\\n" in text and _GLUED_CONTINUATION.search(_LITERAL_DOCUMENT.sub("", text)):
            collector.doubt("a line continuation joins two words or follows a backslash")
        for found in _SOCKET.finditer(text):
            collector.touches.use(Use("read", Word(found[0])), "a socket path")
        if "<<" in text:
            text = _distinct_ends(text)
        source = text.encode("utf-8", "replace")
        tree = self._parsed(source)
        if tree is None:
            collector.doubt("the shell grammar takes too long over the text")
            return
        root = tree.root_node
        if root.has_error:
            collector.doubt("the shell grammar does not accept the text")
            beside = _HERE_DOCUMENT.sub(r" \3", text) if 0 < text.count("<<") <= _MAX_DOCUMENTS else text
            if beside != text:
                self.text(beside, position, via)
        scope = Text(self, source, via, is_bash=is_bash)
        scope.root = root
        self._scopes.append(scope)
        numeric, collector.numeric = collector.numeric, scope.numeric
        try:
            self.guarded(lambda: scope.whole(root.children, position))
        finally:
            self._scopes.pop()
            collector.numeric = numeric

    def _parsed(self, source: bytes) -> Tree | None:
        """The text's tree, None where that would take too long: by counted work, never by the clock."""
        if source not in self._trees:
            self._trees[source], reads = _parse(source, self._reads)
            self._reads -= reads
        return self._trees[source]

    def result(self) -> tuple[ShellParse, Left]:
        """What was found, and what files may hold from here on."""
        made = self.collector.made
        return self.collector.findings.result(recalled=made.recalled), made.left()

    def room(self, more: int) -> bool:
        """Take from what known values may add: a variable that holds others twice doubles them."""
        self._room -= more
        if self._room < 0:
            self.collector.doubt(f"values of variables of more than {4 * MAX_TEXT} characters")
        return self._room >= 0

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

    def inherited(self, name: str, scope: Names) -> Word | None:
        """A variable's value from the call's environment, unless a text around or in `scope` may set it."""
        if "names" in self.collector.lost or f"${name}" in self.collector.lost:
            return None
        if name == "PWD":
            cwds = self.collector.directories.now
            value = cwds[0] if cwds is not None and len(cwds) == 1 else None
        else:
            value = self._env.get(name)
            if name == "HISTFILE" and value is None:  # as interactive shells set it
                value = f"{self._env.get('HOME', '')}/.bash_history"
            if value is None and scope.later:
                for outer in reversed(self._scopes):
                    held = outer.held(name) if outer is not scope else None
                    if held is not None and not scope.mentions(name):
                        return held
        if value is None and scope.assigning == name in UNSET:
            value = ""
        mentions = sum(other.mentions(name) for other in dict.fromkeys((*self._scopes, scope)))
        # `PATH=DIR:$PATH`: the one mention is the assignment that is being read
        own = scope.assigning == name and mentions == 1 and not self.collector.repeats
        if value is None or (mentions and not own):
            return None
        return Word(value)

    def unset_outside(self, name: str, scope: Names) -> bool:
        """Whether no text around `scope`, nor the environment, sets a variable."""
        return name not in self._env and not any(other.mentions(name) for other in self._scopes if other is not scope)

    def holds_number(self, name: str, scope: Names) -> bool:
        """Whether a variable holds a plain number or nothing: at the start, and by all texts that may set it."""
        if not _NUMBER.fullmatch(self._env.get(name, "")):
            return False
        return all(other.only_counts(name) for other in (*self._scopes, scope))
