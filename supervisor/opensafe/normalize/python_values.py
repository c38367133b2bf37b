"""The texts that an expression of a Python program may stand for: put together out of literals, or not known.

Nothing is left out: a list, a choice or a text beyond the bounds is not known as a whole.
"""

import ast
import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

from .environment import GUEST_ENV
from .modelled import require
from .python_bindings import UNKNOWN, Bindings
from .word import HOLE, Word

_MAX_VALUES: Final = 64
_MAX_TEXT: Final = 1024
_MAX_DEPTH: Final = 12
#: Expressions looked at for one program: names that stand for names that stand for names would multiply.
_MAX_LOOKS: Final = 50_000
STR_METHODS: Final = frozenset(
    {"capitalize", "format", "join", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rstrip", "strip",
     "swapcase", "title", "upper", "zfill"}
)  # fmt: skip
JOINS: Final = frozenset({"os.path.join", "pathlib.Path", "pathlib.PurePath", "str", "os.fspath",
                           "os.path.abspath", "os.path.normpath", "os.path.realpath"})  # fmt: skip
_SAME: Final = frozenset({"absolute", "resolve", "as_posix", "__str__"})
_HOMES: Final = frozenset({"pathlib.Path.home", "pathlib.PosixPath.home"})
_CURRENT: Final = frozenset({"os.getcwd", "os.curdir", "pathlib.Path.cwd"})
_ENVIRONMENT: Final = frozenset({"os.environ.get", "os.getenv", "os.environ.setdefault"})
_NAMED_PARTS: Final = {"os.sep": "/", "os.path.sep": "/", "os.curdir": ".", "os.pardir": "..", "os.extsep": "."}
_LISTS: Final = frozenset({"enumerate", "filter", "list", "reversed", "set", "sorted", "tuple", "zip"})
_GLOBS: Final = frozenset({"glob.glob", "glob.iglob"})
_NOT_KNOWN: Final = (Word(HOLE),)
#: A width with which a format makes much out of little, written in it or taken from an argument.
_WIDE: Final = re.compile(r"%[^%a-zA-Z]*(?:[0-9]{4}|\*)|\{[^{}]*(?:[0-9]{4}|\{)")


