"""Files that a text makes and then runs, where their content does not stand in the text.

A script of the workspace may be run, as its author is free to write one. But `base64 -d x > f; sh f` hides from whoever
reads the call what it runs, so such a file is not known. Content is followed by path through copies, pipelines and
compilers; what a program of the workspace generates is its own and is left alone.
"""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from .interpreters import is_interpreter
from .name_lists import names
from .spoken import spoken
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
_SUFFIX: Final = re.compile(r"\.(?:gz|xz|bz2|zst|lzma|lz4|br|Z|uu|b64)\Z")
_ESCAPES: Final = re.compile(r"\\(?:x[0-9a-fA-F]|[0-7]{2,3}|u[0-9a-fA-F])")
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
_MAX_TEXT: Final = 16384
_MAX_FILES: Final = 256  # whose text is kept: beyond, no file that is run is known


class Step(NamedTuple):
    """One command: the files it used, by resolved path, and what it was fed."""

    program: str
    args: Sequence[Word]
    reads: Sequence[str]
    writes: Sequence[str]
    into: Sequence[str]
    documents: Sequence[Word]
    runs_file: bool


class Made:
    """Files by what this text put into them.

    `piped`, `flows`: what a command is fed, and prints, does not stand in the text. `hidden` counts such commands.
    `fed`, `said`: of what it is fed, and of what was printed since that was emptied, the text that is known.
    """

    def __init__(self) -> None:
        self.piped = self.flows = False
        self.hidden = 0
        self.fed = self.said = ""
        self._decoded: set[str] = set()
        self._filtered: set[str] = set()
        self._written: set[str] = set()
        self._texts: dict[str, str] = {}
        self._places: set[str] = set()
        self._crowded = False

    def step(self, step: Step) -> None:
        """Follow content through one command."""
        hides = self._hides(step)
        decoded = hides == "decoded" or self._is_in(step.reads, self._decoded)
        hidden = bool(hides) or self.piped or self._is_in(step.reads, self._decoded | self._filtered)
        writes = [*step.writes, *step.into]
        if step.program in _DECODERS:
            writes += [_SUFFIX.sub("", path) for path in step.reads if _SUFFIX.search(path)]
        if step.program in _COMPILERS and hidden:
            writes += [f"{path.rpartition('/')[0]}/a.out" for path in step.reads[:1]]
        if hidden and not self._edits(step, writes):
            (self._decoded if decoded or self.piped else self._filtered).update(writes)
        elif not hidden:
            self._remember(step, writes)
        self._written.update(writes)
        self.flows = hidden
        self.hidden += hidden

    def wrote(self, paths: Iterable[str], *, hidden: bool) -> None:
        """What a group of commands printed went into these files. hidden: some of it does not stand in the text."""
        paths = list(paths)
        self._put(paths, self.said)
        if hidden:
            self._decoded.update(paths)

    def runs(self, path: str) -> bool:
        """Whether the file that is run holds what does not stand in the text."""
        if self._crowded:
            return True
        if any(sign in path for sign in "*?["):
            return any(fnmatch.fnmatchcase(known, path) for known in self._decoded | self._filtered)
        return path in self._decoded or path in self._filtered

    def runs_around(self, program: str) -> bool:
        """Whether a program runs files around it, and such a one was decoded."""
        if not self._decoded or not (_RUNNERS.fullmatch(program) or is_interpreter(program)):
            return False
        return any(_CODE.fullmatch(path.rpartition("/")[2]) for path in self._decoded)

    def text(self, path: str) -> str | None:
        """What a file holds that this text wrote as it stands; of a pattern, what any of its files does."""
        if any(sign in path for sign in "*?["):
            return "".join(text for known, text in self._texts.items() if fnmatch.fnmatchcase(known, path)) or None
        return self._texts.get(path)

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

    def _is_in(self, paths: Iterable[str], known: set[str]) -> bool:
        return not known.isdisjoint(paths)

    def _hides(self, step: Step) -> str:
        """How what the command writes differs from what stands in the text; "" where it does not."""
        program, args = step.program, step.args
        if program in _DECODERS or (program in _UNPACKERS and any(_TO_STDOUT.fullmatch(word.text) for word in args)):
            return "decoded"
        if program in ("printf", "echo"):
            escaped = program == "printf" or any(re.fullmatch(r"-[neE]*e[neE]*", word.text) for word in args[:2])
            if escaped and any(_ESCAPES.search(word.text) for word in args):
                return "decoded"
            return "filtered" if any(HOLE in word.text.replace(NUMBER, "") for word in args) else ""
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

    def _remember(self, step: Step, writes: Sequence[str]) -> None:
        """What stands in the text and goes into files, or is printed, as it is."""
        text = spoken(step.program, step.args) or ""
        if step.program in _COPIERS:
            text = "".join([self._texts.get(path, "") for path in step.reads])
            text += "".join([word.fixed() or "" for word in step.documents]) or ("" if step.reads else self.fed)
            self._copy(step)
        self._put([*step.into, *(writes if step.program == "tee" else ())], text)
        if step.program == "exec":
            self._filtered.update(step.into)  # whatever is printed from here on
        elif not step.into:
            self.said = f"{self.said}{text}"[-_MAX_TEXT:]

    def _copy(self, step: Step) -> None:
        """Files, and those of directories, under the names that they get: one of their own, or one in a directory."""
        for source in step.reads:
            known = [source] if source in self._texts else []
            if source in self._places:
                known += [path for path in self._texts if path.startswith(f"{source}/")]
            for path in known:
                inner = path[len(source) :]
                for to in step.writes:
                    self._keep(f"{to}{inner}", self._texts[path])
                    self._keep(f"{to}/{source.rpartition('/')[2]}{inner}", self._texts[path])

    def _put(self, paths: Iterable[str], text: str) -> None:
        for path in paths:
            whole = self._texts.pop(path, "") + text
            if text and len(whole) <= _MAX_TEXT:
                self._keep(path, whole)

    def _keep(self, path: str, text: str) -> None:
        if len(self._texts) >= _MAX_FILES:
            self._crowded = True
            return
        self._texts.setdefault(path, text)
        while path := path.rpartition("/")[0]:
            self._places.add(path)
