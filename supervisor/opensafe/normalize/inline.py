"""Inline code of interpreters, by a positive list: short programs that compute and print.

`python -c` is read with Python's own parser, the others token by token. Names of the workspace's own modules may be
used, as a script of the workspace may be run. Whatever is not on the list is a doubt; none is guessed harmless.
"""

import ast
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Final

from .options import Use
from .word import HOLE, Word

_MAX_CODE: Final = 4096
_PY_MODULES: Final = frozenset(
    [
        "__future__",
        "abc",
        "argparse",
        "array",
        "ast",
        "base64",
        "binascii",
        "bisect",
        "calendar",
        "cmath",
        "collections",
        "colorsys",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "errno",
        "fnmatch",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "graphlib",
        "html",
        "itertools",
        "json",
        "keyword",
        "locale",
        "math",
        "numbers",
        "operator",
        "pathlib",
        "platform",
        "pprint",
        "random",
        "re",
        "secrets",
        "shlex",
        "stat",
        "statistics",
        "string",
        "struct",
        "sys",
        "sysconfig",
        "textwrap",
        "time",
        "timeit",
        "token",
        "tokenize",
        "tomllib",
        "types",
        "typing",
        "unicodedata",
        "uuid",
        "zlib",
        "zoneinfo",
        "os",
    ]
)
_PY_MEMBERS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(members.split())
    for name, members in {
        "sys": """argv base_prefix byteorder executable exit flags float_info getrecursionlimit getsizeof
            implementation maxsize path platform prefix stderr stdin stdlib_module_names stdout version
            version_info""",
        "os": "cpu_count curdir environ getcwd getenv linesep listdir name path pathsep sep uname",
        "string": """Template ascii_letters ascii_lowercase ascii_uppercase capwords
            digits hexdigits printable punctuation""",
        "types": "SimpleNamespace",
        "operator": "add mul sub",
        "functools": "cache lru_cache reduce",
        "sysconfig": "get_config_var get_path get_paths get_platform",
        "timeit": "default_timer",
    }.items()
}
_PY_CALLS_BANNED: Final = frozenset(
    [
        "eval",
        "exec",
        "compile",
        "__import__",
        "getattr",
        "setattr",
        "delattr",
        "globals",
        "locals",
        "vars",
        "input",
        "breakpoint",
        "open",
        "memoryview",
        "help",
        "__builtins__",
        "__loader__",
        "__spec__",
        "super",
        "object",
    ]
)
_PY_ATTRIBUTES_BANNED: Final = frozenset(
    [
        "system",
        "popen",
        "spawn",
        "call",
        "check_call",
        "check_output",
        "run",
        "Popen",
        "exec",
        "eval",
        "open",
        "write_text",
        "write_bytes",
        "unlink",
        "rmdir",
        "mkdir",
        "rename",
        "replace_file",
        "touch",
        "symlink_to",
        "hardlink_to",
        "chmod",
        "connect",
        "urlopen",
        "fromfile",
        "tofile",
        "to_csv",
        "save",
        "read_text",
        "read_bytes",
        "gi_frame",
        "f_globals",
        "f_builtins",
        "get_type_hints",
        "ForwardRef",
        "get_field",
        "execv",
        "fork",
    ]
)
_PY_DUNDER: Final = frozenset({"__version__", "__file__", "__name__", "__doc__", "__path__", "__all__", "__len__"})

