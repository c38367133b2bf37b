"""One shell text, walked statement by statement.

The grammar is not bash: every node type that is walked is named here and anything else is a doubt. The walk keeps
track of what decides what a word means: variables set once to a known value, functions, the possible directories.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from tree_sitter import Node

from .commands import Collector, Simple, runs_in_subscript
from .gaps import REDIRECTS, check_gaps
from .words import ENDS_WORD, UNKNOWN, Word, read_word, read_words

_NAME: Final = re.compile(rb"[A-Za-z0-9_]+")
_PLAIN: Final = re.compile(rb"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_BARE_NUMBER: Final = re.compile(rb"(?<![^\s;&|()<>])\d+\Z")
_AFTER_DELIMITER: Final = tuple(bytes([char]) for char in b" \t\n;&|<>)")
_SPLITS: Final = frozenset({"&&", "||", "<", ">", "(", ")", ";", "&", "|", "|&", "<=", ">=", "<<", ">>", "++", "--"})
_AFTER_BRACE: Final = (b" ", b"\t", b"\n", b"(")
_LOST_DASH: Final = re.compile(rb"[ \t]+-[ \t]+")
_COMMENT_MAY_FOLLOW: Final = frozenset(b" \t\n;&|()`")
_RESERVED: Final = frozenset(
    {"if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done",
     "in", "function", "{", "}", "[[", "]]", "!"}
)  # fmt: skip
_SHELL_SETS: Final = frozenset(
    {"_", "BASHPID", "BASH_ARGV0", "BASH_COMMAND", "BASH_REMATCH", "BASH_SUBSHELL", "COMP_WORDBREAKS", "COPROC",
     "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "LINENO",
     "MAPFILE", "OLDPWD",
     "OPTARG", "OPTIND", "PIPESTATUS", "PPID", "PWD", "RANDOM", "REPLY", "SECONDS", "SHLVL", "SRANDOM", "UID"}
)  # fmt: skip
MAX_WORDS: Final = 4096

Redirection = tuple[str, int | None, Word | None]


class Walk(Protocol):
    """What a text needs of the parse it is a part of."""

    collector: Collector

    def spend(self) -> bool:
        """Count one statement; False once there were too many."""

    def inherited(self, name: str, scope: "Text") -> Word | None:
        """A variable's value from outside the text."""


