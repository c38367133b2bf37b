"""Which files and hosts the operands, redirections and variables of commands name, from where a command stands.

A path or host that is not known before the run is a doubt, and what is known of it is listed all the same.
"""

import re
from typing import Final

from opensafe.errors import RequestError

from .directories import Directories
from .environment import changes_behaviour
from .findings import Findings, Target
from .options import Use
from .paths import ROOTS, is_pattern, is_stream, leaves_proc, resolve
from .simple import runs_in_subscript
from .urls import parse_host
from .word import HOLE, NUMBER, Word

_PROC_ROOT: Final = re.compile(r"/proc/(?:self|thread-self|[0-9]+)/root/(.+)")
_HOLES: Final = re.compile(rf"{HOLE}[\x01\x02\n]?")
#: What an unset variable before it makes a directory of the root: `rm -rf "$DIR/usr"`.
_UNSET_ROOT: Final = re.compile(
    rf"{HOLE}[\x01\x02]?/(?:{'|'.join(sorted(ROOTS - {'tmp', 'workspace'}))})(?:/[^{HOLE}]*)?\Z"
)
_SOCKET: Final = re.compile(r"/dev/(tcp|udp)/([^/]*)/([^/]*)")


class Touches:
    """`used` are the paths by role since it was last emptied. `lenient` while a script of the call's own is walked: of
    its arguments not more is asked than of a script that stood there before.
    """

    def __init__(self, directories: Directories, findings: Findings) -> None:
        self._directories = directories
        self._findings = findings
        self.used: dict[str, list[str]] = {}
        self.lenient = 0

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
            self._findings.doubt(f"{who}: {word.text}")
        elif role == "host":
            self.host(word, scheme, who)
        elif role == "text" and (HOLE in word.text or word.text == "-"):
            self._findings.doubt(f"{who} takes its program from what is not known before the run")
        elif self._is_numbered(word.text, role):
            self._file(role, Word(word.text.replace(NUMBER, "*"), glob=True), who)
        elif HOLE in word.text:
            if word.text.startswith("/dev/fd/"):
                return
            if word.text.startswith(("/dev/tcp/", "/dev/udp/")):
                self._findings.doubt(f"{who} may reach a host that is not known before the run")
            if role == "delete" or not self.lenient:
                self._findings.doubt(f"{who} may {role} a path that is not known before the run")
            if "/" in word.text[1:].partition(HOLE)[0] and word.text[0] != HOLE and role != "text":
                self._around(role, _HOLES.sub("*", word.text), who)
            elif role == "delete" and _UNSET_ROOT.match(word.text):
                self._file(role, Word(word.text[word.text.index("/") :]), who)
        elif word.text and (word.text != "-" or role == "delete"):
            self._file(role, word, who)

    def variable(self, name: str, value: Word) -> None:
        """Account for a variable that a program will see: a proxy is a host."""
        if name.lower().endswith("proxy") and not name.lower().startswith("no") and value.text:
            self.host(value, "http", name)
        if changes_behaviour(name, value.fixed()):
            self._findings.doubt(f"the variable {name} may change what programs do")
        if runs_in_subscript(value.text):
            self._findings.doubt(f"the variable {name} holds a subscript that runs commands")

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
            self.host(Word(found[2] + port), found[1], who)
            return
        if text[0] != "/" and self._directories.now is None:
            self._findings.doubt(f"{who} may {role} beneath a directory that is not known before the run")
            return
        kind = "read" if role == "text" else role
        for cwd in self._directories.now or ("/",):
            try:
                path = resolve(text, cwd)
            except RequestError as error:
                self._findings.doubt(f"{who}: {error.message}")
                return
            if len(self._directories.now or ()) > 1 and text[0] != "/" and path.split("/", 2)[1] not in ROOTS:
                continue  # there is nothing: it is meant from where the `cd` succeeded
            inner = _PROC_ROOT.match(path)
            if inner is not None:
                self._findings.path(kind, Target("/" + inner[1]))
            if leaves_proc(text, cwd):
                self._findings.doubt(f"{who} names a file by way of /proc or /dev/fd")
            self.used.setdefault(role, []).append(path)
            if role == "text" and path.startswith(("/dev/", "/proc/")):
                self._findings.doubt(f"{who} takes its program from a stream or device")
            if is_stream(path):
                continue
            self._findings.path(kind, Target(path, word.glob and is_pattern(text)))

    def host(self, word: Word, scheme: str | None, who: str) -> None:
        """Account for a host that `who` names."""
        text = word.text
        if HOLE in text:
            start = text.find("://") + 3 if "://" in text else 0
            ends = [at for at in (text.find(mark, start) for mark in "/?#") if at >= 0]
            if not ends or min(ends) > text.find(HOLE):
                self._findings.doubt(f"{who} may reach a host that is not known before the run")
                return
            text = text[: min(ends)]
        if text[:8].lower() == "file:///":
            self._file("read", Word(text[7:]), who)
        fact = parse_host(text, scheme=scheme)
        if fact is None:
            self._findings.doubt(f"{who} names a host that can't be read in one way: {text[:80]!r}")
            return
        self._findings.host(fact)
