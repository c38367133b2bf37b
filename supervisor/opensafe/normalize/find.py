"""find: its starting points, the expression by a positive list, and what its `-exec` runs."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from .options import Use
from .word import HOLE, UNKNOWN, Word

_ALONE: Final = frozenset(
    [
        "(",
        ")",
        "!",
        ",",
        "-a",
        "-and",
        "-o",
        "-or",
        "-not",
        "-daystart",
        "-depth",
        "-d",
        "-follow",
        "-ignore_readdir_race",
        "-noignore_readdir_race",
        "-mount",
        "-xdev",
        "-noleaf",
        "-nowarn",
        "-warn",
        "-empty",
        "-executable",
        "-false",
        "-nogroup",
        "-nouser",
        "-readable",
        "-true",
        "-writable",
        "-delete",
        "-ls",
        "-print",
        "-print0",
        "-prune",
        "-quit",
        "-help",
        "-version",
        "--help",
        "--version",
    ]
)
_VALUED: Final = frozenset(
    [
        "-maxdepth",
        "-mindepth",
        "-regextype",
        "-amin",
        "-atime",
        "-cmin",
        "-ctime",
        "-fstype",
        "-gid",
        "-group",
        "-ilname",
        "-iname",
        "-inum",
        "-ipath",
        "-iregex",
        "-iwholename",
        "-links",
        "-lname",
        "-mmin",
        "-mtime",
        "-name",
        "-path",
        "-perm",
        "-regex",
        "-size",
        "-type",
        "-uid",
        "-used",
        "-user",
        "-wholename",
        "-xtype",
        "-context",
        "-printf",
    ]
)
_READS: Final = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})
_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fls", "-fprintf"})
_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_ACTIONS: Final = _RUNS | _WRITES | {"-delete", "-print", "-print0", "-printf", "-ls"}
_CHOICES: Final = frozenset({"-o", "-or", ",", "!", "-not", "("})
_MAX_ROOTS: Final = 16
#: Roots whose patterns say at which depth a name counts (`/proc/*/environ`).
_OF_SYSTEM: Final = re.compile(r"/(?!workspace\b|tmp\b|\0)")


def find(args: Sequence[Word]) -> Iterator[Use]:
    """What find does with its arguments (without argv[0]), but for what it runs."""
    yield from (Use("read", root) for root in find_roots(args))
    if any(word.text == "-delete" for word in args):
        yield from (Use("delete", item) for item in find_items(args))
    at = _expression(args)
    while at < len(args):
        text = args[at].text
        if text in _RUNS:
            at = _command_end(args, at + 1)[1]
            continue
        if text in _READS or (text.startswith("-newer") and len(text) == 8):
            yield Use("read", _at(args, at + 1))
            at += 2
        elif text in _WRITES:
            yield Use("write", _at(args, at + 1))
            at += 3 if text == "-fprintf" else 2
        elif text in _VALUED:
            if at + 1 < len(args) and args[at + 1].split and HOLE in args[at + 1].text:
                yield Use("doubt", Word("an expression that is not known before the run"))
            at += 2
        elif text in _ALONE:
            at += 1
        else:
            yield Use("doubt", Word(f"the expression {text[:40]!r} is not known"))
            at += 1


def find_roots(args: Sequence[Word]) -> list[Word]:
    """The starting points of a `find`; `.` where none is given."""
    start = _options_end(args)
    return list(args[start : _expression(args)]) or [Word(".")]


def find_items(args: Sequence[Word]) -> list[Word]:
    """What is found: names below the roots where a `-name` restricts all that is done, else the roots as well."""
    roots = [root._replace(glob=True) if root.known else UNKNOWN for root in find_roots(args)]
    texts = [word.text for word in args]
    acts = next((at for at, text in enumerate(texts) if text in _ACTIONS), len(texts))
    names = [follows for text, follows in pairwise(texts[:acts]) if text in ("-name", "-iname")]
    names += [name.lower() for name in names if name != name.lower()]
    if any(HOLE in name for name in names):
        return roots
    named = [root.part(f"{root.text}/{name}") for root in roots if root.known for name in names]
    named += [root.part(f"{root.text}/*/{name}") for root in roots if _OF_SYSTEM.match(root.text) for name in names]
    restricted = _CHOICES.isdisjoint(texts) or _each_named(texts[:acts])
    if names and restricted and all(root.known for root in roots):
        return named
    return [*roots, *named]


def _each_named(texts: Sequence[str]) -> bool:
    """Whether every alternative of an expression restricts the name. What is negated does not."""
    alternatives: list[list[str]] = [[]]
    for before, text in pairwise(["", *texts]):
        if text == "," or (text == "(" and before in ("!", "-not")):
            return False
        if text in ("-o", "-or"):
            alternatives.append([])
        elif before not in ("!", "-not"):
            alternatives[-1].append(text)
    return all(not {"-name", "-iname"}.isdisjoint(one) for one in alternatives)


def find_commands(words: Sequence[Word]) -> tuple[list[Sequence[Word]], bool]:
    """The argv of every `-exec`, `{}` standing for something below the roots; whether one runs elsewhere."""
    if _RUNS.isdisjoint(word.text for word in words[1:]):
        return [], False
    roots = find_items(words[1:])
    if len(roots) > _MAX_ROOTS:
        roots = [UNKNOWN]
    found: list[Sequence[Word]] = []
    elsewhere = False
    at = 1
    while at < len(words):
        if words[at].text in _RUNS:
            moves = words[at].text.endswith("dir")
            elsewhere |= moves
            inner, at = _command_end(words, at + 1)
            found.append([part for word in inner for part in _placeholder(word, [UNKNOWN] if moves else roots)])
        else:
            at += 1
    return found, elsewhere


def _options_end(args: Sequence[Word]) -> int:
    at = 0
    while at < len(args) and (args[at].text in ("-H", "-L", "-P", "-D") or args[at].text.startswith("-O")):
        at += 2 if args[at].text == "-D" else 1
    return at


def _expression(args: Sequence[Word]) -> int:
    """Where the expression begins."""
    at = _options_end(args)
    while at < len(args) and args[at].text[:1] not in ("-", "(", ")", "!", ",") and not args[at].may_be_option:
        at += 1
    return at


def _command_end(words: Sequence[Word], at: int) -> tuple[list[Word], int]:
    inner: list[Word] = []
    while at < len(words) and words[at].text != ";":
        if words[at].text == "+" and inner and inner[-1].text == "{}":
            break
        inner.append(words[at])
        at += 1
    return inner, at + 1


def _at(args: Sequence[Word], at: int) -> Word:
    return args[at] if at < len(args) else UNKNOWN


def _placeholder(word: Word, roots: Sequence[Word]) -> Iterator[Word]:
    if word.text == "{}":
        yield from roots
    elif "{}" in word.text:
        yield word.part(word.text.replace("{}", HOLE))
    else:
        yield word
