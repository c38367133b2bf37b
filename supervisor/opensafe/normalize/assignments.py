"""What a text assigns: variables that are known from there on, arrays, declarations."""

import re
from collections.abc import Sequence
from typing import Final, Protocol

from tree_sitter import Node

from .commands import Collector
from .conditions import check_subscript
from .gaps import check_gaps
from .names import Names, Surroundings
from .simple import Simple, runs_in_subscript
from .syntax import assigned, at_top, in_loop
from .word import REF, UNKNOWN, Word
from .words import read_word, read_words

_SHELL_SETS: Final = re.compile(
    r"_|BASH.*|COMP.*|COLUMNS|COPROC|DIRSTACK|EPOCH.*|EUID|FUNC.*|GROUPS|HIST.*|HOSTNAME|HOSTTYPE|LINENO|LINES|MACHTYPE"
    r"|MAPFILE|OLDPWD|OPTARG|OPTERR|OPTIND|OSTYPE|PIPESTATUS|PPID|PWD|RANDOM|READLINE.*|REPLY|SECONDS|SHELLOPTS|SHLVL"
    r"|SRANDOM|UID"
)
#: Names of which a variable may hold any, and none of them is what secrets are called.
_PLAIN_VALUE: Final = re.compile(
    r"(?![\w./+-]*(?:id_|\.\.|secret|token|passw|shadow|credential|key|\.env|histor))\w[\w.+-]*(?:/\w[\w.+-]*)*"
)
_TEMPORARY: Final = re.compile(
    rb"\$\(mktemp(?: -d)?(?: (?:-t )?(?:/tmp/[\w-]+\.?|(?<=-t )[\w-]+\.?)X{3,}[\w.]*)?\)|`mktemp(?: -d)?`"
)
_ECHOES: Final = re.compile(rb"(?:\$\(|`)\s*(?:echo|printf) ")
MAX_ITEMS: Final = 64

_TEMPORARY_FILE: Final = Word("/tmp/tmp.XXXXXXXXXX")  # noqa: S108  what a program will print, not opened here


class Walk(Surroundings, Protocol):
    """What a text needs of the parse it is a part of."""

    collector: Collector

    def room(self, more: int) -> bool:
        """Take so many characters from those by which words may outgrow their texts; False once there are none."""

    def spend(self) -> bool:
        """Count one statement; False once there were too many."""

    def text(self, text: str, position: str, via: tuple[str, ...]) -> None:
        """Walk a text found inside another."""


