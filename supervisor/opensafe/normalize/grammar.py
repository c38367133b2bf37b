"""One shell text, walked statement by statement.

The grammar is not bash: every node type that is walked is named here and anything else is a doubt. The walk keeps
track of what decides what a word means: variables set once to a known value, functions, the possible directories.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tree_sitter import Node

from .conditions import check_counted, flatten, splits
from .directories import join
from .expansions import arithmetic, check, counts, printed_name
from .flow import RESERVED, Flow
from .gaps import REDIRECTS, check_gaps
from .redirections import Redirection, read_redirect
from .simple import Simple, runs_in_subscript
from .syntax import at_top, gap, leaves
from .word import HOLE, NUMBER, TOLD, Word
from .words import read_words

_BACKQUOTED: Final = re.compile(rb"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_AFTER_BRACE: Final = (b" ", b"\t", b"\n", b"(")
_LOST_DASH: Final = re.compile(rb"[ \t]+-[ \t]+")
_COMMENT_MAY_FOLLOW: Final = frozenset(b" \t\n;&|()`")
_ERREXIT: Final = re.compile(rb"(?:#[^\n]*\n|\s)*set -(?:[a-zA-Z]*e|o errexit)")
_NO_ERREXIT: Final = re.compile(rb"set \+|shopt|\beval\b|\bsource\b|(?:^|[;&\s])\. ")
_READS_LINES: Final = re.compile(rb"while (?:IFS= )?read -r (?:-d '' )?([a-z_][a-z_0-9]*) *[;\n]")
_READS_ARRAY: Final = re.compile(rb"(?:mapfile|readarray) -t ([a-z_][a-z_0-9]*) ")
#: Programs that don't end the shell around them, as `exit 0` would.
_GOES_ON: Final = frozenset({"cat", "cd", "chmod", "cp", "echo", "ls", "mkdir", "mv", "printf", "tee", "touch", "true"})
MAX_WORDS: Final = 4096
Tail = tuple[Sequence[Node], Sequence[Word]]


class Text(Flow):
    """The walk over one text."""

    def printed_texts(self) -> Iterable[bytes]:
        if self.root is None or b"echo" not in self.source:
            return
        nodes = [self.root]
        while nodes:
            node = nodes.pop()
            if node.type == "command" and self.slice(node.children[0]) == "echo":
                for word in node.named_children[1:]:
                    if word.type == "string":
                        for part in word.named_children:
                            if part.type == "string_content":
                                yield self.source[part.start_byte : part.end_byte]
            nodes += node.named_children

    # What words ask (see word.Scope)

    def nested(self, node: Node) -> None:
        """A substitution; what backquotes hide behind backslashes is taken out of them and parsed again."""
        before = self._collector.directories.place
        since = self._collector.findings.listed
        said = self._collector.made.said
        self._shown = None
        text = self.source[node.start_byte : node.end_byte]
        if text[:1] == b"`" and re.search(rb"\\[`$\\\"]", text):
            self._backquoted(node, text)
        else:
            feed = self._collector.listen()
            self.statements(node.children, "substitution")
            self._collector.feed = feed
            inner = node.named_children
            alone = len(inner) == 1 and inner[0].type in ("command", "pipeline") and not self.mentions("IFS")
            self._shown = self._collector.printed if alone else None
        self._collector.directories.place = before
        self._collector.made.said = said
        self.told = self._collector.findings.shows(since)

    def _listed(self, node: Node) -> Sequence[Word]:
        """The words of an unquoted substitution: the paths it lists, as xargs would take them, or what is not known."""
        collector = self._collector
        feed = collector.listen()
        self.nested(node)
        collector.feed = feed
        inner = node.named_children
        alone = len(inner) == 1 and inner[0].type in ("command", "pipeline")
        if alone and collector.printed is not None and not self.mentions("IFS"):
            return collector.printed
        name = printed_name(node, self)
        if name is not None:
            return [name]
        number = counts(node, self)
        return [Word(NUMBER if number else TOLD if self.told else HOLE, split=not number)]

    def _backquoted(self, node: Node, text: bytes) -> None:
        closing = _BACKQUOTED.match(self.source, node.start_byte)
        if closing is None or closing.end() != node.end_byte:
            self.doubt("backquotes whose end is not clear")
        inner = closing[1] if closing is not None else text[1:]
        quoted = self.source[: node.start_byte].count(b'"') % 2 == 1
        plain = re.sub(rb'\\([`$\\"])' if quoted else rb"\\([`$\\])", rb"\1", inner)
        if b'\\"' in inner:
            self.doubt("a backslash before a quote in backquotes")
        self._walk.text(plain.decode("utf-8", "replace"), "substitution", (*self._via, "eval"))

    # Statements

    def whole(self, nodes: Sequence[Node], position: str) -> None:
        """The text itself; a function that it never calls may be called in a way not seen here."""
        self.statements(nodes, position)
        while self._uncalled:
            name, body = self._uncalled.popitem()
            self._collector.directories.now = self._collector.directories.if_ok = None
            self._body(name, body, None)
        if not self._via:
            self._collector.finish()
            if self._collector.made:
                self._collector.made.straight = self._is_straight(nodes)

    def _is_straight(self, nodes: Sequence[Node]) -> bool:
        """Whether all of it ran if it ended well: one command, or such as `&&` joins, and none that ends the shell."""
        left = [node for node in nodes if node.type not in ("comment", "\n")]
        if len(left) != 1:
            return False
        while left:
            node = left.pop()
            if node.type == "list" and [one.type for one in node.children if not one.is_named] == ["&&"]:
                left += node.named_children
            elif node.type == "redirected_statement":
                left.append(node.named_children[0])
            elif node.type != "command" or self.slice(node.children[0]) not in _GOES_ON:
                return False
        return True

    def statements(self, nodes: Sequence[Node], position: str, *, whole: bool = True) -> None:
        """A list of statements; one followed by `&` runs in the background."""
        if whole:
            check_gaps(self.source, nodes, self.doubt, glued=True, lines=True)
        last = len(nodes) - 1
        for at, node in enumerate(nodes):
            if not node.is_named:
                continue
            background = at < last and nodes[at + 1].type == "&"
            before = self._collector.directories.place
            self._collector.directories.if_ok = self._collector.directories.now
            self.statement(node, "background" if background else position)
            if node.type == "command" and self._ends_on_errors(node, position):
                self._collector.directories.now = self._collector.directories.if_ok
            if background:
                self._collector.directories.place = before

    def _ends_on_errors(self, node: Node, position: str) -> bool:
        """Whether `set -e` ends the text where this command fails."""
        if b"set -" not in self.source[:256] or self._collector.directories.if_ok == self._collector.directories.now:
            return False
        parent = node.parent
        if parent is not None and parent.type == "subshell":
            parent = parent.parent
        top = parent is not None and parent.type == "program" and position == "top" and not self._via
        return top and _ERREXIT.match(self.source) is not None and _NO_ERREXIT.search(self.source) is None

    def statement(self, node: Node, position: str) -> None:
        """One statement of any type; what is not known here is a doubt and is searched all the same."""
        if not self._walk.spend():
            return
        waiting = len(self._waiting)
        self._statement(node, position)
        made = self._collector.made
        while len(self._waiting) > waiting:
            fed, made.fed = made.fed, made.said
            self.statement(*self._waiting.pop(waiting))
            made.fed = fed
        if node.type not in ("command", "redirected_statement", "list"):
            self._collector.directories.if_ok = self._collector.directories.now

    def _statement(self, node: Node, position: str) -> None:
        collector = self._collector
        match node.type:
            case "command":
                self._command(node, position, (), ())
            case "redirected_statement":
                self._redirected(node, position)
            case "pipeline":
                self._pipeline(node, position)
            case "list":
                self._list(node, position)
            case "negated_command" | "compound_statement" | "do_group":
                opening = node.children[0]
                if opening.type == "{" and self.source[opening.end_byte : opening.end_byte + 1] not in _AFTER_BRACE:
                    collector.doubt("a brace that opens no group")
                if node.type == "compound_statement" and opening.type == "((":
                    arithmetic(node, self)
                    collector.command(Simple([Word("((")], {}, (), position, self._via))
                else:
                    self.statements(node.children, position)
            case "subshell":
                before = collector.directories.place
                self.statements(node.children, position)
                collector.directories.place = before
            case "if_statement" | "elif_clause" | "else_clause":
                self._branches(node, _inside(position))
            case "while_statement" | "c_style_for_statement":
                self._loop(node, _inside(position))
            case "for_statement":
                self._for(node, _inside(position))
            case "case_statement":
                self._case(node, _inside(position))
            case "function_definition":
                self._function(node, position)
            case "variable_assignment" | "variable_assignments":
                self._assignments(node, position)
            case "declaration_command" | "unset_command":
                self._declaration(node, position)
            case "test_command":
                self._test(node, position)
            case "comment":
                self._comment(node)
            case "file_redirect":  # `$(<FILE)`
                self._with_tail(None, position, ((node,), ()))
            case kind:
                collector.doubt(
                    f"unexpected {kind} in the text" if kind != "ERROR" else "a part of the text is no shell"
                )
                self._search(node)

    def _pipeline(self, node: Node, position: str, tail: Tail = ((), ())) -> None:
        """Each stage in a shell of its own. What a stage prints may be what the next one's xargs takes.

        In the background the first stage says so: it is fed by none.
        """
        collector = self._collector
        before = collector.directories.place
        feed: Sequence[Word] | None = None
        made = collector.made
        flows = piped = made.piped
        fed = told = made.fed
        check_gaps(self.source, node.children, self.doubt, glued=True, lines=True)
        final = node.named_children[-1]
        with made.apart():
            for child in node.named_children:
                collector.directories.place, collector.feed, collector.printed = before, feed, None
                made.piped, made.flows, made.fed, made.said = flows, False, told, ""
                reads = _READS_LINES.match(self.source, child.start_byte) if child.type == "while_statement" else None
                if reads is not None and feed is not None and len(feed) == 1:
                    self._fed[reads[1].decode()] = feed[0]
                hidden = made.hidden
                first = position == "background" and child == node.named_children[0]
                self._last(child, "background" if first else "pipe", tail if child == final else ((), ()))
                flows = made.flows or made.hidden > hidden
                self._fed.clear()
                told = made.said
                feed = collector.printed if child.type == "command" or self._keeps_output(child) else None
        collector.feed, collector.printed = None, feed
        made.piped, made.fed = piped, fed
        collector.directories.place = before

    def _keeps_output(self, node: Node) -> bool:
        """Whether a statement is one command whose errors alone are redirected."""
        if node.type != "redirected_statement":
            return False
        body, *redirects = node.named_children
        return body.type == "command" and all(self.slice(one).startswith("2>") for one in redirects)

    def _list(self, node: Node, position: str, tail: Tail = ((), ())) -> None:
        """`a && b || c`: behind `cd DIR &&` the directory is certain, behind the list it is not: the change may have
        failed, and what hung on it was not run. A `tail` of redirections is the last one's.
        """
        parts: list[Node] = []
        while node.type == "list":  # left-deep: flattened, so that length is not depth
            parts += reversed(node.children[1:])
            node = node.children[0]
        directories = self._collector.directories
        directories.if_ok = directories.now
        self.statement(node, position)
        succeeded, failed = directories.if_ok, directories.now
        operator = ""
        final = parts[0]
        for part in reversed(parts):
            if not part.is_named:
                operator = part.type
                continue
            directories.now = directories.if_ok = succeeded if operator == "&&" else failed
            self._last(part, position, tail if part is final else ((), ()))
            if operator == "&&":
                succeeded, failed = directories.if_ok, join(failed, directories.now)
            elif leaves(self.source[part.start_byte : part.end_byte]):
                failed = succeeded
            else:
                succeeded, failed = join(succeeded, directories.if_ok), directories.now
        directories.now, directories.if_ok = join(succeeded, failed), succeeded

    def _last(self, node: Node, position: str, tail: Tail) -> None:
        if tail[0] or tail[1]:
            self._with_tail(node, position, tail)
        else:
            self.statement(node, position)

    def _command(self, node: Node, position: str, redirects: Sequence[Redirection], extra: Sequence[Word]) -> None:
        words: list[Word] = []
        assignments: dict[str, Word] = {}
        own = list(redirects)
        more = list(extra)
        end = -1
        check_gaps(self.source, node.children, self.doubt)
        made = self._collector.made
        piped, hidden = made.piped, made.hidden
        for child in node.children:
            if len(words) > MAX_WORDS:
                self.doubt(f"a command of more than {MAX_WORDS} words")
                break
            match child.type:
                case "word" | "number" | "string" | "raw_string" | "concatenation":
                    words += read_words(child, self)
                case "command_name":
                    inner = child.children[0] if child.child_count == 1 else child
                    outer, self._naming = self._naming, True
                    words += read_words(inner, self)
                    self._naming = outer
                    if inner.type == "word" and words and words[-1].text in RESERVED:
                        self.doubt(f"the reserved word {words[-1].text} stands where a command is expected")
                case "variable_assignment":
                    name, value = self._assignment(child)
                    assignments[name] = value
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    read_redirect(self, child, own, more)
                case "subshell":
                    if [word.text for word in words] not in (["time"], ["time", "-p"]):
                        self.doubt("a parenthesis follows a command's name")
                    before = self._collector.directories.place
                    self.statements(child.children, position)
                    self._collector.directories.place = before
                case "comment":
                    self._comment(child)
                case "command_substitution":
                    words += self._listed(child)
                case "process_substitution" if words and child.start_byte == end:
                    self.nested(child)
                    words[-1] = words[-1].part(words[-1].text + "/dev/fd/" + HOLE)
                case _:
                    words += read_words(child, self)
            end = child.end_byte
        words += more
        if made.hidden > hidden and b"<(" in self.source[node.start_byte : node.end_byte]:
            made.piped = True
        simple = Simple(words, assignments, own, position, self._via)
        hidden = made.hidden
        with made.apart():
            if self._call(words, simple):
                self._printed_into(own, hidden)
            else:
                if words and f"{words[0].text}()" in self._collector.lost:
                    self.doubt(f"{words[0].text[:40]} may be a program or a function")
                self._collector.command(simple)
        made.piped = piped

    def _printed_into(self, redirects: Sequence[Redirection], hidden: int) -> None:
        """What a group or a function printed since `said` was emptied goes into the files of its redirections."""
        made, paths = self._collector.made, self._collector.directories.paths
        into = paths(to for op, _, to in redirects if to and ">" in op)
        appends = paths(to for op, _, to in redirects if to and ">>" in op)
        made.wrote(into, appends, hidden=made.hidden > hidden)

    def _redirected(self, node: Node, position: str) -> None:
        """A statement with redirections. The grammar hangs words behind a redirection onto it: they are arguments."""
        extra: list[Word] = []
        body: Node | None = None
        if len(node.children) == 2 and _LOST_DASH.fullmatch(self.source, *gap(*node.children)):
            extra.append(Word("-"))  # `cat - <<E`: the grammar loses the dash
        else:
            check_gaps(self.source, node.children, self.doubt)
        tail: list[Node] = []
        for child in node.children:
            if child.type in REDIRECTS:
                tail.append(child)
            elif child.type == "comment":
                self._comment(child)
            elif child.is_named:
                if body is not None:
                    self.doubt("a redirection between two statements")
                    self.statement(body, position)
                body = child
        self._with_tail(body, position, (tail, extra))

    def _with_tail(self, body: Node | None, position: str, tail: Tail) -> None:
        """A statement and redirections behind it. Behind a list or a pipeline they are the last command's."""
        if body is not None and body.type == "list":
            self._list(body, position, tail)
            return
        if body is not None and body.type == "pipeline":
            self._pipeline(body, position, tail)
            return
        if body is not None and body.type == "negated_command":
            self._with_tail(body.named_children[-1], position, tail)
            return
        nodes, words = tail
        redirects: list[Redirection] = []
        extra = list(words)
        self._shown = None
        made = self._collector.made
        piped, hidden = made.piped, made.hidden
        for node in nodes:
            read_redirect(self, node, redirects, extra, position)
        made.piped |= made.hidden > hidden and any(op == "<" for op, _, _ in redirects)
        if body is not None and [op for op, _, _ in redirects] == ["<"]:
            self._read_from(body, nodes[-1].named_children[-1:])
        if body is None:
            self._collector.command(Simple(extra, {}, redirects, position, self._via))
        elif body.type == "command":
            self._command(body, position, redirects, extra)
        elif body.type == "redirected_statement":
            self.statement(body, position)
        else:
            if extra:
                self.doubt("words behind a redirection of a compound command")
                self._collector.command(Simple(extra, {}, redirects, position, self._via))
            hidden = made.hidden
            with made.apart():
                self.statement(body, position)
                self._printed_into(redirects, hidden)
            self._fed.clear()
        made.piped = piped

    def _read_from(self, body: Node, source: Sequence[Node]) -> None:
        """A loop over lines, or an array of them, out of a process substitution that lists paths."""
        shown = self._shown
        if shown is None or len(shown) != 1 or [node.type for node in source] != ["process_substitution"]:
            return
        reads = _READS_LINES.match(self.source, body.start_byte) if body.type == "while_statement" else None
        if reads is not None:
            self._fed[reads[1].decode()] = shown[0]
        array = _READS_ARRAY.match(self.source, body.start_byte)
        if array is not None and at_top(body.parent or body):
            self._mapped[array[1].decode()] = shown

    def _test(self, node: Node, position: str) -> None:
        """`[ … ]` and `[[ … ]]`, listed as the command `[` or `[[` with its words."""
        words: list[Word] = []
        flatten(self, node, words)
        if node.children[0].type == "[" and (
            b"\n" in self.source[node.start_byte : node.end_byte] or splits(self, node)
        ):
            self.doubt("what the grammar takes for a test is several commands")
        if node.children[0].type == "[[":
            check_counted(self, node)
        self._expression(node)
        self._collector.command(Simple(words, {}, (), position, self._via))

    def _expression(self, node: Node) -> None:
        """Tests, arithmetic, patterns: nothing runs but the substitutions in them."""
        if node.type in ("command_substitution", "process_substitution"):
            self.nested(node)
        elif node.type in ("expansion", "simple_expansion"):
            check(node, self)
        elif node.type == "arithmetic_expansion":
            arithmetic(node, self)
        elif node.type in ("raw_string", "ansi_c_string"):
            if runs_in_subscript(self.slice(node)):
                self.doubt("a subscript that runs commands may be evaluated")
        elif node.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
            read_redirect(self, node, [], [])
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


def _inside(position: str) -> str:
    """Where the statements of a branch or loop stand: what is in the background stays there."""
    return "background" if position == "background" else "condition"


_STATEMENTS: Final = frozenset(
    {"command", "redirected_statement", "pipeline", "list", "negated_command", "compound_statement",
     "subshell", "if_statement", "while_statement", "c_style_for_statement", "for_statement",
     "case_statement", "function_definition", "variable_assignment", "variable_assignments",
     "declaration_command", "unset_command", "test_command", "do_group"}
)  # fmt: skip