_JS_TOKEN: Final = re.compile(
    r"""(?P<space>\s+) | (?P<string>'(?:[^'\\\n]|\\[nt'"\\])*'|"(?:[^"\\\n]|\\[nt'"\\])*"|`[^`\\$]*`)
      | (?P<number>[0-9][\w.]*) | (?P<member>\.\s*[A-Za-z_][A-Za-z0-9_]*) | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<index>\[) | (?P<other>=>|[-+*%<>=!&|^~?:,;{}().\]])""",
    re.VERBOSE,
)  # fmt: skip
_JS_NAMES: Final = frozenset(
    [
        "console",
        "JSON",
        "Math",
        "Object",
        "Array",
        "Number",
        "String",
        "Boolean",
        "Date",
        "parseInt",
        "parseFloat",
        "undefined",
        "null",
        "true",
        "false",
        "NaN",
        "Infinity",
        "Intl",
        "RegExp",
        "URL",
        "URLSearchParams",
        "WeakMap",
        "Uint8Array",
        "TextEncoder",
        "TextDecoder",
        "encodeURIComponent",
        "decodeURIComponent",
        "structuredClone",
        "const",
        "let",
        "var",
        "if",
        "else",
        "for",
        "of",
        "in",
        "return",
        "typeof",
        "new",
        "Map",
        "Set",
        "isNaN",
        "Symbol",
        "BigInt",
        "throw",
        "Error",
        "process",
        "require",
    ]
)
_JS_BANNED: Final = frozenset(
    [
        "constructor",
        "prototype",
        "call",
        "apply",
        "bind",
        "mainModule",
        "binding",
        "dlopen",
        "require",
        "kill",
        "chdir",
        "env",
        "getBuiltinModule",
        "report",
        "stdin",
        "createRequire",
        "cache",
        "paths",
        "__proto__",
        "defineProperty",
        "setPrototypeOf",
        "getPrototypeOf",
        "fromEntries",
        "assign",
        "Function",
        "eval",
        "writeFileSync",
        "writeFile",
        "appendFileSync",
        "unlinkSync",
        "rmSync",
        "readFileSync",
        "readFile",
        "openSync",
        "createWriteStream",
    ]
)
_JS_REQUIRE: Final = re.compile(
    r"""\(\s*(['"])(?:(?:\./)+(?:[\w-]+/)*[\w.-]+|path|util|url|os|assert|querystring|semver|(?:node:)?(?:path|util|url|os))\1\s*\)"""
)
_JS_BEFORE_LISTS: Final = frozenset({"const", "let", "var", "of", "in", "return"})
_JS_PLACE: Final = re.compile(r"\s*[0-9]+\s*\]")
_JS_PROCESS: Final = frozenset(
    {"version", "versions", "argv", "platform", "arch", "cwd", "exit", "uptime", "memoryUsage", "pid"}
)

_PART: Final = r"(?:[^/\\\n@`$({]|\\[^\n]|\$(?=[/|)])|\$[0-9&]|\((?!\?[?{p])|\{[0-9]+(?:,[0-9]*)?\})*"
_PERL_CHANGE: Final = rf"s/{_PART}/{_PART}/[gimsx]*"
_PERL_VALUE: Final = (
    rf"(?:\$_|\$\.|\$0|\$[a-z]\w*|\$F\[-?[0-9]+\]|'[^'\\]*'|\"(?:[^\"\\$@]|\\[nt\"\\]|\$_|\$[0-9&]|\$[a-z]\w*+(?![\[{{(:>-]))*\"|[0-9]+"
    rf"|m?/{_PART}/[imsx]*|\$\]|\$\^V)"
)
_PERL_STATEMENT: Final = (
    rf"(?:print(?:\s+{_PERL_VALUE}(?:\s*[,.]\s*{_PERL_VALUE})*)?|next|last|{_PERL_CHANGE}"
    rf"|(?:tr|y)/{_PART}/{_PART}/[cdsr]*|\$[a-z]\w*\s*(?:\+\+|\+=\s*{_PERL_VALUE}|=\s*{_PERL_VALUE}))"
    rf"(?:\s+(?:if|unless)\s+(?:{_PERL_VALUE}|{_PERL_CHANGE})(?:\s*(?:==|<|>|<=|>=|\.\.)\s*{_PERL_VALUE})?)?"
)
_PERL_BLOCK: Final = rf"(?:BEGIN|END)\s*\{{\s*(?:{_PERL_STATEMENT}\s*;?\s*){{1,4}}\}}"
_PERL: Final = re.compile(rf"\s*+(?:(?:{_PERL_BLOCK}|{_PERL_STATEMENT})\s*+(?:;\s*+)?){{1,8}}")
_TRIVIAL: Final = re.compile(
    r"""\s*+(?:puts|print|echo|p|cat|console\.log)(?:\s*+\(|\s)\s*+(?:'[^'\\]*+'|"[^"\\$\#@{]*+"
    |[-+*/%^\d().][-+*/%^\s\d().]*+|RUBY_VERSION|PHP_VERSION|PHP_OS|_VERSION|R\.version\.string)\s*+\)?+\s*+;?+\s*+""",
    re.VERBOSE,
)  # fmt: skip


