"""What a text or an argv would do, as far as it was told: bounded lists without doubles, and what was left open."""

import re
from typing import Final, NamedTuple

from opensafe.model.facts import Command, HostFact, Redirect

from .simple import Simple
from .word import HOLE

MAX_COMMANDS: Final = 512
MAX_TARGETS: Final = 2048
MAX_REASONS: Final = 16
_PRINTS: Final = frozenset({"cargo", "go", "node", "npm", "python", "python3"})
#: What leads out of a directory, and what makes a text that does not show it.
_BUILDS: Final = re.compile(r"\.\.|chr\(|\\[xu0]|from(?:hex|CharCode)|b64|decode|base64|\[::-1|reverse|rot13")
#: Programs that show what files, git or the system say, and make nothing else of it.
_SHOWS: Final = frozenset(
    {"awk", "basename", "cat", "cut", "date", "dirname", "egrep", "fgrep", "git", "grep", "head", "hostname", "id",
     "jq", "ls", "nproc", "pwd", "realpath", "sed", "sort", "stat", "tail", "tr", "uname", "uniq", "wc", "whoami", "yq"}
)  # fmt: skip


class Target(NamedTuple):
    """An absolute path, lexically resolved; a shell pattern where `glob` is set."""

    path: str
    glob: bool = False


class ShellParse(NamedTuple):
    """All that could be understood. `reasons` is empty if and only if nothing was left open.

    recalled: some of it was read off what the session's calls before wrote.
    """

    commands: tuple[Command, ...] = ()
    reads: tuple[Target, ...] = ()
    writes: tuple[Target, ...] = ()
    deletes: tuple[Target, ...] = ()
    hosts: tuple[HostFact, ...] = ()
    reasons: tuple[str, ...] = ()
    recalled: bool = False

    @property
    def opaque(self) -> bool:
        """Whether more may happen than is listed."""
        return bool(self.reasons)


class Findings:
    """Accumulates a `ShellParse`."""

    def __init__(self) -> None:
        #: Above 0 a text is read of which only what is certain counts: what it leaves open is no doubt.
        self.lenient = 0
        self._commands: list[Command] = []
        self._again: set[object] = set()
        self._targets: dict[str, dict[Target, None]] = {"read": {}, "write": {}, "delete": {}}
        self._hosts: dict[tuple[str, int | None, str | None, bool], HostFact] = {}
        self._reasons: dict[str, None] = {}

    @property
    def listed(self) -> int:
        """How many commands were listed so far."""
        return len(self._commands)

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

    def result(self, *, recalled: bool = False) -> ShellParse:
        """What was collected so far."""
        return ShellParse(
            commands=tuple(self._commands),
            reads=tuple(self._targets["read"]),
            writes=tuple(self._targets["write"]),
            deletes=tuple(self._targets["delete"]),
            hosts=tuple(self._hosts.values()),
            reasons=tuple(self._reasons),
            recalled=recalled,
        )

    def doubt(self, reason: str) -> None:
        """Note once that something is not understood; beyond 16 reasons one more adds nothing."""
        if not self.lenient and len(self._reasons) < MAX_REASONS:
            self._reasons.setdefault(reason)

    def path(self, role: str, target: Target) -> None:
        """A file is read, written or deleted; beyond 2,048 of a kind that is a doubt."""
        table = self._targets[role]
        if len(table) < MAX_TARGETS:
            table.setdefault(target)
        elif target not in table:
            self.doubt(f"more than {MAX_TARGETS} paths")

    def host(self, fact: HostFact) -> None:
        """A host is reached; beyond 2,048 that is a doubt."""
        key = (fact.name, fact.port, fact.scheme, fact.userinfo)
        if len(self._hosts) < MAX_TARGETS:
            self._hosts.setdefault(key, fact)
        elif key not in self._hosts:
            self.doubt(f"more than {MAX_TARGETS} hosts")

    def command(self, simple: Simple, program: str, *, opaque: bool = False) -> None:
        """A command runs. opaque: and what it does is not known."""
        if len(self._commands) >= MAX_COMMANDS:
            self.doubt(f"more than {MAX_COMMANDS} commands")
            return
        argv = tuple([None if word.glob or HOLE in word.text else word.text for word in simple.words])
        assignments = {name: word.fixed() for name, word in simple.assignments.items()}
        redirects = tuple(
            [Redirect(op=op, fd=fd, target=None if to is None else to.fixed()) for op, fd, to in simple.redirects]
        )
        opaque = (opaque or simple.opaque) and not self.lenient
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
