"""Code of `python -c` and of here-documents: the files that it names, and whether it may do more than use files.

Read with Python's own parser, node by node. What starts programs, reaches the network, runs text as code or looks
behind objects is a doubt, as is every module of the library that is on no list. All texts that the code puts together
out of literals are looked at, wherever they stand, so a path need not be followed to where it is opened.
"""

import ast
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

from .environment import GUEST_ENV
from .literals import names_file
from .modelled import NotModelledError, require
from .options import Role, Use
from .python_names import (
    ATTRIBUTES,
    BANNED_ATTRIBUTES,
    BANNED_NAMES,
    DECODERS,
    FOREIGN,
    FRAMES,
    HARMLESS_NAMES,
    MEMBERS,
    MODULES,
    SPECIAL,
    SUBMODULES,
)
from .word import HOLE, Word

_MAX_VALUES: Final = 64
_MAX_TEXT: Final = 1024
_MAX_DEPTH: Final = 12
_DUNDER: Final = re.compile(r"__\w+?__")
_STR_METHODS: Final = frozenset(
    {"capitalize", "format", "join", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rstrip", "strip",
     "swapcase", "title", "upper", "zfill"}
)  # fmt: skip
_OPENERS: Final = frozenset({"open", "io.open", "gzip.open", "bz2.open", "lzma.open", "codecs.open", "tokenize.open",
                             "zipfile.ZipFile", "tarfile.open", "io.FileIO"})  # fmt: skip
_JOINS: Final = frozenset({"os.path.join", "pathlib.Path", "pathlib.PurePath", "str", "os.fspath",
                           "os.path.abspath", "os.path.normpath", "os.path.realpath"})  # fmt: skip
_SAME: Final = frozenset({"absolute", "resolve", "as_posix", "__str__"})
_HOMES: Final = frozenset({"pathlib.Path.home", "pathlib.PosixPath.home"})
_CURRENT: Final = frozenset({"os.getcwd", "os.curdir", "pathlib.Path.cwd"})
_ENVIRONMENT: Final = frozenset({"os.environ.get", "os.getenv", "os.environ.setdefault"})
_NAMED_PARTS: Final = {"os.sep": "/", "os.path.sep": "/", "os.curdir": ".", "os.pardir": "..", "os.extsep": "."}
#: Names that only stand where they are called: what they are bound to otherwise is not followed.
_ONLY_CALLED: Final = frozenset({"delattr", "getattr", "hasattr", "open", "setattr"})
_RUN_TEXT: Final = {
    "timeit": frozenset({"default_timer", "repeat", "timeit"}),
    "cProfile": frozenset({"Profile", "run"}),
    "profile": frozenset({"Profile", "run"}),
    "doctest": frozenset({"ELLIPSIS", "NORMALIZE_WHITESPACE", "testfile", "testmod"}),
}
_LISTS: Final = frozenset({"enumerate", "filter", "list", "reversed", "set", "sorted", "tuple", "zip"})
_GLOBS: Final = frozenset({"glob.glob", "glob.iglob"})
#: Functions by their full name: the roles of their arguments, in order.
_FILES: Final[dict[str, tuple[Role | None, ...]]] = {
    "os.remove": ("delete",), "os.unlink": ("delete",), "os.rmdir": ("delete",), "os.removedirs": ("delete",),
    "shutil.rmtree": ("delete",), "os.rename": ("delete", "write"), "os.replace": ("delete", "write"),
    "os.renames": ("delete", "write"), "shutil.move": ("delete", "write"), "os.mkdir": ("write",),
    "os.makedirs": ("write",), "os.utime": ("write",), "os.truncate": ("write",), "os.listdir": ("read",),
    "os.scandir": ("read",), "os.walk": ("read",), "shutil.copy": ("read", "write"),
    "shutil.copy2": ("read", "write"), "shutil.copyfile": ("read", "write"), "shutil.copytree": ("read", "write"),
    "shutil.copymode": (None, "write"), "shutil.make_archive": ("write", None, "read"),
    "sqlite3.connect": ("write",), "runpy.run_path": ("text",), "numpy.savetxt": ("write",),
}  # fmt: skip
#: Methods of paths and tables, whatever they are called on: the role of the object, that of the first argument.
_METHODS: Final[dict[str, tuple[Role | None, Role | None]]] = {
    "read_text": ("read", None), "read_bytes": ("read", None), "write_text": ("write", None),
    "write_bytes": ("write", None), "unlink": ("delete", None), "rmdir": ("delete", None), "mkdir": ("write", None),
    "touch": ("write", None), "rename": ("delete", "write"), "iterdir": ("read", None),
    "to_csv": (None, "write"), "to_json": (None, "write"), "to_excel": (None, "write"), "to_parquet": (None, "write"),
    "to_feather": (None, "write"), "to_hdf": (None, "write"), "to_xml": (None, "write"), "to_stata": (None, "write"),
    "save": (None, "write"), "savez": (None, "write"), "savez_compressed": (None, "write"),
    "read_csv": (None, "read"), "read_json": (None, "read"), "read_table": (None, "read"), "read_html": (None, "read"),
    "read_xml": (None, "read"), "read_excel": (None, "read"), "read_parquet": (None, "read"),
    "loadtxt": (None, "read"), "genfromtxt": (None, "read"),
    "to_html": (None, "write"), "to_markdown": (None, "write"), "savefig": (None, "write"), "tofile": (None, "write"),
}  # fmt: skip
#: Methods that delete, change or write: nothing else may be done with them but to call them.
_ACTS: Final = frozenset({"rmdir", "unlink", "write_bytes", "write_text"})


