"""Files that a text makes and then runs, where their content does not stand in the text.

A script of the workspace may be run, as its author is free to write one. But `base64 -d x > f; sh f` hides from whoever
reads the call what it runs, so such a file is not known. Content is followed by path through copies, pipelines and
compilers; what a program of the workspace generates is its own and is left alone.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple

from opensafe.model.written import NOTHING, NOTHING_LEFT, Left, Written

from .interpreters import is_interpreter
from .kept import MAX_TEXT, MAX_TEXTS, Kept
from .name_lists import names
from .paths import is_pattern
from .spoken import shows, spoken
from .word import HOLE, NUMBER, Word

#: What a decoder makes shows nothing of its source; what a filter makes shows some of it.
_DECODERS: Final = names(
    """
    7z 7za age base32 base64 basenc brotli bunzip2 bzcat bzip2 dd fromdos funzip gpg gpg2 gunzip gzip hexdump iconv lz4
    lz4cat lzcat lzma openssl od qprint recode rev tr uncompress uudecode unlzma unxz unzstd xxd xz xzcat zcat zstd
    zstdcat"""
)
_FILTERS: Final = names(
    """
    awk column comm cpp csplit cut envsubst expand fmt fold gawk gojq grep egrep fgrep head join jq m4 mawk nawk nl
    paste rg sed shuf sort split sqlite3 strings tac tail uniq xmllint yq"""
)
#: What they write is what they read, under another name.
_COPIERS: Final = frozenset({"cat", "cp", "dd", "install", "ln", "mv", "rsync", "tee"})
_UNPACKERS: Final = frozenset({"7z", "bsdtar", "tar", "unzip"})
_TO_STDOUT: Final = re.compile(r"-[a-zA-Z]*[Op][a-zA-Z]*|--to-stdout|-so")
_COMPILERS: Final = frozenset({"c++", "cc", "clang", "clang++", "g++", "gcc", "ld"})
_APPENDS: Final = re.compile(r"-[a-zA-Z]*a[a-zA-Z]*|--a[a-z]*")
_SUFFIX: Final = re.compile(r"\.(?:gz|xz|bz2|zst|lzma|lz4|br|Z|uu|b64)\Z")
_ESCAPES: Final = re.compile(r"\\(?:x[0-9a-fA-F]|[0-7]|[uU][0-9a-fA-F])")
#: By which code makes a text out of what does not show it.
_BUILDS: Final = re.compile(
    r"chr\b|strrev|\bunpack\b|\\[xu0]|hex\b|fromCharCode|b64|base64|codec|compress|\[::-1|reverse|rot_?13|translate|\bpack\b|\btr/|\by/|^\s*s/"
)
_READS: Final = re.compile(r"read|-[a-z]*[pi]|ARGF|load|slurp")
#: Programs that run the files around them, unnamed.
_RUNNERS: Final = re.compile(
    r"g?make|ninja|just|task|rake|tox|nox|pytest|py\.test|npm|pnpm|yarn|bun|deno|npx|jest|vitest|mocha|cargo|go|gradlew?|mvn|ant|cmake"
)
_CODE: Final = re.compile(
    r"(?:[Mm]akefile|GNUmakefile|package\.json|.*\.(?:py|m?[jt]s|c|cc|cpp|go|rs|rb|pl|php|lua|sh|mk|java))"
)
_MAX_JOINED: Final = 8  # texts that one command may print
_UNTOLD: Final = "#" * (MAX_TEXT + 1)  # stands for a text that is not known: no file keeps it


class Step(NamedTuple):
    """One command: the files it used, by resolved path, and what it was fed. `appends`: those of `into` by `>>`."""

    program: str
    args: Sequence[Word]
    reads: Sequence[str]
    writes: Sequence[str]
    into: Sequence[str]
    appends: Sequence[str]
    documents: Sequence[Word]
    runs_file: bool


class _Apart:
    """`Made.apart`: every command is one, so it is no generator."""

    __slots__ = ("_before", "_made")

    def __init__(self, made: "Made") -> None:
        self._made = made
        self._before = made.said

    def __enter__(self) -> None:
        self._made.said = ""

    def __exit__(self, *_: object) -> None:
        if self._before:
            self._made.said = f"{self._before}{self._made.said}"[: MAX_TEXT + 1]


class Made:
    """Files by what this text put into them, and the session's calls `before`.

    `piped`, `flows`: what a command is fed, and prints, does not stand in the text. `hidden` counts such commands.
    `fed`, `said`: of what it is fed, and of what was printed since that was emptied, the text that is known.
    `straight`: every command ran if the text ended well.
    """

    def __init__(self, before: Written = NOTHING) -> None:
        self.piped = self.flows = self.straight = False
        self.hidden = 0
        self.fed = self.said = ""
        self._decoded: set[str] = set()
        self._filtered: set[str] = set()
        self._unkept: set[str] = set()  # what they hold is more than is kept
        self._written: set[str] = set()
        self._kept = Kept(before)

    def __bool__(self) -> bool:
        """Whether any file is known, or known to be hidden."""
        return bool(self._kept.texts or self._decoded or self._filtered or self._unkept)

    @property
    def recalled(self) -> bool:
        """Whether something was read off what calls before wrote."""
        return self._kept.recalled

    def left(self) -> Left:
        """What files may hold from this text's start on. What a filter makes of a workspace's files is its own."""
        if not self and not self._kept.crowded:
            return NOTHING_LEFT
        filtered = {path: (*self._kept.of(path)[1 - MAX_TEXTS :], "") for path in self._filtered}
        hidden: dict[str, tuple[str, ...]] = {**filtered, **dict.fromkeys([*self._decoded, *self._unkept], ())}
        last = self._kept.last if self.straight else {}
        sure = {path: (text,) for path, text in last.items() if text is not None and path not in hidden}
        return Left(texts={**self._kept.texts, **hidden}, sure=sure, crowded=self._kept.crowded)

    def apart(self) -> "_Apart":
        """Within, `said` is what is printed there alone. It is bounded: what is too long for a file stays too long."""
        return _Apart(self)

    def step(self, step: Step) -> None:
        """Follow content through one command."""
        hides = self._hides(step)
        decoded = hides == "decoded" or not self._decoded.isdisjoint(step.reads)
        hidden = bool(hides) or self.piped or any(map(self._is_hidden, step.reads))
        writes = [*step.writes, *step.into]
        if step.program in _DECODERS:
            writes += [_SUFFIX.sub("", path) for path in step.reads if _SUFFIX.search(path)]
        if step.program in _COMPILERS and hidden:
            writes += [f"{path.rpartition('/')[0]}/a.out" for path in step.reads[:1]]
        self._kept.writes(writes)
        if hidden and not self._edits(step, writes):
            (self._decoded if decoded or self.piped else self._filtered).update(writes)
        elif not hidden:
            self._remember(step)
        self._written.update(writes)
        self.flows = hidden
        self.hidden += hidden

    def wrote(self, paths: Sequence[str], appends: Sequence[str], *, hidden: bool) -> None:
        """What a group of commands printed went into these files, behind what some of them held.

        hidden: some of it does not stand in the text.
        """
        self._kept.writes(paths)
        self._put(paths, [self.said], appends)
        if hidden:
            self._decoded.update(paths)

    def runs(self, path: str) -> bool:
        """Whether the file that is run holds what does not stand in the text."""
        if is_pattern(path):
            found = bool(self._kept.matching(path, self._decoded | self._filtered | self._unkept)) or self._kept.hides(
                path
            )
        else:
            found = self._is_hidden(path)
        return found or self._kept.crowded

    def runs_around(self, program: str) -> bool:
        """Whether a program runs files around it, and such a one was decoded."""
        if not self._decoded or not (_RUNNERS.fullmatch(program) or is_interpreter(program)):
            return False
        return any(_CODE.fullmatch(path.rpartition("/")[2]) for path in self._decoded)

    def texts(self, path: str) -> tuple[str, ...]:
        """What a file may hold that this text wrote as it stands; of a pattern, what any of its files may."""
        return self._kept.of(path)

    def recalls(self, path: str) -> bool:
        """Whether a file that is run was written by calls before this one alone."""
        return self._kept.recalls(path)

    def _edits(self, step: Step, writes: Sequence[str]) -> bool:
        """Whether a file is changed that was there before, or code filtered into code: what a workspace's own is."""
        if step.program in _DECODERS or self.piped or not self._written.isdisjoint([*writes, *step.reads]):
            return False
        if set(writes) <= set(step.reads) and not step.into:
            code = (*step.args, *step.documents)
            reads = set(writes) == set(step.reads) and any(_READS.search(word.text) for word in code)
            return reads or not is_interpreter(step.program)
        named = [*writes, *step.reads]
        return step.program in _FILTERS and all(_CODE.fullmatch(path.rpartition("/")[2]) for path in named)

    def _is_hidden(self, path: str) -> bool:
        """Whether a file holds what is not known; what this text writes over it is looked at beside that."""
        names = (path, *self._kept.wild(path))
        hidden = (self._decoded, self._filtered, self._unkept)
        return any(not known.isdisjoint(names) for known in hidden) or self._kept.hides(path)

    def _hides(self, step: Step) -> str:
        """How what the command writes differs from what stands in the text; "" where it does not."""
        program, args = step.program, step.args
        if program in _DECODERS or (program in _UNPACKERS and any(_TO_STDOUT.fullmatch(word.text) for word in args)):
            return "decoded"
        if program in ("printf", "echo"):
            escaped = program == "printf" or any(re.fullmatch(r"-[neE]*e[neE]*", word.text) for word in args[:2])
            if escaped and any(_ESCAPES.search(word.text) for word in args):
                return "decoded"
            untold = any(HOLE in word.text.replace(NUMBER, "") for word in args) or not shows(program, args)
            return "filtered" if untold else ""
        if program in _FILTERS:
            return "filtered"
        if is_interpreter(program) and not step.runs_file:
            code = "\n".join([*(word.text for word in args), *(word.text for word in step.documents)])
            if _BUILDS.search(code):
                return "decoded"
            return "filtered" if set(step.reads) ^ set(step.writes) else ""
        if any(HOLE in word.text for word in step.documents):
            return "filtered"
        return ""

    def _remember(self, step: Step) -> None:
        """What stands in the text and goes into files, or is printed, as it is."""
        texts = [spoken(step.program, step.args) or ""]
        if step.program in _COPIERS:
            texts = self._joined(step)
        self._put(step.into, texts, step.appends)
        if step.program == "tee":
            more = any(_APPENDS.fullmatch(word.text) for word in step.args)
            self._put(step.writes, texts, step.writes if more else ())
        elif step.program in _COPIERS:
            self._copy(step)
        if step.program == "exec":
            self._filtered.update(step.into)  # whatever is printed from here on
        elif not step.into:
            self.said = f"{self.said}{texts[0] if len(texts) == 1 else _UNTOLD}"[: MAX_TEXT + 1]

    def _joined(self, step: Step) -> list[str]:
        """What a copier prints: of each file that it reads one of its texts, or what it is fed."""
        files = [texts for path in step.reads if (texts := self._kept.of(path))]
        fed = "".join([word.fixed() or "" for word in step.documents]) or ("" if step.reads else self.fed)
        count = 1
        for texts in files:
            count *= len(texts)
        if count > _MAX_JOINED or sum([len(text) for texts in files for text in texts]) > 4 * MAX_TEXT:
            return [_UNTOLD]
        return ["".join([*parts, fed]) for parts in product(*files)]

    def _copy(self, step: Step) -> None:
        """Files, and those of directories, under the names that they get: one of their own, or one in a directory."""
        for source in step.reads if not self._kept.crowded else ():
            for path in [source, *self._kept.beneath(source)]:
                texts, inner = self._kept.of(path), path[len(source) :]
                if texts:
                    places = [(to, f"{to}/{source.rpartition('/')[2]}") for to in step.writes]
                    self._put([f"{to}{inner}" for pair in places for to in pair], texts, (), certain=False)

    def _put(self, paths: Iterable[str], texts: Sequence[str], appends: Sequence[str], *, certain: bool = True) -> None:
        for path in paths:
            if not self._kept.put(path, texts, more=path in appends, certain=certain):
                self._unkept.add(path)