def code_uses(language: str, code: Word) -> Iterator[Use]:
    """A doubt unless all that the code does is on the list."""
    text = code.text
    if HOLE in text or code.glob:
        yield Use("doubt", Word("code that is not known before the run"))
    elif language == "python" and len(text) <= _MAX_CODE and (opened := _opens(text)) is not None:
        yield from opened
    elif language == "javascript" and len(text) <= _MAX_CODE and (named := _node_files(text)) is not None:
        yield from named
    elif len(text) > _MAX_CODE or not _LANGUAGES.get(language, _trivial)(text):
        yield Use("doubt", Word("code that may do more than compute"))


_FS: Final = r"""require\(\s*['"](?:node:)?fs['"]\s*\)"""
_FS_NAMED: Final = re.compile(rf"(?:const|let|var)\s+fs\s*=\s*{_FS}\s*;?")
_FS_CALL: Final = re.compile(
    rf"""(?:\bfs|{_FS})\.(readFileSync|existsSync|writeFileSync|readdirSync)\(\s*(['"])([\w./ -]+)\2\s*"""
    r"""(?:,\s*['"](?:utf-?8|ascii|latin1)['"]\s*)?(?=[,)])"""
)


def _node_files(code: str) -> list[Use] | None:
    """The files that node code reads and writes by a literal name; None where there are none or it does more."""
    found = list(_FS_CALL.finditer(code))
    if not found or not _javascript(_FS_CALL.sub("console.log(0", _FS_NAMED.sub("", code))):
        return None
    return [Use("write" if one[1] == "writeFileSync" else "read", Word(one[3])) for one in found]


def _trivial(code: str) -> bool:
    return len(code) < 512 and _TRIVIAL.fullmatch(code) is not None


def _perl(code: str) -> bool:
    return len(code) < 512 and _PERL.fullmatch(code) is not None


def _javascript(code: str) -> bool:
    declared = set(re.findall(r"\b(?:const|let|var)\s+([A-Za-z_]\w*)", code))
    declared |= set(re.findall(r"\b([A-Za-z_]\w*)\s*=>", code))
    for several in re.findall(r"\b(?:const|let|var)\s+[\[{]([\w\s,]+)[\]}]|\(([\w\s,]+)\)\s*=>", code):
        declared |= set(re.findall(r"[A-Za-z_]\w*", " ".join(several)))
    at, base, before = 0, "", ""
    while at < len(code):
        token = _JS_TOKEN.match(code, at)
        if token is None:
            return False
        at = token.end()
        if token["space"]:
            continue
        name, member = token["name"], (token["member"] or "").lstrip(". \t\n")
        if member and (member in _JS_BANNED or (base == "process" and member not in _JS_PROCESS)):
            return False
        unknown = name in _JS_BANNED - {"require"} or (name not in _JS_NAMES and name not in declared)
        if name and unknown and code[at : at + 1] != ":":
            return False
        if name == "require":
            found = _JS_REQUIRE.match(code, at)
            if found is None or ".." in found[0]:
                return False
            at = found.end()
        elif name == "process" and code[at : at + 1] != ".":
            return False
        looks_into = (
            token["index"]
            and before not in _JS_BEFORE_LISTS
            and (before[-1:].isalnum() or (before[-1:] or " ") in ")]'\"`_")
        )
        if looks_into and not _JS_PLACE.match(code, at):
            return False
        base = name or ""
        before = token[0]
    return True


_OPEN: Final = re.compile(r"""\bopen\(\s*(['"])([\w./ -]+)\1\s*(?:,\s*(['"])(rb?|rt|wb?|wt|ab?)\3\s*)?\)""")


_PATH_TEXT: Final = re.compile(
    r"""(?:\bpathlib\.)?\bPath\(\s*(['"])([\w./ -]+)\1\s*\)\.(read_text|read_bytes|write_text)\("""
)