class Values:
    """Asks the bindings of one program."""

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings
        self._looks = 0

    def of(self, node: ast.AST, depth: int = 0, *, each: bool = False) -> Sequence[Word]:
        """The texts that an expression may stand for, `HOLE` in them for what is not known; `each`: its items.

        Raises NotModelledError where that takes too long.
        """
        self._looks += 1
        require(self._looks <= _MAX_LOOKS)
        if depth > _MAX_DEPTH:
            return _NOT_KNOWN
        down = depth + 1
        match node:
            case ast.Constant(value=str(text)) if not each:
                return [Word(text)] if len(text) <= _MAX_TEXT else _NOT_KNOWN
            case ast.Constant(value=int()) if not each:
                return []  # a descriptor
            case ast.Name(id=name) if name in self._bindings.bound:
                choices = self._bindings.bound[name]
                bound = [word for value, items in choices for word in self.of(value, down, each=each or items)]
                return bound if 0 < len(bound) <= _MAX_VALUES else _NOT_KNOWN
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) if each:
                return self._items(parts, down)
            case ast.Dict(keys=keys) if each:
                return self._items([key or UNKNOWN for key in keys], down)
            case ast.IfExp(body=first, orelse=second):
                return [*self.of(first, down, each=each), *self.of(second, down, each=each)]
            case ast.JoinedStr(values=parts):
                return self._joined("", [self.of(part, down) for part in parts])
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self.of(value, down) or [Word(HOLE)]
            case ast.BinOp(left=left, op=ast.Add(), right=right) if not each:
                return self._joined("", [self.of(left, down), self.of(right, down)])
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._joined("/", [self.of(left, down), self.of(right, down)])
            case ast.BinOp(left=ast.Constant(value=str(form)), op=ast.Mod(), right=right) if not _WIDE.search(form):
                values = right.elts if isinstance(right, ast.Tuple) else [right]
                return self._applied(lambda *texts: form % texts, [self.of(value, down) for value in values])
            case ast.Attribute() if self._bindings.full(node) in _NAMED_PARTS:
                return [Word(_NAMED_PARTS[self._bindings.full(node)])]
            case ast.Subscript(value=of, slice=ast.Constant(value="HOME")) if self._bindings.full(of) == "os.environ":
                return [Word(GUEST_ENV["HOME"])]
            case ast.Attribute(value=base, attr="parent"):
                return [
                    word.part(word.text.rpartition("/")[0] or ".") if HOLE not in word.text else Word(HOLE)
                    for word in self.of(base, down)
                ]
            case ast.Call(func=function, args=args):
                return self._called(function, args, down, each=each)
            case ast.comprehension(iter=value):
                return self.of(value, down, each=True)
            case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value) | ast.SetComp(elt=value) if each:
                return self.of(value, down)
            case _:
                return _NOT_KNOWN

    def _items(self, parts: Sequence[ast.expr], down: int) -> Sequence[Word]:
        """All of them, or none: what is left out of a list would be taken for what does not happen."""
        if len(parts) > _MAX_VALUES:
            return _NOT_KNOWN
        return [word for part in parts for word in self.of(part, down)] or _NOT_KNOWN

    def _called(self, function: ast.expr, args: Sequence[ast.expr], down: int, *, each: bool) -> Sequence[Word]:
        full = self._bindings.full(function)
        short = function.attr if isinstance(function, ast.Attribute) else ""
        base = function.value if isinstance(function, ast.Attribute) else UNKNOWN
        if full in JOINS:
            if not args:
                return [Word(".")]
            return self._joined("/", [self.of(arg, down) for arg in args])
        if full in _HOMES or (full in _ENVIRONMENT and args and is_constant(args[0], value="HOME")):
            return [Word(GUEST_ENV["HOME"])]
        if full in _CURRENT:
            return [Word(".")]
        if full == "os.path.expanduser" and args:
            return [_at_home(word) for word in self.of(args[0], down)]
        if short == "expanduser":
            return [_at_home(word) for word in self.of(base, down)]
        if full in _LISTS and args and each:
            return self.of(args[0], down, each=True)
        if full in _GLOBS and args and each:
            return [_pattern(word) for word in self.of(args[0], down)]
        if full == "os.walk" and args:
            return self._joined("/", [self.of(args[0], down), _NOT_KNOWN])
        if short in ("glob", "rglob") and args and each:
            beneath = "/**/" if short == "rglob" else "/"
            joined = self._joined(beneath, [self.of(base, down), self.of(args[0], down)])
            return [_pattern(word) for word in joined]
        if short == "iterdir" and each:
            return [_pattern(word.part(f"{word.text}/*")) for word in self.of(base, down)]
        if short in _SAME:
            return self.of(base, down)
        if short == "joinpath":
            return self._joined("/", [self.of(base, down), *(self.of(arg, down) for arg in args)])
        if short in ("with_suffix", "with_name", "with_stem"):
            return [
                word.part(f"{word.text.rpartition('/')[0] or '.'}/{HOLE}") if HOLE not in word.text else word
                for word in self.of(base, down)
            ]
        if short == "join" and len(args) == 1 and isinstance(base, ast.Constant) and isinstance(base.value, str):
            parts = args[0].elts if isinstance(args[0], ast.List | ast.Tuple) else [UNKNOWN]
            return self._joined(base.value, [self.of(part, down) for part in parts])
        if short in STR_METHODS and not each:
            values = [self.of(base, down), *(self.of(arg, down) for arg in args)]
            return self._applied(lambda text, *rest: _made(text, short, rest), values)
        return _NOT_KNOWN

    def _joined(self, mark: str, parts: Sequence[Sequence[Word]]) -> Sequence[Word]:
        """Every choice of one value of each part, put together; behind `/` an absolute part begins anew."""
        if any(len(part) > _MAX_VALUES for part in parts) or not parts:
            return _NOT_KNOWN
        found: list[Word] = []
        for choice in product(*(part or [Word(HOLE)] for part in parts)):
            if len(found) >= _MAX_VALUES:
                return _NOT_KNOWN
            text = ""
            for at, word in enumerate(choice):
                if mark == "/" and word.text[:1] == "/":
                    text = word.text
                else:
                    joint = mark if at and not (mark == "/" and text.endswith("/")) else ""
                    text += joint + word.text
            if len(text) > _MAX_TEXT:
                return _NOT_KNOWN
            found.append(Word(text, any(word.glob for word in choice)))
        return found

    def _applied(self, function: Callable[..., str], parts: Sequence[Sequence[Word]]) -> Sequence[Word]:
        """What a method of texts makes of known ones."""
        found: list[Word] = []
        for choice in product(*parts):
            if len(found) >= _MAX_VALUES or any(HOLE in word.text or word.glob for word in choice):
                return _NOT_KNOWN
            try:
                text: Any = function(*(word.text for word in choice))
            except (TypeError, ValueError, KeyError, IndexError, AttributeError):
                return _NOT_KNOWN
            if not isinstance(text, str) or len(text) > _MAX_TEXT:
                return _NOT_KNOWN
            found.append(Word(text))
        return found or _NOT_KNOWN


def is_constant(node: ast.expr | None, *, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _made(text: str, method: str, given: Sequence[str]) -> str:
    """What the method makes of texts. Raises ValueError for more than that."""
    if method == "format" and _WIDE.search(text):
        raise ValueError
    made: str = getattr(text, method)(*given)
    return made


def _at_home(word: Word) -> Word:
    """`~` at the start is the home directory; another user's is not known."""
    if word.text[:1] != "~":
        return word
    return word.part(GUEST_ENV["HOME"] + word.text[1:] if word.text[1:2] in ("", "/") else HOLE)


def _pattern(word: Word) -> Word:
    """A pattern of glob's; `**` reaches any depth, as a name in the shell's patterns does not."""
    return Word(word.text.replace("/**/", "/"), glob=True) if HOLE not in word.text else word