class Assignments(Names):
    """The state of the walk over one text, and its assignments."""

    def __init__(self, walk: Walk, source: bytes, via: tuple[str, ...], *, is_bash: bool) -> None:
        super().__init__(source, walk, walk.collector)
        self.is_bash = is_bash
        self.root: Node | None = None
        self.told = False
        self._naming = False
        self._waiting: list[tuple[Node, str]] = []
        self._shown: Sequence[Word] | None = None
        self._walk = walk
        self._via = via
        self.later = via[-1:] in (("trap",), ("eval",))  # in the same shell, so with its variables
        self._functions: dict[str, Node] = {}
        self._uncalled: dict[str, Node] = {}
        self._within: list[str] = []
        self._running: list[str] = []

    def behind(self, node: Node, position: str) -> None:
        """Walk a statement once the one that is being read is through."""
        self._waiting.append((node, position))

    def echoed(self, node: Node) -> str | None:
        """The one word that the substitution met last prints, where `echo` or `printf` prints it as it stands."""
        shown, inner = self._shown, node.named_children
        if self._naming or not shown or len(shown) != 1 or _ECHOES.match(self.source, node.start_byte) is None:
            return None
        return shown[0].fixed() if len(inner) == 1 and inner[0].type == "command" else None

    def doubt(self, reason: str) -> None:
        self._collector.doubt(reason)

    def room(self, more: int) -> bool:
        """Whether words may be so many characters longer, all together, than what stands for them."""
        return self._walk.room(more)

    def redirect(self, op: str, target: Word | None) -> None:
        """Account for the file of one redirection."""
        self._collector.touches.redirect(op, target)

    def slice(self, node: Node) -> str:
        """The text of a node; a node that cuts a character (a quote the grammar put in) gives U+FFFD for it."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def nested(self, node: Node) -> None:
        """A substitution."""
        raise NotImplementedError

    def _assignments(self, node: Node, position: str) -> None:
        """Assignments without a command: a command with empty argv."""
        pairs = [node] if node.type == "variable_assignment" else list(node.named_children)
        found = {}
        for pair in pairs:
            if pair.type == "variable_assignment":
                name, value = self._assignment(pair)
                found[name] = value
                if self._via:
                    self._collector.lose(f"${name}", anytime=True)
                first = (
                    name not in self._known and position == "top" and at_top(node) and not _SHELL_SETS.fullmatch(name)
                )
                if not first and in_loop(node) and self.mentions(name) == 1 and not _SHELL_SETS.fullmatch(name):
                    first = self._known.get(name, UNKNOWN) is UNKNOWN or name in self._within
                    self._within.append(name)
                self._known[name] = value if first else UNKNOWN
                if not self._via and position in ("top", "condition") and not _SHELL_SETS.fullmatch(name):
                    self._one_of(name, value)
        self._collector.command(Simple((), found, (), position, self._via))

    def _one_of(self, name: str, value: Word) -> None:
        """Count an assignment of a plain name: where all of them are, the variable holds one name."""
        if value.fixed() is not None and _PLAIN_VALUE.fullmatch(value.text):
            self._plain[name] += 1

    def _declaration(self, node: Node, position: str) -> None:
        words: list[Word] = []
        found: dict[str, Word] = {}
        local: dict[str, Word] = {}
        check_gaps(self.source, node.children, self.doubt)
        for child in node.children:
            if child.type == "variable_assignment":
                name, value = self._assignment(child)
                found[name] = value
                alone = all(other.type == "variable_assignment" for other in node.named_children)
                top = position == "top" and at_top(node) and name not in self._known and alone
                self._known[name] = value if top and not self._via and not _SHELL_SETS.fullmatch(name) else UNKNOWN
                words.append(assigned(name, value))
                if self._running and self.slice(node.children[0]) == "local" and node.child_count == 2:
                    local[name] = value
            elif not child.is_named:
                words.append(Word(child.type))
            else:
                words += read_words(child, self)
        self._collector.command(Simple(words, found, (), position, self._via))
        self._local.update(local)

    def _assignment(self, node: Node) -> tuple[str, Word]:
        target = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        name = self.slice(target) if target is not None else ""
        if target is not None and target.type == "subscript":
            check_subscript(self, target)
        if name.startswith(("BASH_ALIASES", "BASH_CMDS")):
            self.doubt("the shell's table of commands is changed")
        if value is None:
            return name, Word("")
        if value.type == "array":
            items: list[Word] = []
            for child in value.named_children:
                if child.type == "variable_assignment":
                    self.doubt("an array with subscripts")
                    self._assignment(child)
                else:
                    items += read_words(child, self)
            top = at_top(node) and node.parent is not None and node.parent.type == "program"
            if top and name not in self._known and len(items) <= MAX_ITEMS and all(item.known for item in items):
                self._arrays[name] = items
            return name, UNKNOWN
        self.assigning = name
        word = read_word(value, self)
        self.assigning = ""
        listed = self._listed_file(value)
        if listed is not None:
            return name, listed
        if _TEMPORARY.fullmatch(self.source[value.start_byte : value.end_byte].strip(b'"')) and not self.mentions(
            "TMPDIR"
        ):
            return name, _TEMPORARY_FILE
        if runs_in_subscript(word.text):
            self.doubt("a variable holds a subscript that runs commands")
        if self.source[value.start_byte - 2 : value.start_byte] == b"+=":
            return name, UNKNOWN
        shown = word.glob and b"$(" in self.source[value.start_byte : value.end_byte]
        return name, word if shown and word.known else word._replace(glob=False)

    def _listed_file(self, value: Node) -> Word | None:
        """What a variable holds that is set to one of the files of a pattern: `$(ls -t logs/*.log | head -1)`."""
        one = value.named_children[0] if value.type == "string" and value.named_child_count == 1 else value
        if one.type != "command_substitution" or self._shown is None or len(self._shown) != 1:
            return None
        listed = self._shown[0]
        return listed if listed == REF or (listed.glob and listed.known and listed.text != ".") else None