def python_uses(code: str) -> list[Use] | None:
    """The files that the code reads, writes and deletes; None where it may do more, or is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
        return _Reader(tree).uses()
    except (SyntaxError, ValueError, RecursionError, MemoryError, NotModelledError):
        return None


class _Reader:
    """One program: its modules by the names they go by, what its names are bound to, the files it uses."""

    def __init__(self, tree: ast.AST) -> None:
        self._nodes = list(ast.walk(tree))
        self._modules: dict[str, str] = {}
        self._bound: dict[str, list[tuple[ast.expr, bool]]] = {}
        self._unknown: dict[Role, bool] = {}
        self._uses: dict[Use, None] = {}
        self._literals: dict[str, None] = {}
        self._decodes = False

    def uses(self) -> list[Use]:
        for node in self._nodes:
            self._bind(node)
        bases = {id(node.value) for node in self._nodes if isinstance(node, ast.Attribute)}
        called = {id(node.func) for node in self._nodes if isinstance(node, ast.Call)}
        for node in self._nodes:
            self._check(node, bases)
            if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called:
                self._uncalled(node)
        require(not self._unknown.get("delete") and not self._unknown.get("text"))
        require(not (self._unknown and self._decodes))
        found = [*self._uses]
        for text in self._literals:
            found.append(Use("read", Word(text)))
            if self._unknown.get("write"):
                found.append(Use("write", Word(text)))
        if self._unknown.get("write") and "argv" in {n.attr for n in self._nodes if isinstance(n, ast.Attribute)}:
            found.append(Use("write", ARGUMENTS))
        return found

    # What names stand for

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    require(_module(alias.name))
                    self._modules[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            case ast.ImportFrom(module=module, names=names, level=0) if module is not None:
                require(_module(module))
                for alias in names:
                    require(alias.name != "*")
                    full = f"{module}.{alias.name}"
                    self._member(module, alias.name)
                    self._modules[alias.asname or alias.name] = full
            case ast.ImportFrom():
                raise NotModelledError
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._target(target, value, each=False)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._target(target, value, each=False)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                self._bound.setdefault(name, []).append((value, False))
                self._bound[name].append((_UNKNOWN_EXPR, False))
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                self._target(target, value, each=True)
            case ast.comprehension(target=target, iter=value):
                self._target(target, value, each=True)
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                self._target(target, value, each=False)
            case _:
                pass

    def _target(self, target: ast.expr, value: ast.expr, *, each: bool) -> None:
        match target:
            case ast.Name(id=name):
                self._bound.setdefault(name, []).append((value, each))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for at, part in enumerate(parts):
                    one: ast.expr = _UNKNOWN_EXPR
                    if not each and isinstance(value, ast.Tuple) and len(value.elts) == len(parts):
                        one = value.elts[at]
                    elif each and isinstance(value, ast.Call) and self._full(value.func) == "os.walk" and at == 0:
                        one = value
                    elif each and isinstance(value, ast.Call) and self._full(value.func) == "enumerate" and at == 1:
                        one = value.args[0] if value.args else _UNKNOWN_EXPR
                    self._target(part, one, each=each)
            case ast.Starred(value=inner):
                self._target(inner, _UNKNOWN_EXPR, each=each)
            case _:
                pass

    def _full(self, node: ast.expr) -> str:
        """The name of a function with its module's: `p` for `os.path` in `p.join` is `os.path.join`; "" for others."""
        match node:
            case ast.Name(id=name):
                return self._modules.get(name, name if name not in self._bound else "")
            case ast.Attribute(value=base, attr=attribute):
                full = self._full(base)
                return f"{full}.{attribute}" if full else ""
            case _:
                return ""

    # What is allowed

    def _check(self, node: ast.AST, bases: set[int]) -> None:
        match node:
            case ast.Name(id=name):
                require(name not in BANNED_NAMES and (not name.startswith("__") or name in HARMLESS_NAMES))
                module = self._modules.get(name)
                if module is not None and module in MEMBERS:
                    require(id(node) in bases)
            case ast.Attribute(value=base, attr=attribute):
                self._member(self._full(base), attribute)
                require(attribute != "__class__" or self._only_named(node))
                self._decodes |= attribute in DECODERS
            case ast.Constant(value=str(text)):
                require({*_DUNDER.findall(text)} <= HARMLESS_NAMES)
                require(text not in BANNED_ATTRIBUTES or "inspect" not in self._modules.values())
                self._literal(text)
            case ast.Subscript(value=base, ctx=ast.Store()) if self._full(base) == "sys.path":
                raise NotModelledError
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                require(key not in BANNED_ATTRIBUTES)
            case ast.Slice(step=ast.expr()):
                self._decodes = True
            case ast.JoinedStr() | ast.BinOp(op=ast.Add() | ast.Mod() | ast.Div() | ast.Mult()):
                for word in self._values(node):
                    if HOLE not in word.text:
                        self._literal(word.text)
            case ast.Call():
                self._call(node)
            case _:
                pass

    def _uncalled(self, node: ast.Name | ast.Attribute) -> None:
        """Raises where a function that uses files is kept for later, so that its arguments are not seen."""
        full = self._full(node)
        require(full not in _ONLY_CALLED and full not in _OPENERS and full != "os.chmod")
        require("delete" not in _FILES.get(full, ()) and "write" not in _FILES.get(full, ()))
        require(not (isinstance(node, ast.Attribute) and node.attr in _ACTS))
        if full == "sys.path" and isinstance(node.ctx, ast.Store):
            raise NotModelledError

    def _only_named(self, node: ast.Attribute) -> bool:
        """`x.__class__` is for its name alone."""
        return any(
            isinstance(other, ast.Attribute) and other.value is node and other.attr in ("__name__", "__qualname__")
            for other in self._nodes
        )

    def _member(self, base: str, name: str) -> None:
        """Raises unless `name` may be looked up in `base` (a full name, "" for what is none)."""
        if base in MEMBERS:
            require(name in MEMBERS[base])
            return
        require(name not in BANNED_ATTRIBUTES and name not in FRAMES)
        require(base not in _RUN_TEXT or name in _RUN_TEXT[base])
        if name.startswith("_"):
            require(name in HARMLESS_NAMES or base.partition(".")[0] not in sys.stdlib_module_names)
            require(not name.startswith("__") or name in SPECIAL or not name.endswith("__") or name in HARMLESS_NAMES)
            require(name not in _LOOKS_BEHIND and name.lstrip("_") not in sys.stdlib_module_names)
        elif name in sys.stdlib_module_names:
            require(name in MODULES or name in ATTRIBUTES)
            require(name not in MEMBERS or f"{base}.{name}" in MODULES)

    def _literal(self, text: str) -> None:
        if names_file(text):
            self._literals.setdefault(text)
        if re.match(r"(?:https?|ftps?|s3|gs|hdfs)://", text):
            self._uses[Use("host", Word(text))] = None

    # Calls

    def _call(self, node: ast.Call) -> None:
        full, args = self._full(node.func), node.args
        short = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        base = node.func.value if isinstance(node.func, ast.Attribute) else _UNKNOWN_EXPR
        self._decodes |= full in DECODERS
        safe = {keyword.arg: keyword.value for keyword in node.keywords}
        require("allow_pickle" not in safe or _is(safe["allow_pickle"], value=False))
        require(full != "torch.load" or _is(safe.get("weights_only"), value=True))
        require(
            short not in ("run", "runctx", "runcall")
            or not {"cProfile", "profile"} & set(self._modules.values())
            or full in ("cProfile.run", "profile.run")
        )
        require(
            short not in ("eval", "query")
            or not any(_CALLS.search(word.text) for arg in args for word in self._values(arg))
        )
        if full.startswith("pathlib.") and short in (*_METHODS, "open") and args:
            base, args, full = args[0], args[1:], ""
        if full in ("getattr", "hasattr", "setattr", "delattr"):
            name = args[1] if len(args) > 1 else None
            require(full == "hasattr" or (isinstance(name, ast.Constant) and isinstance(name.value, str)))
            if isinstance(name, ast.Constant):
                self._member(self._full(args[0]), str(name.value))
        elif full in ("timeit.timeit", "timeit.repeat", "cProfile.run", "profile.run"):
            for value in [*args, *(keyword.value for keyword in node.keywords)]:
                self._code(value)
        elif full in ("importlib.import_module", "runpy.run_module"):
            require(args and isinstance(args[0], ast.Constant) and _module(str(args[0].value)))
        elif full == "importlib.util.spec_from_file_location":
            require(len(args) > 1)
            self._use("text", args[1])
        elif full.startswith("sys.path."):
            for value in args:
                for word in self._values(value):
                    require(".." not in word.text and re.match(r"/workspace(/|$)|[^/~]|$", word.text))
        elif full in _OPENERS:
            self._opened(args[0] if args else _keyword(node, "file"), args[1] if len(args) > 1 else None, node)
        elif full in _FILES:
            for role, value in zip(_FILES[full], args, strict=False):
                if role is not None:
                    self._use(role, value)
        elif full == "os.chmod":
            require(len(args) > 1 and _plain_mode(args[1]))
            self._use("write", args[0])
        elif short in _METHODS:
            own, first = _METHODS[short]
            if own is not None and not (full and full.partition(".")[0] in self._modules.values()):
                self._use(own, base)
            if first is not None and args:
                self._use(first, args[0])
        elif short == "open" and not full:
            self._opened(base, args[0] if args else None, node)
        elif short == "replace" and len(args) == 1:
            self._use("delete", base)
            self._use("write", args[0])
        elif short == "chmod":
            require(args and _plain_mode(args[0]))
            self._use("write", base)
        if short in _STR_METHODS or full in _JOINS:
            for word in self._values(node):
                if HOLE not in word.text:
                    self._literal(word.text)

    def _code(self, value: ast.expr) -> None:
        """A text that is run as code, or a function that is called."""
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            inner = python_uses(value.value)
            require(inner is not None)
            self._uses.update(dict.fromkeys(inner or ()))
        else:
            require(isinstance(value, ast.Lambda | ast.Constant) or self._full(value) in self._functions())

    def _functions(self) -> set[str]:
        return {node.name for node in self._nodes if isinstance(node, ast.FunctionDef)} | set(self._modules.values())

    def _opened(self, path: ast.expr | None, mode: ast.expr | None, node: ast.Call) -> None:
        mode = mode or _keyword(node, "mode")
        if path is None:
            return
        letters = "r" if mode is None else "w"
        if isinstance(mode, ast.Constant) and isinstance(mode.value, str):
            letters = mode.value
        self._use("write" if set(letters) & set("wax+") else "read", path)

    def _use(self, role: Role, path: ast.expr) -> None:
        """Account for one path: known, known but for a name in it, or not at all."""
        self._put_together(path)
        for word in self._values(path):
            text = word.text
            if HOLE not in text:
                if text and text != ":memory:":
                    self._uses[Use(role, word)] = None
            elif re.search(r"(?:\A|/)\.[^./][^/]*\0|(?:\A|/)\.\0", text):
                raise NotModelledError  # the rest of a hidden file's name
            elif text[0] != HOLE and "/" in text.partition(HOLE)[0] and role != "text":
                self._uses[Use(role, Word(text.replace(HOLE, "*"), glob=True))] = None
            else:
                self._unknown[role] = True

    def _put_together(self, path: ast.expr) -> None:
        """Raises where a path is made of the letters of a text, so that it stands nowhere as it is."""
        bound = self._bound.get(path.id, []) if isinstance(path, ast.Name) else []
        for node in [part for tree in (path, *(value for value, _ in bound)) for part in ast.walk(tree)]:
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                require(any(HOLE in word.text for word in self._values(node.value)))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
                empty = isinstance(node.func.value, ast.Constant) and node.func.value.value in ("", "/")
                require(not empty or all(HOLE not in word.text for word in self._values(node)))

    # Values

    def _values(self, node: ast.AST, depth: int = 0, *, each: bool = False) -> Sequence[Word]:
        """The texts that an expression may stand for, `HOLE` in them for what is not known; `each`: its items."""
        if depth > _MAX_DEPTH:
            return _NOT_KNOWN
        down = depth + 1
        match node:
            case ast.Constant(value=str(text)) if not each:
                return [Word(text)] if len(text) <= _MAX_TEXT else _NOT_KNOWN
            case ast.Constant(value=int()) if not each:
                return []  # a descriptor
            case ast.Name(id=name) if name in self._bound:
                bound = [value for one, of in self._bound[name] for value in self._values(one, down, each=each or of)]
                return bound if 0 < len(bound) <= _MAX_VALUES else _NOT_KNOWN
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) if each:
                return self._items(parts, down)
            case ast.Dict(keys=keys) if each:
                return self._items([key or _UNKNOWN_EXPR for key in keys], down)
            case ast.IfExp(body=first, orelse=second):
                return [*self._values(first, down, each=each), *self._values(second, down, each=each)]
            case ast.JoinedStr(values=parts):
                return self._joined("", [self._values(part, down) for part in parts])
            case ast.FormattedValue(value=value):
                return self._values(value, down) or [Word(HOLE)]
            case ast.BinOp(left=left, op=ast.Add(), right=right) if not each:
                return self._joined("", [self._values(left, down), self._values(right, down)])
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._joined("/", [self._values(left, down), self._values(right, down)])
            case ast.BinOp(left=ast.Constant(value=str(form)), op=ast.Mod(), right=right):
                values = right.elts if isinstance(right, ast.Tuple) else [right]
                return self._applied(lambda *texts: form % texts, [self._values(value, down) for value in values])
            case ast.Attribute() if self._full(node) in _NAMED_PARTS:
                return [Word(_NAMED_PARTS[self._full(node)])]
            case ast.Subscript(value=base, slice=ast.Constant(value="HOME")) if self._full(base) == "os.environ":
                return [Word(GUEST_ENV["HOME"])]
            case ast.Attribute(value=base, attr="parent"):
                return [
                    word.part(word.text.rpartition("/")[0] or ".") if HOLE not in word.text else Word(HOLE)
                    for word in self._values(base, down)
                ]
            case ast.Call(func=function, args=args):
                return self._called(function, args, down, each=each)
            case ast.comprehension(iter=value):
                return self._values(value, down, each=True)
            case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value) | ast.SetComp(elt=value) if each:
                return self._values(value, down)
            case _:
                return _NOT_KNOWN

    def _items(self, parts: Sequence[ast.expr], down: int) -> Sequence[Word]:
        """All of them, or none: what is left out of a list would be taken for what does not happen."""
        if len(parts) > _MAX_VALUES:
            return _NOT_KNOWN
        return [word for part in parts for word in self._values(part, down)] or _NOT_KNOWN

    def _called(self, function: ast.expr, args: Sequence[ast.expr], down: int, *, each: bool) -> Sequence[Word]:
        full = self._full(function)
        short = function.attr if isinstance(function, ast.Attribute) else ""
        base = function.value if isinstance(function, ast.Attribute) else _UNKNOWN_EXPR
        if full in _JOINS:
            if not args:
                return [Word(".")]
            return self._joined("/", [self._values(arg, down) for arg in args])
        if full in _HOMES or (full in _ENVIRONMENT and args and _is(args[0], value="HOME")):
            return [Word(GUEST_ENV["HOME"])]
        if full in _CURRENT:
            return [Word(".")]
        if full == "os.path.expanduser" and args:
            return [_at_home(word) for word in self._values(args[0], down)]
        if short == "expanduser":
            return [_at_home(word) for word in self._values(base, down)]
        if full in _LISTS and args and each:
            return self._values(args[0], down, each=True)
        if full in _GLOBS and args and each:
            return [_pattern(word) for word in self._values(args[0], down)]
        if full == "os.walk" and args:
            return self._joined("/", [self._values(args[0], down), _NOT_KNOWN])
        if short in ("glob", "rglob") and args and each:
            beneath = "/**/" if short == "rglob" else "/"
            joined = self._joined(beneath, [self._values(base, down), self._values(args[0], down)])
            return [_pattern(word) for word in joined]
        if short == "iterdir" and each:
            return [_pattern(word.part(f"{word.text}/*")) for word in self._values(base, down)]
        if short in _SAME:
            return self._values(base, down)
        if short == "joinpath":
            return self._joined("/", [self._values(base, down), *(self._values(arg, down) for arg in args)])
        if short in ("with_suffix", "with_name", "with_stem"):
            return [
                word.part(f"{word.text.rpartition('/')[0] or '.'}/{HOLE}") if HOLE not in word.text else word
                for word in self._values(base, down)
            ]
        if short == "join" and len(args) == 1 and isinstance(base, ast.Constant) and isinstance(base.value, str):
            parts = args[0].elts if isinstance(args[0], ast.List | ast.Tuple) else [_UNKNOWN_EXPR]
            return self._joined(base.value, [self._values(part, down) for part in parts])
        if short in _STR_METHODS and not each:
            values = [self._values(base, down), *(self._values(arg, down) for arg in args)]
            return self._applied(lambda text, *rest: getattr(text, short)(*rest), values)
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