def _opens(code: str) -> list[Use] | None:
    """The files that python code opens by a literal name, None where it opens none or does more than that."""
    found = list(_OPEN.finditer(code))
    paths = list(_PATH_TEXT.finditer(code))
    plain = _PATH_TEXT.sub(
        lambda one: "print(" if one[3][0] == "w" else "sys.stdin.read(", _OPEN.sub("sys.stdin", code)
    )
    if not (found or paths) or not _python(plain):
        return None
    uses = [Use("write" if (one[4] or "r")[0] in "wa" else "read", Word(one[2])) for one in found]
    return uses + [Use("write" if one[3][0] == "w" else "read", Word(one[2])) for one in paths]


def _python(code: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
        nodes = list(ast.walk(tree))
        named = sum(isinstance(node, ast.Name) and node.id in _PY_MEMBERS for node in nodes)
        looked_into = sum(
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _PY_MEMBERS
            for node in nodes
        )
        return named == looked_into and all(_py_allows(node) for node in nodes)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _py_allows(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(_py_module(alias.name) and (not alias.asname or _py_renamed(alias.name)) for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            if level or module is None or not _py_module(module):
                return False
            root = module.partition(".")[0]
            return all(_py_member(root, alias.name) for alias in names)
        case ast.Name(id=name):
            return name not in _PY_CALLS_BANNED and (not name.startswith("__") or name in _PY_DUNDER)
        case ast.Attribute(value=ast.Name(id=base), attr=attribute):
            return _py_member(base, attribute)
        case ast.Attribute(attr=attribute):
            return _py_member("", attribute)
        case ast.Constant(value=str(text)):
            return "__" not in text
        case ast.ClassDef() | ast.AsyncFunctionDef() | ast.Delete() | ast.Global() | ast.Nonlocal():
            return False
        case ast.Assign(targets=targets):
            return all(isinstance(target, ast.Name | ast.Tuple | ast.Subscript) for target in targets)
        case ast.FunctionDef(decorator_list=decorators):
            return not decorators
        case _:
            return True


_py_free: Final = _PY_MODULES - frozenset(_PY_MEMBERS)


def _py_renamed(name: str) -> bool:
    """Whether a module may be given another name: none whose members are listed one by one."""
    return name in _py_free or name.partition(".")[0] not in sys.stdlib_module_names


def _py_module(name: str) -> bool:
    """A harmless module of the library, or one that is none of the library's: the workspace's own."""
    root = name.partition(".")[0]
    if name == "os.path":
        return True
    return root in _PY_MODULES or (
        root not in sys.stdlib_module_names and not root.startswith("_") and root not in _PY_FOREIGN
    )


_PY_FOREIGN: Final = frozenset(
    {"requests", "httpx", "aiohttp", "urllib3", "paramiko", "sh", "pexpect", "plumbum", "fabric", "pip"}
)


def _py_member(base: str, name: str) -> bool:
    if name.startswith("_") and name not in _PY_DUNDER:
        return False
    if base in _PY_MEMBERS:
        return name in _PY_MEMBERS[base]
    if name in _PY_ATTRIBUTES_BANNED or name == "*":
        return False
    return name not in sys.stdlib_module_names or name in _PY_MODULES - {"os", "sys"} or name in ("path", "test")


_RUBY: Final = re.compile(
    r"""\s*(?:puts|print|p)[ (]\s*(?:[0-9]+(?:\.\.\.?[0-9]+)?|[()\[\],+*/%<>=!-]|\s|'[^'\\]*'|"[^"\\\#]*"|\(&?:[\w+*]+\)
    |\.(?:sum|sort|map|inspect|to_[sifa]|reverse|join|uniq|min|max|size|length|upcase|downcase|capitalize|first|last
    |reduce|inject|select|reject|zip|flatten|count|even\?|odd\?|round|abs|gcd|lcm|pow|digits|chars|split|strip)(?![\w(]*\w*\s*\{))+""",
    re.VERBOSE,
)


def _ruby(code: str) -> bool:
    return _trivial(code) or (len(code) < 512 and _RUBY.fullmatch(code) is not None)


_LANGUAGES: Final = {"ruby": _ruby, "python": _python, "javascript": _javascript, "perl": _perl}
