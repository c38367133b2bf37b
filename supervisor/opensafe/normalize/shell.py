"""Shell text to commands, by tree-sitter's bash grammar.

The grammar is not bash: it accepts some texts that bash reads otherwise. So every node type that is walked is
named here, anything else is a doubt, and texts with the characters that make readers disagree (control
characters, invisible ones, odd line continuations) are opaque from the start. `parse_shell` never raises.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from .commands import Collector, ShellParse, Simple, runs_in_subscript
from .environment import DEFAULT_CWD, GUEST_ENV
from .operands import Use
from .words import ENDS_WORD, HOLE, UNKNOWN, Word, read_word, read_words

MAX_TEXT: Final = 64 * 1024
MAX_STEPS: Final = 4096

_parser: Final = Parser(Language(tree_sitter_bash.language()))

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE: Final = re.compile(
    "[\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff]"
)
_GLUED_CONTINUATION: Final = re.compile(r"[^\s\\;&|(]\\\n\S|\\\\\n")
_SOCKET: Final = re.compile(r"/dev/(?:tcp|udp)/[A-Za-z0-9_.:-]+/[A-Za-z0-9]+")
_RESERVED: Final = frozenset(
    {"if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done",
     "in", "function", "{", "}", "[[", "]]", "!"}
)  # fmt: skip
_BLANK: Final = re.compile(rb"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")
_BLANK_LINES: Final = re.compile(rb"(?:\\\n)*[ \t\n](?:[ \t\n]|\\\n)*")
_NAME: Final = re.compile(rb"[A-Za-z0-9_]+")
_PLAIN: Final = re.compile(rb"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_BARE_NUMBER: Final = re.compile(rb"(?<![^\s;&|()<>])\d+\Z")
_AFTER_DELIMITER: Final = tuple(bytes([char]) for char in b" \t\n;&|<>)")
_SPLITS: Final = frozenset({"&&", "||", "<", ">", "(", ")", ";", "&", "|", "|&", "<=", ">=", "<<", ">>", "++", "--"})
_LOST_DASH: Final = re.compile(rb"[ \t]+-[ \t]+")
_REDIRECTS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_COMMENT_MAY_FOLLOW: Final = frozenset(b" \t\n;&|()`")


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
        self._scopes: list[_Text] = []
        self._left = MAX_TEXT
        self._steps = 0

    def text(self, text: str, position: str, via: tuple[str, ...]) -> None:
        """Walk one shell text, the outermost or one found inside another."""
        collector = self.collector
        self._left -= len(text)
        if self._left < 0 or len(self._scopes) >= 8:
            collector.doubt(f"shell text beyond {MAX_TEXT} characters or nested too deep")
            return
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
        scope = _Text(self, source, via)
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

    def inherited(self, name: str, scope: "_Text") -> Word | None:
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


class _Text:
    """The walk over one text: its source, and the variables it sets once and for all."""

    def __init__(self, walk: _Walk, source: bytes, via: tuple[str, ...]) -> None:
        self.source = source
        self._walk = walk
        self._collector = walk.collector
        self._via = via
        self._known: dict[str, Word] = {}
        self._functions: set[str] = set()
        self._mentions: Counter[bytes] | None = None
        self._position = "top"

    # What words ask (see words.Scope)

    def lookup(self, name: str) -> Word | None:
        value = self._known.get(name)
        if value is None:
            return self._walk.inherited(name, self)
        sure = self._collector.names_are_sure and self.mentions(name) == 1
        return value if sure else None

    def nested(self, node: Node) -> None:
        before = self._collector.place
        outer, self._position = self._position, "substitution"
        self.statements(node.children, "substitution")
        self._position, self._collector.place = outer, before

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
            self._apart(nodes, glued=True, lines=True)
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
                if node.type == "compound_statement" and node.children[0].type == "((":
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
        self._apart(listed)
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
                first = name not in self._known and position == "top" and _at_top(node)
                self._known[name] = value if first else UNKNOWN
        self._collector.command(Simple((), found, (), position, self._via))

    def _declaration(self, node: Node, position: str) -> None:
        words: list[Word] = []
        found: dict[str, Word] = {}
        self._apart(node.children)
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

    def _command(
        self, node: Node, position: str, redirects: Sequence[tuple[str, int | None, Word | None]], extra: Sequence[Word]
    ) -> None:
        words: list[Word] = []
        assignments: dict[str, Word] = {}
        own = list(redirects)
        more = list(extra)
        outer, self._position = self._position, position
        self._apart(node.children)
        for child in node.children:
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
        self._position = outer
        words += more
        if words and words[0].text in self._functions and b"unset" not in self.source:
            words = []  # the body was listed where it was defined
        self._collector.command(Simple(words, assignments, own, position, self._via))

    def _redirected(self, node: Node, position: str) -> None:
        """A statement with redirections. The grammar hangs words behind a redirection onto it: they are arguments."""
        redirects: list[tuple[str, int | None, Word | None]] = []
        extra: list[Word] = []
        body: Node | None = None
        if len(node.children) == 2 and _LOST_DASH.fullmatch(self.source, *_gap(*node.children)):
            extra.append(Word("-"))  # `cat - <<E`: the grammar loses the dash
        else:
            self._apart(node.children)
        for child in node.children:
            if child.type in _REDIRECTS:
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
        redirects: list[tuple[str, int | None, Word | None]],
        extra: list[Word],
        position: str = "top",
    ) -> None:
        if node.type == "heredoc_redirect":
            self._heredoc(node, redirects, extra, position)
            return
        op, fd, target = "", None, None
        before = self.source[max(0, node.start_byte - 24) : node.start_byte]
        if node.children[0].type == "file_descriptor":
            if not self.slice(node.children[0]).isdigit():
                self.doubt("a redirection's descriptor is no number")
        elif before.endswith(b"}") or (before[-1:].isdigit() and _BARE_NUMBER.search(before)):
            self.doubt("a descriptor before a redirection is none to the grammar")
        self._apart(node.children, glued=True)
        for child in node.children:
            if child.type == "file_descriptor":
                digits = self.slice(child)
                fd = int(digits) if digits.isdigit() and len(digits) < 6 else None
            elif not child.is_named and not op:
                op = child.type
            elif child.is_named or child.type not in ("$",):
                words = read_words(child, self)
                if target is None:
                    target = words[0] if len(words) == 1 else UNKNOWN
                else:
                    extra += words
        redirects.append((op, fd, target))
        self._collector.redirect(op, target)

    def _heredoc(
        self,
        node: Node,
        redirects: list[tuple[str, int | None, Word | None]],
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

    def _apart(self, nodes: Sequence[Node], *, glued: bool = False, lines: bool = False) -> None:
        """Nothing but blanks may lie between neighbours, and something must unless they may be `glued`.

        The grammar skips escaped blanks, ends some words early and hides others in an operator's token.
        """
        end = -1
        redirected = True
        blank = _BLANK_LINES if lines else _BLANK
        for node in nodes:
            start, named = node.start_byte, node.is_named
            if not named and node.end_byte - start != len(node.type) and node.type != "\n":
                self.doubt("the grammar hides text in an operator")
            if start == end:
                if named and not (glued or redirected or node.type in _REDIRECTS):
                    self.doubt("two words stand side by side")
            elif end >= 0 and not blank.fullmatch(self.source, end, start):
                self.doubt("the grammar leaves out a part of the text")
            end = node.end_byte
            redirected = node.type in _REDIRECTS

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
