"""Collects what a text or an argv would run: commands unwrapped, their operands sorted, doubts noted.

The collector over-approximates: whatever might run is listed, and where the list may be incomplete or a file or
host can't be told, a reason says so. It knows nothing of grammar; `shell.py` feeds it words.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from opensafe.errors import RequestError
from opensafe.model.facts import Command, HostFact, Redirect

from .builtins import judge_builtin
from .directories import join
from .environment import changes_behaviour
from .interpreters import file_uses, here_uses, is_interpreter, reads_here
from .made import Made, Step
from .mentions import mentioned, runs_code
from .operands import uses
from .options import Use
from .paths import ROOTS, is_stream, leaves_proc, resolve
from .printed import here_items, passes_on, printed, taken
from .urls import parse_host
from .word import FEEDS, HOLE, NUMBER, TOLD, UNKNOWN, Word
from .wrappers import Peeled, peel

MAX_COMMANDS: Final = 512
MAX_TARGETS: Final = 2048
MAX_REASONS: Final = 16
_MAX_DEPTH: Final = 12
#: A wrapper by name or out of the system's directories; one from elsewhere is a program of its own.
_IN_PLACE: Final = re.compile(r"(?:/(?:usr/(?:local/)?)?s?bin/)?[^/]*")
_PROC_ROOT: Final = re.compile(r"/proc/(?:self|thread-self|[0-9]+)/root/(.+)")
_PRINTS: Final = frozenset({"cargo", "go", "node", "npm", "python", "python3"})
#: What leads out of a directory, and what makes a text that does not show it.
_BUILDS: Final = re.compile(r"\.\.|chr\(|\\[xu0]|from(?:hex|CharCode)|b64|decode|base64|\[::-1|reverse|rot13")
#: A trap whose operands are variables alone: one that is not set yet is empty, and so no file.
_CLEANS_UP: Final = re.compile(
    r"(?:(?:rm(?: -[rfv]+)*(?: --)?|rmdir|kill)(?: \"\$\{?\w+\}?\")+(?: 2> ?/dev/null)?(?: \|\| (?:true|:))?;? ?)+"
)
_SHEBANG: Final = re.compile(r"#! ?(?:/usr/bin/env (?:-S )?|(?:/usr)?/bin/)([\w.]+)")
_SHELLS: Final = frozenset({"ash", "bash", "dash", "ksh", "mksh", "sh", "zsh", ".", "source"})
_SHOWN: Final = re.compile(f"{NUMBER}|{TOLD}")
_HOLES: Final = re.compile(rf"{HOLE}[\x01\x02\n]?")
#: Programs that show what files, git or the system say, and make nothing else of it.
_SHOWS: Final = frozenset(
    {"awk", "basename", "cat", "cut", "date", "dirname", "egrep", "fgrep", "git", "grep", "head", "hostname", "id",
     "jq", "ls", "nproc", "pwd", "realpath", "sed", "sort", "stat", "tail", "tr", "uname", "uniq", "wc", "whoami", "yq"}
)  # fmt: skip
_FED_TEXTS: Final = frozenset({"ed", "ex", "gmake", "make", "vi", "vim"})
_RECIPE: Final = re.compile(r"^\t[@+-]*([^\n]+)", re.MULTILINE)
_BANG: Final = re.compile(r"^\s*(?:[0-9,$%.]*[rw]\s*)?!\s*([^\n]+)", re.MULTILINE)
_POOL: Final = re.compile(r"stratum[12]?\+[a-z]+://[\w.-]+(?::[0-9]{1,5})?")
#: What an unset variable before it makes a directory of the root: `rm -rf "$DIR/usr"`.
_UNSET_ROOT: Final = re.compile(
    rf"{HOLE}[\x01\x02]?/(?:{'|'.join(sorted(ROOTS - {'tmp', 'workspace'}))})(?:/[^{HOLE}]*)?\Z"
)
_SOCKET: Final = re.compile(r"/dev/(tcp|udp)/([^/]*)/([^/]*)")


class Target(NamedTuple):
    """An absolute path, lexically resolved; a shell pattern where `glob` is set."""

    path: str
    glob: bool = False


class ShellParse(NamedTuple):
    """All that could be understood. `reasons` is empty if and only if nothing was left open."""

    commands: tuple[Command, ...] = ()
    reads: tuple[Target, ...] = ()
    writes: tuple[Target, ...] = ()
    deletes: tuple[Target, ...] = ()
    hosts: tuple[HostFact, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def opaque(self) -> bool:
        """Whether more may happen than is listed."""
        return bool(self.reasons)


class Simple(NamedTuple):
    """A simple command as written: words, assignments before them, redirections, where it stands."""

    words: Sequence[Word]
    assignments: dict[str, Word] = {}  # noqa: RUF012  never changed: copied where something is added
    redirects: Sequence[tuple[str, int | None, Word | None]] = ()
    position: str = "top"
    via: tuple[str, ...] = ()
    opaque: bool = False


class Collector:
    """Receives simple commands and redirections in order and accumulates a `ShellParse`.

    `parse` walks a nested shell text (`sh -c`, `eval`) into this same collector. `cwds` are the directories that
    may be current: None once they can't be told. `lost` names what can't be relied on any more: `$x` for a variable,
    `f()` for a program of a name that a function has, `names`, `arguments`, `functions` for all of a kind. What is lost
    where code `repeats` was relied on too early: then `lost_too_late` names it, and the parse is done again without
    it. `feed` is what the stage before prints.
    """

    def __init__(self, cwd: str, parse: Callable[[str, str, tuple[str, ...]], None], lost: frozenset[str]) -> None:
        self.cwds: tuple[str, ...] | None = (cwd,)
        self.if_ok: tuple[str, ...] | None = self.cwds
        self.lost = set(lost)
        self.lost_too_late: set[str] = set()
        self.repeats = 0
        self.feed: Sequence[Word] | None = None
        self.printed: Sequence[Word] | None = None
        self.numeric: Callable[[str], bool] = lambda _: False
        self.home: Callable[[], Word | None] = lambda: None
        self._parse = parse
        self.deferred: list[tuple[Word, str, tuple[str, ...]]] = []
        self._stack: list[tuple[str, ...]] = []
        self._depth = 0
        self._commands: list[Command] = []
        self._again: set[object] = set()
        self._targets: dict[str, dict[Target, None]] = {"read": {}, "write": {}, "delete": {}}
        self._hosts: list[HostFact] = []
        self._host_keys: set[tuple[str, int | None, str | None, bool]] = set()
        self._reasons: dict[str, None] = {}
        self.made = Made()
        self._scripts = 0
        self._used: dict[str, list[str]] = {}

    @property
    def place(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """The possible directories now, and those after the last command if it succeeded."""
        return self.cwds, self.if_ok

    @place.setter
    def place(self, place: tuple[tuple[str, ...] | None, tuple[str, ...] | None]) -> None:
        self.cwds, self.if_ok = place

    def shows(self, since: int) -> bool:
        """Whether all commands listed from `since` on only show what files of the workspace and git say."""
        told = self._commands[since:]
        return bool(told) and all(
            (one.program in _SHOWS or (one.program in _PRINTS and not one.redirects))
            and not one.assignments
            and not one.opaque
            and not any(argument and _BUILDS.search(argument) for argument in one.argv)
            for one in told
        )

    def forget_directories(self, stack: int) -> None:
        """Behind code that may or may not have run: what it pushed or popped is not known."""
        if len(self._stack) != stack:
            self._stack = []

    def finish(self) -> None:
        """Walk what traps do at the end, with the variables that the text has set by then."""
        while self.deferred:
            self._script(*self.deferred.pop())

    @property
    def pushed(self) -> int:
        """How many directories `pushd` put away."""
        return len(self._stack)

    @property
    def listed(self) -> int:
        """How many commands were listed so far."""
        return len(self._commands)

    def listen(self) -> Sequence[Word] | None:
        """From here on `printed` is what a text of its own prints, which nothing feeds; what fed that around it."""
        feed = self.feed
        self.feed = self.printed = None
        return feed

    def result(self) -> ShellParse:
        """What was collected so far."""
        return ShellParse(
            commands=tuple(self._commands),
            reads=tuple(self._targets["read"]),
            writes=tuple(self._targets["write"]),
            deletes=tuple(self._targets["delete"]),
            hosts=tuple(self._hosts),
            reasons=tuple(self._reasons),
        )

    def doubt(self, reason: str) -> None:
        """Note once that something is not understood; beyond 16 reasons one more adds nothing."""
        if len(self._reasons) < MAX_REASONS:
            self._reasons.setdefault(reason)

    def lose(self, what: str, *, anytime: bool = False) -> None:
        """Rely on something no more; inside a loop, or where it happens `anytime`, nor on it before."""
        if what not in self.lost:
            self.lost.add(what)
            if self.repeats or anytime:
                self.lost_too_late.add(what)

    def redirect(self, op: str, target: Word | None) -> None:
        """Account for the file or socket of one redirection."""
        if target is None or op in ("<<", "<<-", "<<<", "<&-", ">&-"):
            return
        if op in ("<&", ">&") and re.fullmatch(r"\d+-?|-", target.text):
            return
        if op.startswith("<"):
            self.use(Use("read", target), "a redirection")
        if op != "<" and op != "<&":
            self.use(Use("write", target), "a redirection")

    def use(self, use: Use, who: str) -> None:
        """Account for one operand."""
        role, word, scheme = use
        if role == "doubt":
            self.doubt(f"{who}: {word.text}")
        elif role == "host":
            self._host(word, scheme, who)
        elif role == "text" and (HOLE in word.text or word.text == "-"):
            self.doubt(f"{who} takes its program from what is not known before the run")
        elif self._is_numbered(word.text, role):
            self._file(role, Word(word.text.replace(NUMBER, "*"), glob=True), who)
        elif HOLE in word.text:
            if word.text.startswith("/dev/fd/"):
                return
            if word.text.startswith(("/dev/tcp/", "/dev/udp/")):
                self.doubt(f"{who} may reach a host that is not known before the run")
            if role == "delete" or not self._scripts:
                self.doubt(f"{who} may {role} a path that is not known before the run")
            if "/" in word.text[1:].partition(HOLE)[0] and word.text[0] != HOLE and role != "text":
                self._around(role, _HOLES.sub("*", word.text), who)
            elif role == "delete" and _UNSET_ROOT.match(word.text):
                self._file(role, Word(word.text[word.text.index("/") :]), who)
        elif word.text and (word.text != "-" or role == "delete"):
            self._file(role, word, who)

    def _around(self, role: str, pattern: str, who: str) -> None:
        """Where a path that is not known lies, beside the doubt: what it may name there, as `/proc/$p/environ`."""
        if role != "delete" or not re.match(r"(?!/)|/(?:workspace|tmp)/", pattern):
            self._file(role, Word(pattern, glob=True), who)

    def _is_numbered(self, text: str, role: str) -> bool:
        """Whether all that is not known of a path is a number in it: what files and git show may lead anywhere."""
        return HOLE in text and text[0] != HOLE and role != "text" and HOLE not in text.replace(NUMBER, "")

    def _file(self, role: str, word: Word, who: str) -> None:
        text = word.text
        found = _SOCKET.match(text)
        if found:
            port = f":{found[3]}" if found[3].isalnum() else ""
            self._host(Word(found[2] + port), found[1], who)
            return
        if text[0] != "/" and self.cwds is None:
            self.doubt(f"{who} may {role} beneath a directory that is not known before the run")
            return
        table = self._targets["read" if role == "text" else role]
        for cwd in self.cwds or ("/",):
            try:
                path = resolve(text, cwd)
            except RequestError as error:
                self.doubt(f"{who}: {error.message}")
                return
            if len(self.cwds or ()) > 1 and text[0] != "/" and path.split("/", 2)[1] not in ROOTS:
                continue  # there is nothing: it is meant from where the `cd` succeeded
            inner = _PROC_ROOT.match(path)
            if inner is not None:
                table.setdefault(Target("/" + inner[1]))
            if leaves_proc(text, cwd):
                self.doubt(f"{who} names a file by way of /proc or /dev/fd")
            self._used.setdefault(role, []).append(path)
            if role == "text" and path.startswith(("/dev/", "/proc/")):
                self.doubt(f"{who} takes its program from a stream or device")
            if is_stream(path):
                continue
            if len(table) < MAX_TARGETS:
                table.setdefault(Target(path, word.glob and any(char in "*?[" for char in text)))
            else:
                self.doubt(f"more than {MAX_TARGETS} paths")

    def variable(self, name: str, value: Word) -> None:
        """Account for a variable that a program will see: a proxy is a host."""
        if name.lower().endswith("proxy") and not name.lower().startswith("no") and value.text:
            self._host(value, "http", name)
        if changes_behaviour(name, value.fixed()):
            self.doubt(f"the variable {name} may change what programs do")
        if runs_in_subscript(value.text):
            self.doubt(f"the variable {name} holds a subscript that runs commands")

    def command(self, simple: Simple) -> None:
        """List one simple command and whatever it wraps."""
        if self._depth >= _MAX_DEPTH:
            self.doubt(f"commands are wrapped deeper than {_MAX_DEPTH}")
            self._list(simple, "", opaque=True)
            return
        self._depth += 1
        try:
            self._command(simple)
        finally:
            self._depth -= 1

    def _command(self, simple: Simple) -> None:
        words = simple.words
        self.printed = None
        for variable, value in simple.assignments.items():
            self.variable(variable, value)
        if not words:
            self._list(simple, "")
            return
        name = words[0].fixed() or ""
        program = name.rpartition("/")[2]
        if not program:
            self.doubt("the name of a command is not known before the run")
            self._list(simple, "", opaque=True)
            return
        if not name.isascii() or not name.isprintable():
            self.doubt("the name of a command holds characters beyond printable ASCII")
        if program in ("cd", "pushd", "popd", "dirs"):
            self._change_directory(program, words)
        else:
            judge_builtin(program, words, self)
        self._used = {}
        self._pools(simple)
        if "/" in name:
            self._runs_file(program, self.paths(words[:1]), simple)
        if self.made.runs_around(program):
            self.doubt(f"{program} may run a file that this call decodes")
        peeled = peel(program, words)
        if peeled is None:
            self._list(simple, program)
        else:
            self._peeled(simple, program, peeled)
            if peeled.file is not None:
                self._runs_file(program, self.paths([peeled.file]), simple)
            if not peeled.keeps:
                return
        doubtful = False
        for use in uses(program, words[1:]):
            doubtful |= use.role == "doubt"
            self.use(use, program)
        for op, _, text in simple.redirects:
            if op[:2] == "<<" and text is not None and runs_code(program):
                for use in here_uses(program, words[1:], text):
                    doubtful |= use.role == "doubt"
                    self.use(use, program)
        fed = any(op[:2] == "<<" for op, _, _ in simple.redirects)
        if runs_code(program) and (doubtful or (fed and not reads_here(program, words[1:]))):
            self._code(simple, program)
        if fed and program in _FED_TEXTS:
            self._fed_text(simple, program)
        self._runs_file(program, self._used.get("text", ()), simple)
        self._follow(program, simple)
        self.printed = self.feed if passes_on(program, words[1:]) else printed(program, words[1:])

    def _follow(self, program: str, simple: Simple) -> None:
        """Where the content of what the command writes comes from."""
        used = self._used
        into = self.paths(to for op, _, to in simple.redirects if ">" in op and to is not None)
        fed = self.paths(to for op, _, to in simple.redirects if op == "<" and to is not None)
        documents = [to for op, _, to in simple.redirects if op[:2] == "<<" and to is not None]
        reads = [*used.get("read", ()), *used.get("text", ()), *used.get("delete", ()), *fed]
        writes = used.get("write", ())
        self.made.step(Step(program, simple.words[1:], reads, [*writes], into, documents, "text" in used))

    def paths(self, words: Iterable[Word]) -> list[str]:
        """The files that known words name, from every directory that may be current."""
        found: list[str] = []
        for word in words:
            for cwd in self.cwds or ():
                if word.text and word.known:
                    try:
                        found.append(resolve(word.text, cwd))
                    except RequestError:
                        continue
        return [path for path in found if not is_stream(path)]

    def _runs_file(self, program: str, paths: Iterable[str], simple: Simple) -> None:
        """A file that is run: what it does, where this text wrote it."""
        for path in paths:
            if self.made.runs(path):
                self.doubt(f"{program} runs what this call makes of what does not show its content")
            text = self.made.text(path)
            if text is None:
                continue
            first = _SHEBANG.match(text)
            runner = first[1] if first is not None and "/" in simple.words[0].text else program
            if is_interpreter(runner):
                for use in file_uses(runner, text):
                    self.use(use, runner)
            elif runner in _SHELLS or first is None:
                self._scripts += 1  # of its arguments not more is asked than of a script that stood there before
                self._script(Word(text), simple.position, (*simple.via, runner))
                self._scripts -= 1

    def _peeled(self, simple: Simple, program: str, peeled: Peeled) -> None:
        doubt = peeled.doubt
        via = (*simple.via, program)
        if peeled.file is not None:
            self.use(Use("text", peeled.file), program)
        for word in peeled.writes:
            self.use(Use("write", word), program)
        for word in peeled.reads:
            self.use(Use("read", word), program)
        if peeled.stdin:
            texts = [target for op, _, target in simple.redirects if op in ("<<", "<<-", "<<<")]
            if texts:
                for text in texts:
                    self._script(text or UNKNOWN, simple.position, via)
            else:
                doubt = doubt or "a shell reads its commands from standard input"
        if doubt:
            self.doubt(doubt)
        if peeled.keeps or not _IN_PLACE.fullmatch(simple.words[0].text):
            self._list(simple, program, opaque=doubt is not None)
        here = self.cwds
        if peeled.cwd is not None:
            self.cwds = self._moved(peeled.cwd)
        added = dict(peeled.assignments)
        for name in added:
            self.lose(f"${name}")
            if not name.isidentifier() or not name.isascii():
                self.doubt(f"a variable of the name {name[:40]!r}, which a shell may take for a function")
        feed = here_items(simple.redirects) or (self.feed if self.feed is not None else [UNKNOWN])
        for fed in peeled.inner:
            inner = [part for word in fed for part in (taken(word, feed) if word in FEEDS else [word])]
            if inner:
                self.command(
                    simple._replace(
                        words=inner,
                        assignments={**simple.assignments, **added},
                        via=via,
                        opaque=simple.opaque or doubt is not None,
                    )
                )
        for script in peeled.scripts:
            if program == "trap" and script.fixed() and not self.repeats and _CLEANS_UP.fullmatch(script.text):
                self.deferred.append((script, simple.position, via))
                continue
            before = self.place
            if (simple.assignments or simple.redirects) and not peeled.keeps:
                self._list(simple, program)  # its text does not show what it carries
            self._script(script, simple.position, via)
            if program == "trap" and self.place != before:
                self.doubt("a trap changes the directory, at a time that is not known")
            if program != "eval":
                self.place = before
        if peeled.cwd is not None:
            self.cwds = here
            self.printed = None

    def _code(self, simple: Simple, program: str) -> None:
        """What code that is not understood mentions: shell texts that it may run, files that it may touch."""
        texts = [word.text for word in simple.words[1:]]
        texts += [to.text for op, _, to in simple.redirects if to is not None and op[:2] == "<<"]
        for text in texts:
            for use in mentioned(text):
                if use.role == "text":
                    self._script(use.word, simple.position, (*simple.via, program))
                else:
                    self.use(use, program)

    def _fed_text(self, simple: Simple, program: str) -> None:
        """The shell's lines of a here-document for make (recipes) or an editor (`!`)."""
        text = "".join(to.text for op, _, to in simple.redirects if op[:2] == "<<" and to is not None)
        lines = _RECIPE.findall(text) if program in ("gmake", "make") else _BANG.findall(text)
        if lines and program not in ("gmake", "make"):
            self.doubt(f"{program}: an editor with a command")
        for line in lines[:_MAX_DEPTH]:
            self._script(Word(line), simple.position, (*simple.via, program))

    def _script(self, script: Word, position: str, via: tuple[str, ...]) -> None:
        if HOLE in script.text or script.glob:
            self.doubt(f"{via[-1]} runs a text that is not known before the run")
        text = _SHOWN.sub(HOLE, script.text).replace(
            HOLE, "${_}"
        )  # stays a hole, and its surroundings are still listed
        self._parse(text, position, via)

    def _list(self, simple: Simple, program: str, *, opaque: bool = False) -> None:
        if len(self._commands) >= MAX_COMMANDS:
            self.doubt(f"more than {MAX_COMMANDS} commands")
            return
        argv = tuple([None if word.glob or HOLE in word.text else word.text for word in simple.words])
        assignments = {name: word.fixed() for name, word in simple.assignments.items()}
        redirects = tuple(
            [Redirect(op=op, fd=fd, target=None if to is None else to.fixed()) for op, fd, to in simple.redirects]
        )
        opaque |= simple.opaque
        if simple.position in ("condition", "function"):  # a body that is walked again says most of it again
            key = (program, argv, tuple(assignments.items()), redirects, simple.position, simple.via, opaque)
            if key in self._again:
                return
            self._again.add(key)
        self._commands.append(
            Command(
                program=program,
                argv=argv,
                assignments=assignments,
                redirects=redirects,
                position=simple.position,
                via=simple.via,
                opaque=opaque,
            )
        )

    def _pools(self, simple: Simple) -> None:
        """Mining pools in a text that is written, as in a miner's settings."""
        for word in [*simple.words[1:], *(to for _, _, to in simple.redirects if to is not None)]:
            if "stratum" in word.text:
                for pool in _POOL.findall(word.text)[:_MAX_DEPTH]:
                    self._host(Word(pool), None, "a pool's address")

    def _host(self, word: Word, scheme: str | None, who: str) -> None:
        text = word.text
        if HOLE in text:
            start = text.find("://") + 3 if "://" in text else 0
            ends = [at for at in (text.find(mark, start) for mark in "/?#") if at >= 0]
            if not ends or min(ends) > text.find(HOLE):
                self.doubt(f"{who} may reach a host that is not known before the run")
                return
            text = text[: min(ends)]
        if text[:8].lower() == "file:///":
            self._file("read", Word(text[7:]), who)
        fact = parse_host(text, scheme=scheme)
        if fact is None:
            self.doubt(f"{who} names a host that can't be read in one way: {text[:80]!r}")
            return
        key = (fact.name, fact.port, fact.scheme, fact.userinfo)
        if key not in self._host_keys and len(self._host_keys) < MAX_TARGETS:
            self._host_keys.add(key)
            self._hosts.append(fact)

    def _change_directory(self, program: str, words: Sequence[Word]) -> None:
        operands = [word for word in words[1:] if not re.fullmatch(r"-[LPe@]+|--", word.text)]
        moved: tuple[str, ...] | None
        if program == "dirs":
            return
        if program == "popd" and not words[1:] and self._stack:
            moved = self._stack.pop()
            self.if_ok = self.cwds = moved
            return
        if program == "popd" or (program == "pushd" and not operands):
            moved, self._stack = None, []
        elif not operands:
            moved = self._moved(self.home() or Word("~"))
        else:
            moved = None if operands[0].text[:1] in ("-", "+") or len(operands) > 1 else self._moved(operands[0])
        if program == "pushd" and not self.repeats and self.cwds is not None:
            self._stack.append(self.cwds)
        self.if_ok = moved
        self.cwds = join(self.cwds, moved)

    def _moved(self, word: Word) -> tuple[str, ...] | None:
        text = word.fixed()
        if text is None or not text or text.startswith("~"):
            return None
        if self.cwds is None and text[0] != "/":
            return None
        try:
            return join((), [resolve(text, cwd) for cwd in self.cwds or ("/",)])
        except RequestError:
            return None


def runs_in_subscript(text: str) -> bool:
    """Whether arithmetic on `text` may run a command: `a[$(…)]`."""
    _, bracket, after = text.partition("[")
    return bool(bracket) and ("$(" in after or "`" in after)
