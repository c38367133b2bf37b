"""Code of `python -c` and of here-documents: the files that it names, and whether it may do more than use files.

Read with Python's own parser, node by node. What starts programs, reaches the network, runs text as code or looks
behind objects is a doubt, as is every module of the library that is on no list. All texts that the code puts together
out of literals are looked at, wherever they stand, so a path need not be followed to where it is opened.
"""

import ast
import re
import sys
import warnings
from typing import Final

from .literals import names_file
from .modelled import NotModelledError, require
from .options import Role, Use
from .python_bindings import UNKNOWN, Bindings, is_listed
from .python_names import (
    ATTRIBUTES,
    BANNED_ATTRIBUTES,
    BANNED_NAMES,
    DECODERS,
    FRAMES,
    HARMLESS_NAMES,
    MEMBERS,
    MODULES,
    SPECIAL,
)
from .python_values import JOINS, STR_METHODS, Values, is_constant
from .word import HOLE, Word

_DUNDER: Final = re.compile(r"__\w+?__")
_OPENERS: Final = frozenset({"open", "io.open", "gzip.open", "bz2.open", "lzma.open", "codecs.open", "tokenize.open",
                             "zipfile.ZipFile", "tarfile.open", "io.FileIO"})  # fmt: skip
#: Names that only stand where they are called: what they are bound to otherwise is not followed.
_ONLY_CALLED: Final = frozenset({"delattr", "getattr", "hasattr", "open", "setattr"})
_RUN_TEXT: Final = {
    "timeit": frozenset({"default_timer", "repeat", "timeit"}),
    "cProfile": frozenset({"Profile", "run"}),
    "profile": frozenset({"Profile", "run"}),
    "doctest": frozenset({"ELLIPSIS", "NORMALIZE_WHITESPACE", "testfile", "testmod"}),
}
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
        self._bindings = Bindings()
        self._values = Values(self._bindings)
        self._unknown: dict[Role, bool] = {}
        self._uses: dict[Use, None] = {}
        self._literals: dict[str, None] = {}
        self._decodes = False

    def uses(self) -> list[Use]:
        for node in self._nodes:
            self._imported(node)
            self._bindings.bind(node)
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

    def _imported(self, node: ast.AST) -> None:
        """Raises where a module gives away what may not be had of it."""
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                self._member(node.module, alias.name)

    # What is allowed

    def _check(self, node: ast.AST, bases: set[int]) -> None:
        match node:
            case ast.Name(id=name):
                require(name not in BANNED_NAMES and (not name.startswith("__") or name in HARMLESS_NAMES))
                module = self._bindings.modules.get(name)
                if module is not None and module in MEMBERS:
                    require(id(node) in bases)
            case ast.Attribute(value=base, attr=attribute):
                self._member(self._bindings.full(base), attribute)
                require(attribute != "__class__" or self._only_named(node))
                self._decodes |= attribute in DECODERS
            case ast.Constant(value=str(text)):
                require({*_DUNDER.findall(text)} <= HARMLESS_NAMES)
                require(text not in BANNED_ATTRIBUTES or "inspect" not in self._bindings.modules.values())
                self._literal(text)
            case ast.Subscript(value=base, ctx=ast.Store()) if self._bindings.full(base) == "sys.path":
                raise NotModelledError
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                require(key not in BANNED_ATTRIBUTES)
            case ast.Slice(step=ast.expr()):
                self._decodes = True
            case ast.JoinedStr() | ast.BinOp(op=ast.Add() | ast.Mod() | ast.Div() | ast.Mult()):
                for word in self._values.of(node):
                    if HOLE not in word.text:
                        self._literal(word.text)
            case ast.Call():
                self._call(node)
            case _:
                pass

    def _uncalled(self, node: ast.Name | ast.Attribute) -> None:
        """Raises where a function that uses files is kept for later, so that its arguments are not seen."""
        full = self._bindings.full(node)
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
        full, args = self._bindings.full(node.func), node.args
        short = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        base = node.func.value if isinstance(node.func, ast.Attribute) else UNKNOWN
        self._decodes |= full in DECODERS
        safe = {keyword.arg: keyword.value for keyword in node.keywords}
        require("allow_pickle" not in safe or is_constant(safe["allow_pickle"], value=False))
        require(full != "torch.load" or is_constant(safe.get("weights_only"), value=True))
        require(
            short not in ("run", "runctx", "runcall")
            or not {"cProfile", "profile"} & set(self._bindings.modules.values())
            or full in ("cProfile.run", "profile.run")
        )
        require(
            short not in ("eval", "query")
            or not any(_CALLS.search(word.text) for arg in args for word in self._values.of(arg))
        )
        if full.startswith("pathlib.") and short in (*_METHODS, "open") and args:
            base, args, full = args[0], args[1:], ""
        if full in ("getattr", "hasattr", "setattr", "delattr"):
            name = args[1] if len(args) > 1 else None
            require(full == "hasattr" or (isinstance(name, ast.Constant) and isinstance(name.value, str)))
            if isinstance(name, ast.Constant):
                self._member(self._bindings.full(args[0]), str(name.value))
        elif full in ("timeit.timeit", "timeit.repeat", "cProfile.run", "profile.run"):
            for value in [*args, *(keyword.value for keyword in node.keywords)]:
                self._code(value)
        elif full in ("importlib.import_module", "runpy.run_module"):
            require(args and isinstance(args[0], ast.Constant) and is_listed(str(args[0].value)))
        elif full == "importlib.util.spec_from_file_location":
            require(len(args) > 1)
            self._use("text", args[1])
        elif full.startswith("sys.path."):
            for value in args:
                for word in self._values.of(value):
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
            if own is not None and not (full and full.partition(".")[0] in self._bindings.modules.values()):
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
        if short in STR_METHODS or full in JOINS:
            for word in self._values.of(node):
                if HOLE not in word.text:
                    self._literal(word.text)

    def _code(self, value: ast.expr) -> None:
        """A text that is run as code, or a function that is called."""
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            inner = python_uses(value.value)
            require(inner is not None)
            self._uses.update(dict.fromkeys(inner or ()))
        else:
            require(isinstance(value, ast.Lambda | ast.Constant) or self._bindings.full(value) in self._functions())

    def _functions(self) -> set[str]:
        defined = {node.name for node in self._nodes if isinstance(node, ast.FunctionDef)}
        return defined | set(self._bindings.modules.values())

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
        for word in self._values.of(path):
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
        bound = self._bindings.bound.get(path.id, []) if isinstance(path, ast.Name) else []
        for node in [part for tree in (path, *(value for value, _ in bound)) for part in ast.walk(tree)]:
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                require(any(HOLE in word.text for word in self._values.of(node.value)))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
                empty = isinstance(node.func.value, ast.Constant) and node.func.value.value in ("", "/")
                require(not empty or all(HOLE not in word.text for word in self._values.of(node)))


#: Stands for the operands behind the code, which it writes by `sys.argv`.
ARGUMENTS: Final = Word("sys.argv" + HOLE)
_LOOKS_BEHIND: Final = frozenset(
    {"__base__", "__bases__", "__builtins__", "__closure__", "__code__", "__dict__", "__func__", "__getattribute__",
     "__globals__", "__import__", "__loader__", "__mro__", "__reduce__", "__reduce_ex__", "__self__", "__spec__",
     "__subclasses__", "__wrapped__", "__getattr__"}
)  # fmt: skip


_CALLS: Final = re.compile(r"@\w+\.|\w\(")


def _plain_mode(node: ast.expr) -> bool:
    """A literal mode without set-user-id, set-group-id and sticky bit."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value < 0o1000


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)
