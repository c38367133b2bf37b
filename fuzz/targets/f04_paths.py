"""F4: a path, resolved by component and held against roots and patterns, means the file that the kernel would open.

Reference: openat2(2) in a real tree in the run's directory, with RESOLVE_IN_ROOT where `..` stops at the root as it
does in a guest, and RESOLVE_BENEATH for what lies below a root; patterns as regular expressions. What symlinks do is
the guest helper's matter (tests/native): it opens beneath a handle.
"""

import ctypes
import functools
import os
import pathlib
import re
import struct
from typing import Final

from opensafe.errors import InvalidArgument, LimitExceeded
from opensafe.model.facts import ClassTables
from opensafe.normalize import paths
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_SYS_OPENAT2: Final = 437
_OPEN_HOW: Final = struct.Struct("=QQQ")
_RESOLVE_BENEATH: Final = 0x08
_RESOLVE_IN_ROOT: Final = 0x10

_ROOTS: Final = ("/ws", "/ws-evil", "/ws/a", "/", "/etc", "/ws/..b")
_FILES: Final = (
    "ws/a/x", "ws/a/.env", "ws/..b/y", "ws/...", "ws/ a/ x", "ws-evil/x", "ws/%2e%2e/x", "etc/shadow", "etc/keys/a.pem",
    "x", "ws/a\\b", "ws/ä/x", "ws/a/b/c/id_rsa",
)  # fmt: skip
_PATTERNS: Final = {
    "env": ("**/.env",), "etc": ("/etc/",), "pem": ("**/*.pem", "!/etc/keys/"), "shadow": ("/etc/shadow",),
    "ssh": ("/ws/*/b/", "**/id_*"), "ws": ("/ws/",),
}  # fmt: skip
_TABLES: Final = ClassTables(paths=_PATTERNS)


@functools.cache
def _tree() -> str:
    """The tree, made in the directory that is current at first use."""
    root = pathlib.Path("tree").absolute()
    for file in _FILES:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)
    return str(root)


def _opened(beneath: str, path: str, how: int) -> tuple[int, int] | None:
    """Device and inode of what the kernel finds, or None."""
    directory = os.open(beneath, os.O_PATH | os.O_DIRECTORY)
    try:
        asked = _OPEN_HOW.pack(os.O_PATH, 0, how)
        raw = os.fsencode(path) if "\0" not in path else b"\0"
        found = ctypes.CDLL(None).syscall(_SYS_OPENAT2, directory, ctypes.c_char_p(raw), asked, len(asked))
        if found < 0:
            return None
        status = os.fstat(found)
        os.close(found)
        return status.st_dev, status.st_ino
    finally:
        os.close(directory)


def one(data: bytes) -> None:
    """Resolve a path against a directory, then hold it against a root and the patterns."""
    draw = Draw(data)
    cwd, root = draw.pick(_ROOTS), draw.pick(_ROOTS)
    path = draw.rest().decode("utf-8", "surrogateescape")
    try:
        resolved = paths.resolve(path, cwd)
    except (InvalidArgument, LimitExceeded):
        holds(not path or "\0" in path or len(os.fsencode(path)) > 4000, "what is refused is empty, cut or long", path)
        return
    _resolved(path, cwd, resolved)
    _contained(root, resolved)
    classes = paths.classify(resolved, _TABLES)
    expected = {name: True for name, patterns in _PATTERNS.items() if _covered(resolved, patterns)}
    holds(classes == expected, "classes are those of the patterns", (resolved, classes, expected))
    if len(resolved) < 64 and not set(resolved) & set("*?["):
        may = paths.path_classifier(_TABLES).classify_glob(resolved)[0]
        holds(classes.keys() <= may.keys(), "a pattern may reach what its own name does", (resolved, classes, may))


def _resolved(path: str, cwd: str, resolved: str) -> None:
    holds(path and "\0" not in path, "a path is text without NUL", path)
    parts = resolved.split("/")[1:]
    clean = resolved == "/" or all(part not in ("", ".", "..") for part in parts)
    holds(resolved.startswith("/") and clean, "what is resolved has plain components", resolved)
    holds(paths.resolve(resolved, "/") == resolved, "resolving again changes nothing", resolved)
    whole = path if path.startswith("/") else f"{cwd}/{path}"
    found = _opened(_tree(), whole, _RESOLVE_IN_ROOT)
    if found is not None:
        meant = os.stat(_tree() + resolved)
        holds(found == (meant.st_dev, meant.st_ino), "the kernel opens the same file", (path, cwd, resolved))


