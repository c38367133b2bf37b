"""Paths by component: resolution, containment and classes.

All of it is lexical: the daemon must never look at a guest's file system to judge a call. What a symlink does to
a resolved path is the guest file helper's matter, which opens beneath a directory handle; a prefix of *text*
(`/workspace-evil`) is never taken for a prefix of *components*.
"""

import re
from typing import Final

from opensafe.errors import InvalidArgument, LimitExceeded
from opensafe.model.facts import ClassTables

from ._identity import DerivedOnce

MAX_PATH: Final = 4096  # PATH_MAX, in bytes
_MAX_GLOB: Final = 32
_BRACKET: Final = re.compile(r"\[[^/]*")  # from the first bracket on, anything
_RUNS: Final = re.compile(r"\*\*+")
_GLOB: Final = frozenset("*?[")


def is_pattern(path: str) -> bool:
    """Whether the shell may put several files for a path."""
    return not _GLOB.isdisjoint(path)


def resolve(path: str, cwd: str) -> str:
    """`path` against absolute `cwd`, with `.`, `..` and `//` folded; the result is absolute.

    Raises InvalidArgument (empty, NUL, relative cwd) and LimitExceeded (over 4096 bytes).
    """
    if not path:
        raise InvalidArgument("a path is empty", remedy="Name a file.")
    if "\0" in path or "\0" in cwd:
        raise InvalidArgument("a path holds a NUL", value=repr(path), remedy="Remove the NUL.")
    if path[0] != "/":
        if cwd[:1] != "/":
            raise InvalidArgument("the working directory is not absolute", value=cwd, remedy="Start it with '/'.")
        path = f"{cwd}/{path}"
    if len(path) > MAX_PATH or (not path.isascii() and len(path.encode("utf-8", "surrogatepass")) > MAX_PATH):
        raise LimitExceeded("a path is too long", value=len(path), limit=f"{MAX_PATH} bytes", remedy="Shorten it.")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part and part != ".":
            parts.append(part)
    return "/" + "/".join(parts)


#: What stands at the root of the guest.
ROOTS: Final = frozenset(
    {"bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc", "root",
     "run", "sbin", "srv", "sys", "tmp", "usr", "var", "workspace"}
)  # fmt: skip
_STREAM: Final = re.compile(
    r"/dev/(?:null|zero|full|stdin|stdout|stderr|tty|random|urandom|fd/\d+)|/proc/(?:self|thread-self)/fd/\d+"
)


def is_stream(path: str) -> bool:
    """Whether a resolved path is a descriptor of the program's own or one of the devices that hold nothing."""
    return _STREAM.fullmatch(path) is not None


def leaves_proc(path: str, cwd: str) -> bool:
    """Whether `..` follows a link of `/proc` or `/dev/fd`, where folding it lexically means another file."""
    parts: list[str] = []
    for part in (path if path[:1] == "/" else f"{cwd}/{path}").split("/"):
        if part == "..":
            if len(parts) > 1 and parts[0] in ("proc", "dev"):
                return True
            parts = parts[:-1]
        elif part and part != ".":
            parts.append(part)
    return False


def contains(root: str, path: str) -> bool:
    """Whether resolved `path` is `root` or lies beneath it, compared by component."""
    return root == "/" or path == root or path.startswith(root + "/")


def relative(root: str, path: str) -> str:
    """`path` relative to a `root` that contains it; `.` for the root itself."""
    return path[len(root) :].lstrip("/") or "."


class _Node:
    """One component of the compiled patterns: what may follow, and the classes reached here."""

    __slots__ = ("exact", "literal", "subtree", "wild")

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.wild: dict[str, tuple[re.Pattern[str], _Node]] = {}
        self.exact: list[str] = []
        self.subtree: list[str] = []

    def child(self, part: str) -> "_Node":
        if "*" not in part:
            return self.literal.setdefault(part, _Node())
        expression = re.compile(".*".join(re.escape(piece) for piece in part.split("*")), re.DOTALL)
        return self.wild.setdefault(part, (expression, _Node()))[1]