#: Stands for the operands behind the code, which it writes by `sys.argv`.
ARGUMENTS: Final = Word("sys.argv" + HOLE)
_UNKNOWN_EXPR: Final = ast.Constant(value=None)
_NOT_KNOWN: Final = (Word(HOLE),)
_LOOKS_BEHIND: Final = frozenset(
    {"__base__", "__bases__", "__builtins__", "__closure__", "__code__", "__dict__", "__func__", "__getattribute__",
     "__globals__", "__import__", "__loader__", "__mro__", "__reduce__", "__reduce_ex__", "__self__", "__spec__",
     "__subclasses__", "__wrapped__", "__getattr__"}
)  # fmt: skip


_CALLS: Final = re.compile(r"@\w+\.|\w\(")


def _is(node: ast.expr | None, *, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _at_home(word: Word) -> Word:
    """`~` at the start is the home directory; another user's is not known."""
    if word.text[:1] != "~":
        return word
    return word.part(GUEST_ENV["HOME"] + word.text[1:] if word.text[1:2] in ("", "/") else HOLE)


def _pattern(word: Word) -> Word:
    """A pattern of glob's; `**` reaches any depth, as a name in the shell's patterns does not."""
    return Word(word.text.replace("/**/", "/"), glob=True) if HOLE not in word.text else word


def _plain_mode(node: ast.expr) -> bool:
    """A literal mode without set-user-id, set-group-id and sticky bit."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value < 0o1000


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)


def _module(name: str) -> bool:
    """A harmless module of the library, or one that is none of the library's: the workspace's own."""
    root = name.partition(".")[0]
    if root not in sys.stdlib_module_names:
        return not root.startswith("_") and root not in FOREIGN
    return name in MODULES or (root in MODULES and name not in SUBMODULES and root not in MEMBERS) or name in MEMBERS
