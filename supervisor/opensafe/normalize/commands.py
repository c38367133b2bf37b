"""Collects what a text or an argv would run: commands unwrapped, and followed into what they run in turn.

The collector over-approximates: whatever might run is listed, and where the list may be incomplete or a file or
host can't be told, a reason says so. It knows nothing of grammar; `shell.py` feeds it words.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from opensafe.model.written import Written

from .awk import program_uses
from .builtins import judge_builtin
from .directories import Directories
from .findings import Findings
from .interpreters import file_uses, here_uses, is_interpreter, reads_here
from .kept import MAX_TEXT
from .made import Made, Step
from .mentions import mentioned, runs_code, started
from .operands import uses
from .options import Use
from .printed import here_items, passes_on, printed, taken
from .sed import script_uses
from .simple import Simple
from .touches import Touches
from .word import FEEDS, HOLE, NUMBER, TOLD, UNKNOWN, Word
from .wrappers import Peeled, peel

_MAX_DEPTH: Final = 12
#: A wrapper by name or out of the system's directories; one from elsewhere is a program of its own.
_IN_PLACE: Final = re.compile(r"(?:/(?:usr/(?:local/)?)?s?bin/)?[^/]*")
#: A trap whose operands are variables alone: one that is not set yet is empty, and so no file.
_CLEANS_UP: Final = re.compile(
    r"(?:(?:rm(?: -[rfv]+)*(?: --)?|rmdir|kill)(?: \"\$\{?\w+\}?\")+(?: 2> ?/dev/null)?(?: \|\| (?:true|:))?;? ?)+"
)
_SHEBANG: Final = re.compile(r"#! ?(?:/usr/bin/env (?:-S )?|(?:/usr)?/bin/)([\w.]+)")
_MAX_RAN: Final = 512
_SHELLS: Final = frozenset({"ash", "bash", "dash", "ksh", "mksh", "sh", "zsh", ".", "source"})
_SCRIPTS: Final[dict[str, Callable[[str], Iterable[Use]]]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), program_uses), "gsed": script_uses, "sed": script_uses,
}  # fmt: skip
_SHOWN: Final = re.compile(f"{NUMBER}|{TOLD}")
_FED_TEXTS: Final = frozenset({"dc", "ed", "ex", "gmake", "gnuplot", "make", "sqlite3", "vi", "vim"})
_RECIPE: Final = re.compile(r"^\t[@+-]*([^\n]+)", re.MULTILINE)
_BANG: Final = re.compile(r"^\s*(?:(?:[0-9,$%.]*[rw]\s*)?!|\.(?:shell|system)\b|system\b)\s*([^\n]+)", re.MULTILINE)
_POOL: Final = re.compile(r"stratum[12]?\+[a-z]+://[\w.-]+(?::[0-9]{1,5})?")


class Collector:
    """Receives simple commands in order: what they run goes into `findings`, by way of `touches` what they touch.

    `parse` walks a nested shell text (`sh -c`, `eval`) into this same collector. `lost` names what can't be relied on
    any more: `$x` for a variable, `f()` for a program of a name that a function has, `names`, `arguments`, `functions`
    for all of a kind. What is lost where code `repeats` was relied on too early: then `lost_too_late` names it, and the
    parse is done again without it. `feed` is what the stage before prints, `before` what calls before wrote.
    """

    def __init__(
        self, cwd: str, parse: Callable[[str, str, tuple[str, ...]], None], lost: frozenset[str], before: Written
    ) -> None:
        self.directories = Directories(cwd)
        self.findings = Findings()
        self.touches = Touches(self.directories, self.findings)
        self.doubt = self.findings.doubt
        self.lost = set(lost)
        self.lost_too_late: set[str] = set()
        self.repeats = 0
        self.feed: Sequence[Word] | None = None
        self.printed: Sequence[Word] | None = None
        self.numeric: Callable[[str], bool] = lambda _: False
        self.home: Callable[[], Word | None] = lambda: None
        self._parse = parse
        self.deferred: list[tuple[Word, str, tuple[str, ...]]] = []
        self._depth = 0
        self._ran: dict[tuple[str, str, str], Simple] = {}
        self.made = Made(before)

    def finish(self) -> None:
        """Walk what traps do at the end, with the variables that the text has set by then.

        And the files that ran before the text wrote them, in a loop or beside it.
        """
        while self.deferred:
            self._script(*self.deferred.pop())
        if len(self._ran) > _MAX_RAN and self.made:
            self.doubt(f"more than {_MAX_RAN} files are run, and some are written")
        for (program, path, _), simple in list(self._ran.items()):
            self._runs_file(program, [path], simple)

    def listen(self) -> Sequence[Word] | None:
        """From here on `printed` is what a text of its own prints, which nothing feeds; what fed that around it."""
        feed = self.feed
        self.feed = self.printed = None
        return feed

    def lose(self, what: str, *, anytime: bool = False) -> None:
        """Rely on something no more; inside a loop, or where it happens `anytime`, nor on it before."""
        if what not in self.lost:
            self.lost.add(what)
            if self.repeats or anytime:
                self.lost_too_late.add(what)

    def command(self, simple: Simple) -> None:
        """List one simple command and whatever it wraps."""
        if self._depth >= _MAX_DEPTH:
            self.doubt(f"commands are wrapped deeper than {_MAX_DEPTH}")
            self.findings.command(simple, "", opaque=True)
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
            self.touches.variable(variable, value)
        if not words:
            self.findings.command(simple, "")
            return
        name = words[0].fixed() or ""
        program = name.rpartition("/")[2]
        if not program:
            self.doubt("the name of a command is not known before the run")
            self.findings.command(simple, "", opaque=True)
            return
        if not name.isascii() or not name.isprintable():
            self.doubt("the name of a command holds characters beyond printable ASCII")
        if program in ("cd", "pushd", "popd", "dirs"):
            self.directories.change(program, words, self.home, repeats=bool(self.repeats))
        else:
            judge_builtin(program, words, self)
        self.touches.used = {}
        self._pools(simple)
        if "/" in name:
            self._runs_file(program, self.directories.paths(words[:1]), simple)
        if self.made.runs_around(program):
            self.doubt(f"{program} may run a file that this call decodes")
        peeled = peel(program, words)
        if peeled is None:
            self.findings.command(simple, program)
        else:
            self._peeled(simple, program, peeled)
            if peeled.file is not None:
                self._runs_file(program, self.directories.paths([peeled.file]), simple)
            if not peeled.keeps:
                return
        doubtful = False
        for use in uses(program, words[1:]):
            doubtful |= use.role == "doubt"
            self.touches.use(use, program)
        for op, _, text in simple.redirects:
            if op[:2] == "<<" and text is not None and runs_code(program):
                for use in here_uses(program, words[1:], text):
                    doubtful |= use.role == "doubt"
                    self.touches.use(use, program)
        fed = any(op[:2] == "<<" for op, _, _ in simple.redirects)
        if runs_code(program) and (doubtful or (fed and not reads_here(program, words[1:]))):
            self._code(simple, program)
        if program in _FED_TEXTS and (fed or self.made.fed):
            self._fed_text(simple, program)
        self._runs_file(program, self.touches.used.get("text", ()), simple)
        self._runs_module(program, simple)
        self._follow(program, simple)
        self.printed = self.feed if passes_on(program, words[1:]) else printed(program, words[1:])

    def _follow(self, program: str, simple: Simple) -> None:
        """Where the content of what the command writes comes from."""
        used = self.touches.used
        into: list[str] = []
        appends: list[str] = []
        fed: list[str] = []
        documents: list[Word] = []
        for op, _, to in simple.redirects:
            if to is None:
                continue
            if ">" in op:
                paths = self.directories.paths((to,))
                into += paths
                appends += paths if ">>" in op else ()
            elif op == "<":
                fed += self.directories.paths((to,))
            elif op[:2] == "<<":
                documents.append(to)
        reads = [*used.get("read", ()), *used.get("text", ()), *used.get("delete", ()), *fed]
        writes = used.get("write", ())
        self.made.step(Step(program, simple.words[1:], reads, [*writes], into, appends, documents, "text" in used))

    def _runs_file(self, program: str, paths: Iterable[str], simple: Simple) -> None:
        """A file that is run: what it does, where this text wrote it."""
        for path in paths:
            if self.made.runs(path):
                self.doubt(f"{program} runs what this session makes of what does not show its content")
            texts = self.made.texts(path)
            if not texts and len(self._ran) <= _MAX_RAN:
                self._ran.setdefault((program, path, simple.words[0].text), simple)
            # Its author may write a script and run it, as one that stood there before: what it hides is the sandbox's.
            recalls = self.made.recalls(path)
            self.findings.lenient += recalls
            for text in texts:
                self._runs_text(program, text, simple)
            self.findings.lenient -= recalls

    def _runs_text(self, program: str, text: str, simple: Simple) -> None:
        first = _SHEBANG.match(text)
        runner = first[1] if first is not None and "/" in simple.words[0].text else program
        if is_interpreter(runner):
            for use in file_uses(runner, text):
                self.touches.use(use, runner)
            self._starts(runner, text, simple)
        elif program in _SCRIPTS:
            for use in _SCRIPTS[program](text):
                self.touches.use(use, program)
            self._starts(program, text, simple)
        elif runner in _SHELLS or first is None:
            self.touches.lenient += 1  # of its arguments not more is asked than of a script that stood there before
            shell = runner if runner in _SHELLS else "sh"
            self._script(Word(text), simple.position, (*simple.via, shell))
            self.touches.lenient -= 1

    def _starts(self, program: str, text: str, simple: Simple) -> None:
        """What code starts by literals, where that it starts something is no doubt by itself."""
        for word in started(program, text) if self.findings.lenient else ():
            self._script(word, simple.position, (*simple.via, program))

    def _runs_module(self, program: str, simple: Simple) -> None:
        """`python3 -m x`, where this text wrote x.py."""
        if program.startswith("python"):
            texts = [word.text for word in simple.words]
            for option, module in itertools.pairwise(texts):
                if option == "-m":
                    place = module.replace(".", "/")
                    files = [Word(f"{place}.py"), Word(f"{place}/__main__.py")]
                    self._runs_file(program, self.directories.paths(files), simple)

    def _peeled(self, simple: Simple, program: str, peeled: Peeled) -> None:
        doubt = peeled.doubt
        via = (*simple.via, program)
        if peeled.file is not None:
            self.touches.use(Use("text", peeled.file), program)
        for word in peeled.writes:
            self.touches.use(Use("write", word), program)
        for word in peeled.reads:
            self.touches.use(Use("read", word), program)
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
            self.findings.command(simple, program, opaque=doubt is not None)
        here = self.directories.now
        if peeled.cwd is not None:
            self.directories.now = self.directories.moved(peeled.cwd)
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
            before = self.directories.place
            if (simple.assignments or simple.redirects) and not peeled.keeps:
                self.findings.command(simple, program)  # its text does not show what it carries
            self._script(script, simple.position, via)
            if program == "trap" and self.directories.place != before:
                self.doubt("a trap changes the directory, at a time that is not known")
            if program != "eval":
                self.directories.place = before
        if peeled.cwd is not None:
            self.directories.now = here
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
                    self.touches.use(use, program)

    def _fed_text(self, simple: Simple, program: str) -> None:
        """The shell's lines of a text for make (recipes), an editor (`!`) or a database (`.shell`)."""
        text = "".join(to.text for op, _, to in simple.redirects if op[:2] == "<<" and to is not None)
        text = text or self.made.fed
        if len(text) > MAX_TEXT:
            self.doubt(f"{program} is fed a text that is not known or too long to be looked at")
        lines = _RECIPE.findall(text) if program in ("gmake", "make") else _BANG.findall(text)
        if lines and program not in ("gmake", "make"):
            self.doubt(f"{program}: a text with a command")
        for line in lines[:_MAX_DEPTH]:
            self._script(Word(line), simple.position, (*simple.via, program))

    def _script(self, script: Word, position: str, via: tuple[str, ...]) -> None:
        if HOLE in script.text or script.glob:
            self.doubt(f"{via[-1]} runs a text that is not known before the run")
        text = _SHOWN.sub(HOLE, script.text).replace(
            HOLE, "${_}"
        )  # stays a hole, and its surroundings are still listed
        self._parse(text, position, via)

    def _pools(self, simple: Simple) -> None:
        """Mining pools in a text that is written, as in a miner's settings."""
        for word in [*simple.words[1:], *(to for _, _, to in simple.redirects if to is not None)]:
            if "stratum" in word.text:
                for pool in _POOL.findall(word.text)[:_MAX_DEPTH]:
                    self.touches.host(Word(pool), None, "a pool's address")