class PathClassifier:
    """The path patterns of one `ClassTables`, compiled to two tries: anchored at `/` and floating (`**/`).

    A pattern behind `!` takes what it covers out of its class again.
    """

    __slots__ = ("_anchored", "_except", "_floating")

    def __init__(self, tables: ClassTables) -> None:
        self._anchored = _Node()
        self._floating = _Node()
        self._except: dict[str, str] = {}
        for name, patterns in tables.paths.items():
            for pattern in patterns:
                if pattern.startswith("!"):
                    self._except[f"!{name}"] = name
                    self._add(f"!{name}", pattern[1:])
                else:
                    self._add(name, pattern)

    def _add(self, name: str, pattern: str) -> None:
        floating = pattern.startswith("**/")
        node = self._floating if floating else self._anchored
        for part in (pattern[3:] if floating else pattern).split("/"):
            if part:
                node = node.child(part)
        (node.subtree if pattern.endswith("/") else node.exact).append(name)

    def classify(self, path: str) -> dict[str, bool]:
        """The classes of one resolved path: every class with a pattern that covers it maps to true."""
        found: dict[str, bool] = dict.fromkeys(self._anchored.subtree, True)
        floating = self._floating
        active = [self._anchored]
        for part in path.split("/"):
            if not part:
                continue
            active.append(floating)
            following: list[_Node] = []
            for node in active:
                child = node.literal.get(part)
                if child is not None:
                    following.append(child)
                for expression, child in node.wild.values():
                    if expression.fullmatch(part):
                        following.append(child)
            for node in following:
                for name in node.subtree:
                    found[name] = True
            active = following
        for node in active:
            for name in node.exact:
                found[name] = True
        return self._less(found, dict(found)) if self._except else found

    def _less(self, found: dict[str, bool], excepted: dict[str, bool]) -> dict[str, bool]:
        """`found` without the classes that exceptions in `excepted` take away."""
        for mark, name in self._except.items():
            if mark in excepted:
                found.pop(name, None)
            if found is not excepted:
                found.pop(mark, None)
        return found

    def classify_glob(self, path: str) -> tuple[dict[str, bool], bool]:
        """The classes that a shell pattern may reach, and whether all that it matches has the same ones.

        A component without a literal character (`*`) is not held to name what floating patterns (`**/.env`) name,
        just as a directory given to a recursive reader is not; below an anchored root it is (`/etc/*`). Nor is one that
        shares with the pattern no more than an extension or nothing at all (`*.json`, `part_*`).
        """
        may, sure = self._reach(path, certain=False), self._reach(path, certain=True)
        excepted = dict(sure)
        may, sure = self._less(may, excepted), self._less(sure, excepted)
        return may, may == sure

    def _reach(self, path: str, *, certain: bool) -> dict[str, bool]:
        found: dict[str, bool] = dict.fromkeys(self._anchored.subtree, True)
        active = [(self._anchored, False)]
        for part in path.split("/"):
            if not part:
                continue
            active.append((self._floating, True))
            bare = not part.strip("*?")
            following: list[tuple[_Node, bool]] = []
            for node, floats in active:
                if _GLOB.isdisjoint(part):  # a name, and no question of what it may be
                    if part in node.literal:
                        following.append((node.literal[part], floats))
                    following += [
                        (child, floats) for expression, child in node.wild.values() if expression.fullmatch(part)
                    ]
                    continue
                choices = [*node.literal.items(), *((text, child) for text, (_, child) in node.wild.items())]
                for text, child in choices:
                    if certain or (bare and floats):
                        hit = text == "*"
                    else:
                        hit = _meets(part, text) and not (floats and _by_chance(part, text))
                    if hit:
                        following.append((child, floats))
            for node, _ in following:
                for name in node.subtree:
                    found[name] = True
            active = following
        for node, _ in active:
            for name in node.exact:
                found[name] = True
        return found


_OF_KEYS: Final = frozenset({".pem"})
_EXTENSION: Final = re.compile(r"[*?]+\.\w+")


def _by_chance(glob: str, pattern: str) -> bool:
    """Whether a glob that meets a pattern names it no more than any other file: `*.json`, `part_*` and `*.key`."""
    if _EXTENSION.fullmatch(glob):
        extension = glob.lstrip("*?")
        return pattern.strip("*") != extension and extension not in _OF_KEYS
    if "*" not in pattern:
        return False
    if glob[-1:] != "*" or pattern[0] != "*":
        return False
    start, shared = glob.rstrip("*"), pattern.strip("*").split("*")[0]
    return shared not in start and not any(start.endswith(shared[:size]) for size in range(2, len(shared)))


def _meets(glob: str, pattern: str) -> bool:
    """Whether some file name is matched by both; a bracket of `glob` is widened to `*`."""
    if glob[:1] in _GLOB and pattern[:1] == ".":
        return False  # without dotglob a leading dot is matched by a dot alone
    glob = _RUNS.sub("*", _BRACKET.sub("*", glob))
    if len(glob) > _MAX_GLOB:
        return True
    row = [True] + [False] * len(pattern)
    for j, theirs in enumerate(pattern, 1):
        row[j] = row[j - 1] and theirs == "*"
    for ours in glob:
        above, row = row, [row[0] and ours == "*"] + [False] * len(pattern)
        for j, theirs in enumerate(pattern, 1):
            if ours == "*" or theirs == "*":
                row[j] = above[j] or row[j - 1] or (above[j - 1] and ours == "?")
            else:
                row[j] = above[j - 1] and (ours in ("?", theirs))
    return row[-1]


_ANYTHING: Final = re.compile(r"[*?]+|\[.*", re.DOTALL)


def may_match(pattern: str, path: str) -> bool:
    """Whether a resolved path may be one that the shell puts for a pattern; `?` and brackets are widened to `*`."""
    globs, parts = pattern.split("/"), path.split("/")
    return len(globs) == len(parts) and all(map(_part_may_match, globs, parts))


def _part_may_match(glob: str, name: str) -> bool:
    first, *more = _ANYTHING.split(glob)
    if not more:
        return glob == name
    if (name[:1] == "." and not first) or not name.startswith(first) or not name.endswith(more[-1]):
        return False
    at = len(first)
    for piece in more:
        at = name.find(piece, at) + len(piece)
        if at < len(piece):
            return False
    return True


path_classifier: Final[DerivedOnce[ClassTables, PathClassifier]] = DerivedOnce(PathClassifier)


def classify(path: str, tables: ClassTables) -> dict[str, bool]:
    """The classes of one resolved path under `tables`."""
    return path_classifier(tables).classify(path)