def _contained(root: str, resolved: str) -> None:
    inside = paths.contains(root, resolved)
    ours, theirs = [part for part in root.split("/") if part], [part for part in resolved.split("/") if part]
    holds(inside == (theirs[: len(ours)] == ours), "a root contains whole components", (root, resolved))
    if inside:
        below = paths.relative(root, resolved)
        holds(paths.resolve(below, root) == resolved, "a relative path leads back", (root, resolved, below))
    place = _tree() + root
    if os.path.lexists(_tree() + resolved) and os.path.isdir(place):
        below = os.path.relpath(_tree() + resolved, place)
        opened = _opened(place, below, _RESOLVE_BENEATH) is not None
        holds(inside == opened, "what a root contains can be opened beneath it, and nothing else", (root, resolved))


def _covered(path: str, patterns: tuple[str, ...]) -> bool:
    named = any(_matches(path, one) for one in patterns if not one.startswith("!"))
    return named and not any(_matches(path, one[1:]) for one in patterns if one.startswith("!"))


@functools.cache
def _expression(pattern: str) -> re.Pattern[str]:
    floating = pattern.startswith("**/")
    parts = [part for part in (pattern[3:] if floating else pattern).split("/") if part]
    text = "/".join(re.escape(part).replace(r"\*", "[^/]*") for part in parts)
    return re.compile(("/(?:.*/)?" if floating else "/") + text + ("(?:/.*)?" if pattern.endswith("/") else ""), re.S)


def _matches(path: str, pattern: str) -> bool:
    return _expression(pattern).fullmatch(path) is not None


_TRIED: Final = (
    "a/x", "../etc/shadow", "/ws/../etc/shadow", "/ws-evil/x", "..", "../..", "a/../../x", "./a/./x", "a//x", "/ws/a/",
    "..b/y", "...", "%2e%2e/x", "..\\x", " a/ x", "/etc/keys/a.pem", "/etc/keys", ".env", "a/.env", "/x/.env/y", "ä/x",
    "/" + "a/" * 200, "a/b/c/id_rsa", "/ws", "/..", "//etc/shadow", "a\0b", "\ud800", "..;/x", "a/b/../../../etc",
)  # fmt: skip


def seeds() -> list[bytes]:
    """Ways around a root that programs have fallen for."""
    return [bytes([at % 6, at % 5]) + text.encode("utf-8", "surrogatepass") for at, text in enumerate(_TRIED)]


_PATHS: Final = "normalize/paths.py"
TARGET: Final = Target(
    id="F4",
    title="paths: resolution, roots, patterns",
    one=one,
    seeds=seeds,
    modules=("opensafe.normalize.paths",),
    longest=256,
    floor=100,
    words=(b"../", b"/..", b"./", b"//", b"/ws", b"-evil", b"/etc/", b".env", b".pem", b"shadow", b"..b", b"*", b"\\"),
    mutants=(
        Mutant(
            id="F4-prefix", file=_PATHS, old='path.startswith(root + "/")', new="path.startswith(root)",
            says="a root contains what begins with its text",
        ),
        Mutant(
            id="F4-dots", file=_PATHS,
            old="""        if part == "..":
            if parts:
                parts.pop()
        elif part and part != ".":
            parts.append(part)
    return "/" +""",
            new="""        if part and part != ".":
            parts.append(part)
    return "/" +""",
            says="`..` stays where it stands",
        ),
        Mutant(
            id="F4-nul", file=_PATHS, old='if "\\0" in path or "\\0" in cwd:', new="if False:",
            says="a path may hold a NUL",
        ),
        Mutant(
            id="F4-joined", file=_PATHS, old='path = f"{cwd}/{path}"', new='path = f"{cwd}{path}"',
            says="a relative path is put behind its directory without a slash",
        ),
        Mutant(
            id="F4-exception", file=_PATHS,
            old="            if mark in excepted:\n                found.pop(name, None)", new="            pass",
            says="exceptions of a class are not taken out of it",
        ),
        Mutant(
            id="F4-floating", file=_PATHS, old="            active.append(floating)\n", new="",
            says="patterns for any directory hold nowhere",
        ),
    ),
)  # fmt: skip