class Text:
    """The walk over one text: its source, and the variables it sets once and for all."""

    def __init__(self, walk: Walk, source: bytes, via: tuple[str, ...], *, is_bash: bool) -> None:
        self.source = source
        self.is_bash = is_bash
        self._walk = walk
        self._collector = walk.collector
        self._via = via
        self._known: dict[str, Word] = {}
        self._functions: set[str] = set()
        self._mentions: Counter[bytes] | None = None

    # What words ask (see words.Scope)

    def lookup(self, name: str) -> Word | None:
        if self.mentions("IFS"):
            return None
        value = self._known.get(name)
        if value is None:
            return self._walk.inherited(name, self)
        sure = self._collector.names_are_sure and self.mentions(name) == 1
        return value if sure else None

    def nested(self, node: Node) -> None:
        before = self._collector.place
        self.statements(node.children, "substitution")
        self._collector.place = before

    def doubt(self, reason: str) -> None:
        self._collector.doubt(reason)

    def mentions(self, name: str) -> int:
        """How often the text holds `name` other than as a plain expansion."""
        if self._mentions is None:
            counts = Counter(_NAME.findall(self.source))
            counts.subtract(plain or braced for plain, braced in _PLAIN.findall(self.source))
            self._mentions = counts
        return self._mentions[name.encode()]

    def slice(self, node: Node) -> str:
        """The text of a node; a node that cuts a character (a quote the grammar put in) gives U+FFFD for it."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    # Statements

    def statements(self, nodes: Sequence[Node], position: str, *, whole: bool = True) -> None:
        """A list of statements; one followed by `&` runs in the background."""
        if whole:
            check_gaps(self.source, nodes, self.doubt, glued=True, lines=True)
        last = len(nodes) - 1
        for at, node in enumerate(nodes):
            if not node.is_named:
                continue
            background = at < last and nodes[at + 1].type == "&"
            before = self._collector.place
            self.statement(node, "background" if background else position)
            if background:
                self._collector.place = before

    def statement(self, node: Node, position: str) -> None:
        """One statement of any type; what is not known here is a doubt and is searched all the same."""
        if not self._walk.spend():
            return
        self._statement(node, position)
        if node.type not in ("command", "redirected_statement", "list"):
            self._collector.if_ok = self._collector.cwds

    def _statement(self, node: Node, position: str) -> None:
        collector = self._collector
        match node.type:
            case "command":
                self._command(node, position, (), ())
            case "redirected_statement":
                self._redirected(node, position)
            case "pipeline":
                before = collector.place
                self.statements(node.children, "pipe")
                collector.place = before
            case "list":
                self._list(node, position)
            case "negated_command" | "compound_statement" | "do_group":
                opening = node.children[0]
                if opening.type == "{" and self.source[opening.end_byte : opening.end_byte + 1] not in _AFTER_BRACE:
                    collector.doubt("a brace that opens no group")
                if node.type == "compound_statement" and opening.type == "((":
                    self._expression(node)
                    collector.command(Simple([Word("((")], {}, (), position, self._via))
                else:
                    self.statements(node.children, position)
            case "subshell":
                before = collector.place
                self.statements(node.children, position)
                collector.place = before
            case "if_statement" | "elif_clause" | "else_clause":
                self._branches(node)
            case "while_statement" | "c_style_for_statement":
                self._loop(node)
            case "for_statement":
                self._for(node)
            case "case_statement":
                self._case(node)
            case "function_definition":
                self._function(node)
            case "variable_assignment" | "variable_assignments":
                self._assignments(node, position)
            case "declaration_command" | "unset_command":
                self._declaration(node, position)
            case "test_command":
                self._test(node, position)
            case "comment":
                self._comment(node)
            case kind:
                collector.doubt(
                    f"unexpected {kind} in the text" if kind != "ERROR" else "a part of the text is no shell"
                )
                self._search(node)

    def _list(self, node: Node, position: str) -> None:
        """`a && b || c`: after `cd DIR &&` the directory is certain."""
        parts: list[Node] = []
        while node.type == "list":  # left-deep: flattened, so that length is not depth
            parts += reversed(node.children[1:])
            node = node.children[0]
        collector = self._collector
        collector.if_ok = collector.cwds
        self.statement(node, position)
        operator = ""
        for part in reversed(parts):
            if not part.is_named:
                operator = part.type
                continue
            if operator == "&&":
                collector.cwds = collector.if_ok
                collector.if_ok = collector.cwds
                self.statement(part, position)
            else:
                succeeded = collector.if_ok
                collector.if_ok = collector.cwds
                self.statement(part, position)
                if _leaves(self.source[part.start_byte : part.end_byte]):
                    collector.cwds = collector.if_ok = succeeded
                else:
                    collector.if_ok = collector.cwds

    def _branches(self, node: Node) -> None:
        """`if`, `elif`, `else`: each branch may or may not run, so their directories are joined."""
        collector = self._collector
        before = collector.cwds
        joined = before
        for child in node.children:
            if child.is_named:
                if child.type in ("elif_clause", "else_clause"):
                    collector.cwds = before
                self.statement(child, "condition")
                joined = _join(joined, collector.cwds)
        collector.cwds = joined

    def _loop(self, node: Node) -> None:
        collector = self._collector
        before = collector.cwds
        for child in node.children:
            if not child.is_named:
                continue
            if child.type in ("do_group", "compound_statement") or node.type == "while_statement":
                self.statement(child, "condition")
            else:
                self._expression(child)
        if collector.cwds != before:
            collector.cwds = None
            collector.doubt("a loop changes the directory")

    def _for(self, node: Node) -> None:
        """`for x in …`: the body is walked once for each value where all are known."""
        body = node.child_by_field_name("body")
        variable = node.child_by_field_name("variable")
        listed = node.children_by_field_name("value")
        check_gaps(self.source, listed, self.doubt)
        values = [word for child in listed for word in read_words(child, self)]
        collector = self._collector
        if body is None or variable is None:
            collector.doubt("a loop without a body")
            return
        name = self.slice(variable)
        usable = 0 < len(values) <= 8 and all(word.known for word in values) and name not in self._known
        before = collector.cwds
        for value in values if usable else [UNKNOWN]:
            if usable:
                self._known[name] = value
            self.statement(body, "condition")
        self._known[name] = UNKNOWN
        if collector.cwds != before:
            collector.cwds = None
            collector.doubt("a loop changes the directory")

    def _case(self, node: Node) -> None:
        collector = self._collector
        before = joined = collector.cwds
        for child in node.children:
            if child.type == "case_item":
                collector.cwds = before
                patterns = child.children_by_field_name("value")
                for pattern in patterns:
                    self._expression(pattern)
                self.statements([part for part in child.children if part not in patterns], "condition", whole=False)
                joined = _join(joined, collector.cwds)
            elif child.is_named:
                read_words(child, self)
        collector.cwds = joined

    def _function(self, node: Node) -> None:
        """A function's body is listed where it is defined; when it runs is not known."""
        body = node.child_by_field_name("body")
        collector = self._collector
        name = node.child_by_field_name("name")
        if name is not None and _at_top(node):
            self._functions.add(self.slice(name))
        before = collector.place
        if body is not None:
            if b"cd " in self.source or b"pushd" in self.source:
                collector.cwds = None
            self.statement(body, "function")
        for child in node.children_by_field_name("redirect"):
            self._redirect(child, [], [])
        collector.place = before

    def _assignments(self, node: Node, position: str) -> None:
        """Assignments without a command: a command with empty argv."""
        pairs = [node] if node.type == "variable_assignment" else list(node.named_children)
        found = {}
        for pair in pairs:
            if pair.type == "variable_assignment":
                name, value = self._assignment(pair)
                found[name] = value
                first = name not in self._known and position == "top" and _at_top(node) and name not in _SHELL_SETS
                self._known[name] = value if first else UNKNOWN
        self._collector.command(Simple((), found, (), position, self._via))

    def _declaration(self, node: Node, position: str) -> None:
        words: list[Word] = []
        found: dict[str, Word] = {}
        check_gaps(self.source, node.children, self.doubt)
        for child in node.children:
            if child.type == "variable_assignment":
                name, value = self._assignment(child)
                found[name] = value
                self._known[name] = UNKNOWN
                words.append(_assigned(name, value))
            elif not child.is_named:
                words.append(Word(child.type))
            else:
                words += read_words(child, self)
        self._collector.command(Simple(words, found, (), position, self._via))

    def _assignment(self, node: Node) -> tuple[str, Word]:
        target = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        name = self.slice(target) if target is not None else ""
        if target is not None and target.type == "subscript":
            self._expression(target)
        if value is None:
            return name, Word("")
        if value.type == "array":
            for child in value.named_children:
                if child.type == "variable_assignment":
                    self._assignment(child)
                else:
                    read_words(child, self)
            return name, UNKNOWN
        word = read_word(value, self)
        if self.source[value.start_byte - 2 : value.start_byte] == b"+=":
            return name, UNKNOWN
        return name, word._replace(glob=False)

    def _command(self, node: Node, position: str, redirects: Sequence[Redirection], extra: Sequence[Word]) -> None:
        words: list[Word] = []
        assignments: dict[str, Word] = {}
        own = list(redirects)
        more = list(extra)
        check_gaps(self.source, node.children, self.doubt)
        for child in node.children:
            if len(words) > MAX_WORDS:
                self.doubt(f"a command of more than {MAX_WORDS} words")
                break
            match child.type:
                case "word" | "number" | "string" | "raw_string" | "concatenation":
                    words += read_words(child, self)
                case "command_name":
                    inner = child.children[0] if child.child_count == 1 else child
                    words += read_words(inner, self)
                    if inner.type == "word" and words and words[-1].text in _RESERVED:
                        self.doubt(f"the reserved word {words[-1].text} stands where a command is expected")
                case "variable_assignment":
                    name, value = self._assignment(child)
                    assignments[name] = value
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    self._redirect(child, own, more)
                case "subshell":
                    self.doubt("a parenthesis follows a command's name")
                    self.statements(child.children, position)
                case "comment":
                    self._comment(child)
                case _:
                    words += read_words(child, self)
        words += more
        if words and words[0].text in self._functions and b"unset" not in self.source:
            words = []  # the body was listed where it was defined
        self._collector.command(Simple(words, assignments, own, position, self._via))

    def _redirected(self, node: Node, position: str) -> None:
        """A statement with redirections. The grammar hangs words behind a redirection onto it: they are arguments."""
        redirects: list[Redirection] = []
        extra: list[Word] = []
        body: Node | None = None
        if len(node.children) == 2 and _LOST_DASH.fullmatch(self.source, *_gap(*node.children)):
            extra.append(Word("-"))  # `cat - <<E`: the grammar loses the dash
        else:
            check_gaps(self.source, node.children, self.doubt)
        for child in node.children:
            if child.type in REDIRECTS:
                self._redirect(child, redirects, extra, position)
            elif child.type == "comment":
                self._comment(child)
            elif child.is_named:
                if body is not None:
                    self.doubt("a redirection between two statements")
                    self.statement(body, position)
                body = child
        if body is None:
            self._collector.command(Simple(extra, {}, redirects, position, self._via))
        elif body.type == "command":
            self._command(body, position, redirects, extra)
        else:
            if extra:
                self.doubt("words behind a redirection of a compound command")
                self._collector.command(Simple(extra, {}, redirects, position, self._via))
            self.statement(body, position)

    def _redirect(
        self,
        node: Node,
        redirects: list[Redirection],
        extra: list[Word],
        position: str = "top",
    ) -> None:
        if node.type == "heredoc_redirect":
            self._heredoc(node, redirects, extra, position)
            return
        op, fd, target = "", None, None
        check_gaps(self.source, node.children_by_field_name("destination"), self.doubt)
        before = self.source[max(0, node.start_byte - 24) : node.start_byte]
        if node.children[0].type == "file_descriptor":
            if not self.slice(node.children[0]).isdigit():
                self.doubt("a redirection's descriptor is no number")
        elif before.endswith(b"}") or (before[-1:].isdigit() and _BARE_NUMBER.search(before)):
            self.doubt("a descriptor before a redirection is none to the grammar")
        check_gaps(self.source, node.children, self.doubt, glued=True)
        for child in node.children:
            if child.type == "file_descriptor":
                digits = self.slice(child)
                fd = int(digits) if digits.isdigit() and len(digits) < 6 else None
            elif not child.is_named and not op:
                op = child.type
            elif child.is_named or child.type not in ("$",):
                words = read_words(child, self)
                if target is None and not op.endswith("-"):
                    target = words[0] if len(words) == 1 else UNKNOWN
                else:
                    extra += words
        redirects.append((op, fd, target))
        self._collector.redirect(op, target)

    def _heredoc(
        self,
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
            text = self.source[child.start_byte : child.end_byte]
            match child.type:
                case "<<" | "<<-":
                    op = child.type
                    if text != op.encode():
                        self.doubt("the grammar hides text in an operator")
                case "file_descriptor":
                    fd = int(text) if text.isdigit() and len(text) < 6 else None
                case "heredoc_start":
                    if self.source[child.end_byte : child.end_byte + 1] not in _AFTER_DELIMITER:
                        self.doubt("a here-document's delimiter goes on")
                    start = self.slice(child)
                case "heredoc_end":
                    if self.source[child.end_byte : child.end_byte + 1] not in (b"", b"\n"):
                        self.doubt("a here-document's end is not alone on its line")
                    end = self.slice(child).strip()
                case "heredoc_body":
                    body = text
                    for part in child.named_children:
                        if part.type in ("simple_expansion", "expansion", "arithmetic_expansion"):
                            read_words(part, self)
                            literal = False
                        elif part.type == "command_substitution":
                            self.nested(part)
                            literal = False
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    self._redirect(child, redirects, extra, position)
                case "word" | "string" | "raw_string" | "concatenation" | "number" | "ansi_c_string":
                    extra += read_words(child, self)
                case _:
                    if child.is_named:
                        later.append(child)
        quoted = re.search(r"[\\'\"]", start) is not None
        delimiter = re.sub(r"[\\'\"]", "", start)
        if end is None or end != delimiter:
            self.doubt("a here-document without its end")
        if not quoted and literal and re.search(rb"\$[({A-Za-z_]|`", re.sub(rb"\\.", b"", body)):
            self.doubt("a here-document with expansions that were not found")
        content = body.decode("utf-8", "replace")
        fixed = quoted or (literal and not any(char in content for char in "\\$`"))
        word = Word(content) if fixed else UNKNOWN
        redirects.append((op, fd, word))
        for statement in later:
            self.statement(statement, "pipe" if position == "top" else position)

    def _test(self, node: Node, position: str) -> None:
        """`[ … ]` and `[[ … ]]`, listed as the command `[` or `[[` with its words."""
        words: list[Word] = []
        self._flatten(node, words)
        if node.children[0].type == "[" and (
            b"\n" in self.source[node.start_byte : node.end_byte] or self._splits(node)
        ):
            self.doubt("what the grammar takes for a test is several commands")
        self._expression(node)
        self._collector.command(Simple(words, {}, (), position, self._via))

    def _splits(self, node: Node) -> bool:
        """Whether a shell operator stands inside `[ … ]`: to bash it ends the command or redirects."""
        for child in node.children:
            if child.type.endswith("_expression"):
                if self._splits(child):
                    return True
            elif child.type in _SPLITS or (child.type == "word" and ENDS_WORD.search(self.slice(child))):
                return True
        return False

    def _flatten(self, node: Node, words: list[Word]) -> None:
        for child in node.children:
            if child.child_count and child.type.endswith("_expression"):
                self._flatten(child, words)
            elif child.child_count:
                words.append(UNKNOWN)
            else:
                words += read_words(child, self) if child.is_named else [Word(child.type)]

    def _expression(self, node: Node) -> None:
        """Tests, arithmetic, patterns: nothing runs but the substitutions in them."""
        if node.type in ("command_substitution", "process_substitution"):
            self.nested(node)
        elif node.type in ("raw_string", "ansi_c_string"):
            if runs_in_subscript(self.slice(node)):
                self.doubt("a subscript that runs commands may be evaluated")
        elif node.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
            self._redirect(node, [], [])
        elif node.type == "command":
            self._command(node, "condition", (), ())
        else:
            for child in node.named_children:
                self._expression(child)

    def _search(self, node: Node) -> None:
        """Below something not understood: list every statement that can be found."""
        for child in node.named_children:
            if child.type in _STATEMENTS:
                self.statement(child, "top")
            elif child.type in ("command_substitution", "process_substitution"):
                self.nested(child)
            else:
                self._search(child)

    def _comment(self, node: Node) -> None:
        start, end = node.start_byte, node.end_byte
        if start and self.source[start - 1] not in _COMMENT_MAY_FOLLOW:
            self.doubt("what the grammar takes for a comment is none")
        if self.source[start:end].endswith(b"\\") or b"\n" in self.source[start:end]:
            self.doubt("a comment ends in a backslash")


_STATEMENTS: Final = frozenset(
    {"command", "redirected_statement", "pipeline", "list", "negated_command", "compound_statement",
     "subshell", "if_statement", "while_statement", "c_style_for_statement", "for_statement",
     "case_statement", "function_definition", "variable_assignment", "variable_assignments",
     "declaration_command", "unset_command", "test_command", "do_group"}
)  # fmt: skip


def _gap(first: Node, second: Node) -> tuple[int, int]:
    return first.end_byte, second.start_byte


def _assigned(name: str, value: Word) -> Word:
    return Word(f"{name}={value.text}")


def _at_top(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type == "program"


def _join(first: Iterable[str] | None, second: Iterable[str] | None) -> tuple[str, ...] | None:
    if first is None or second is None:
        return None
    joined = tuple(dict.fromkeys((*first, *second)))
    return joined if len(joined) <= 8 else None


def _leaves(statement: bytes) -> bool:
    """Whether a statement surely ends the script: only then does `cd X || …` settle the directory."""
    return re.fullmatch(rb"(exit|return)(\s+\d+)?", statement.strip()) is not None
