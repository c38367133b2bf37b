"""Interpreters: which argument is code, which the program's file, and what a module does that runs as a program."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from .inline import code_uses
from .inline_python import ARGUMENTS
from .inline_words import module_allowed
from .options import Table, Use, path_like, read_options, table
from .word import HOLE, Word


class _Interpreter(NamedTuple):
    language: str
    options: Table
    code: tuple[str, ...]


_PYTHON: Final = _Interpreter(
    "python",
    table("-bBdEhIOPqsSuvVx? i! c: m: W: X: check-hash-based-pycs: version help help-env help-xoptions help-all"),
    ("c",),
)
_PERL: Final = _Interpreter(
    "perl", table("-nplawWtTucUXfSgsvh0123456789 i= e: E: M: m: I: x= d=! D= C= F: V= version help"), ("e", "E")
)
_NODE: Final = _Interpreter(
    "javascript",
    table(
        "-vhc i! e: p: r: version help check interactive! eval: print: require: import: loader: "
        "experimental-loader: test test-only test-reporter: test-name-pattern: watch enable-source-maps "
        "no-warnings trace-warnings max-old-space-size: input-type: experimental-vm-modules no-deprecation "
        "trace-deprecation"
    ),
    ("e", "p", "eval", "print"),
)  # fmt: skip
_RUBY: Final = _Interpreter("ruby", table("-nplaswcvW S! e: I: r: i= 0= F: C:! x= E: version help"), ("e",))
_PHP: Final = _Interpreter(
    "php", table("-nlvmiq r: f:t d:! c:! B:! R:! E:! F:! S:h! t: version help"), ("r", "B", "R", "E")
)
_LUA: Final = _Interpreter("lua", table("-vEW e: l: i!"), ("e",))
_R: Final = _Interpreter("R", table("e: vanilla no-save no-restore slave quiet version help"), ("e",))

_INTERPRETERS: Final[dict[str, _Interpreter]] = {
    "perl": _PERL, "node": _NODE, "nodejs": _NODE, "ruby": _RUBY, "php": _PHP, "lua": _LUA, "Rscript": _R,
}  # fmt: skip
#: Modules that translate or trace what node runs.
_PRELOADS: Final = re.compile(
    r"ts-node(?:/register(?:/\w[\w-]*)?|/esm)?|tsx(?:/\w+)?|esm|dotenv/config|source-map-support/register|@babel/register"
    r"|@swc(?:-node)?/register(?:/\w+)?|esbuild-register|tsconfig-paths/register|sucrase/register|global-jsdom/register"
)
_PYTHONS: Final = re.compile(r"(?:python|pypy)(?:[23](?:\.[0-9]+)?)?")
_LUAS: Final = re.compile(r"(?:lua|luajit)(?:5\.[0-9])?")
_STOPS: Final = {"c", "m"}
#: Modules that are programs of their own: they install, serve or talk.
_PROGRAMS: Final = frozenset(
    {"SimpleHTTPServer", "awscli", "easy_install", "ensurepip", "ftplib", "http.server", "httpie", "imaplib", "nntplib",
     "pip", "pipx", "poetry", "poplib", "pyftpdlib", "smtpd", "smtplib", "socketserver", "telnetlib", "twisted",
     "urllib.request", "uv", "wsgiref.simple_server", "xmlrpc.client", "xmlrpc.server"}
)  # fmt: skip


def is_interpreter(program: str) -> bool:
    """Whether the program takes code or a script as an argument."""
    return _of(program) is not None


@lru_cache(64)  # a few names, each asked for several times; the longest is of 128 KiB
def _of(program: str) -> _Interpreter | None:
    if _PYTHONS.fullmatch(program):
        return _PYTHON
    return _LUA if _LUAS.fullmatch(program) else _INTERPRETERS.get(program)


def interpreter_uses(program: str, args: Sequence[Word]) -> Iterator[Use]:
    """What an interpreter does with its arguments (without argv[0]); nothing for another program."""
    kind = _of(program)
    if kind is None:
        return
    own, rest, module = _cut(kind, args)
    parsed = read_options(own, kind.options, first_ends=True)
    yield from parsed.uses(kind.options)
    codes = [value for name, value in parsed.options if name in kind.code and value is not None]
    yield from _loaded(kind, parsed.options)
    operands = [*parsed.operands, *rest]
    for code in codes:
        for use in code_uses(kind.language, code):
            yield from [use] if use.word is not ARGUMENTS else (use._replace(word=word) for word in operands)
    if module is not None:
        yield from _module(module, operands)
        return
    if not codes and operands and operands[0].text != "-":
        yield Use("text", operands.pop(0))
    if kind is _PERL and any(name in ("n", "p") for name, _ in parsed.options):
        for word in operands:
            yield Use("read", word)
            if re.search(r"[<>|]", word.text):
                yield Use("doubt", Word("an operand that perl opens as a command"))
    if any(name == "i" and value is not None for name, value in parsed.options):
        yield from (Use("write", word) for word in operands)
    yield from path_like(operands)


def _loaded(kind: _Interpreter, options: Sequence[tuple[str, Word | None]]) -> Iterator[Use]:
    """Modules that options load (`-MList::Util=sum`, `-rjson`), and where they are looked for (`-Ilib`)."""
    if kind is _NODE:
        for name, value in options:
            if value is not None and name in ("r", "require", "import", "loader", "experimental-loader"):
                own = re.fullmatch(r"(?:\.{1,2}/|/workspace/)[\w./-]+", value.text)
                if own:
                    yield Use("text", value)
                elif not _PRELOADS.fullmatch(value.text):
                    yield Use("doubt", Word(f"the option {name} loads a module that may start programs"))
        return
    if kind not in (_PERL, _RUBY, _LUA):
        return
    for name, value in options:
        if value is None or name not in ("M", "m", "I", "r", "l") or (kind is _PERL and name == "l"):
            continue
        if name == "I":
            if not all(re.fullmatch(r"(?:/workspace/)?(?!/)[\w./-]+", place) for place in value.text.split(":")):
                yield Use("doubt", Word("code of another place"))
            yield Use("read", value)
            if ".." in value.text:
                yield Use("doubt", Word("code of another place"))
        elif not module_allowed(kind.language, value.text):
            yield Use("doubt", Word(f"the option -{name} loads a module that may start programs"))


def reads_here(program: str, args: Sequence[Word]) -> bool:
    """Whether a here-document is the program of python or node, which `here_uses` reads: no argument names another."""
    kind = _of(program)
    if kind is None or kind not in (_PYTHON, _NODE):
        return False
    operands = [word for word in args if word.text[:1] != "-" or word.text == "-"]
    given = re.compile(r"-\w*[cm]" if kind is _PYTHON else r"-\w*[ep]|--eval|--print")
    return (not operands and not any(given.match(word.text) for word in args)) or operands[:1] == [Word("-")]


def here_uses(program: str, args: Sequence[Word], text: Word) -> Iterator[Use]:
    """What python or node does with a here-document: its program where no argument names one, else data."""
    kind = _of(program)
    if kind is not None and reads_here(program, args) and text.fixed() is not None:
        operands = [word for word in args if word.text[:1] != "-" or word.text == "-"]
        for use in code_uses(kind.language, text):
            if use.word is not ARGUMENTS:
                yield use
            else:
                yield from (use._replace(word=word) for word in operands[1:])


def file_uses(program: str, text: str) -> Iterator[Use]:
    """What the interpreter does with a file whose content is known."""
    kind = _of(program)
    if kind is not None:
        yield from (use for use in code_uses(kind.language, Word(text)) if use.word is not ARGUMENTS)


def module_of(program: str, words: Sequence[Word]) -> Sequence[Word] | None:
    """What `python -m NAME …` runs, where NAME is a program of its own as well."""
    if _of(program) is not _PYTHON:
        return None
    _, rest, module = _cut(_PYTHON, words[1:])
    if module is not None and module.text in _PROGRAMS:
        return [module, *rest]
    return None


def _cut(kind: _Interpreter, args: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word], Word | None]:
    """The interpreter's own options, what follows `-c CODE` or `-m NAME` (no option of its own any more), and NAME."""
    if kind is not _PYTHON:
        return args, (), None
    at = 0
    while at < len(args):
        text = args[at].text
        if text[:1] != "-" or text in ("-", "--") or text[:2] == "--":
            if text[:2] != "--" or text == "--":
                break
            at += 1
            continue
        for place, letter in enumerate(text[1:], 2):
            if letter in _STOPS:
                glued = text[place:]
                end = at + 1 if glued else at + 2
                if letter == "c":
                    return args[:end], args[end:], None
                name = args[at].part(glued) if glued else (args[at + 1] if at + 1 < len(args) else Word(""))
                before = [args[at].part(text[: place - 1])] if place > 2 else []
                return [*args[:at], *before], args[end:], name
            if letter in "WX":
                at += 0 if text[place:] else 1
                break
        at += 1
    return args, (), None


_TIMEIT: Final = table("-hpvr n: r: s: u: number: repeat: setup: process verbose unit: help")
_PROFILE: Final = table("o:w outfile:w s: sort: m: help")
_WRITING: Final = {"zipfile": ("-c", "--create", "-e", "--extract"), "tarfile": ("-c", "--create", "-e", "--extract")}
_READING: Final = frozenset(
    {"ast", "dis", "tokenize", "py_compile", "compileall", "doctest", "tabnanny", "pyclbr", "base64", "gzip"}
)  # fmt: skip
_CODE_MODULES: Final = frozenset({"pdb", "trace", "code", "idlelib", "runpy", "webbrowser", "smtpd", "asyncio"})


def _module(module: Word, args: Sequence[Word]) -> Iterator[Use]:
    name = module.text
    if HOLE in name:
        yield Use("doubt", Word("a module that is not known before the run"))
    elif name in _CODE_MODULES:
        yield Use("doubt", Word(f"the module {name} runs what it reads"))
    elif name in _WRITING:
        writes = any(word.text in _WRITING[name] or word.may_be_option for word in args)
        for word in args:
            if word.text[:1] != "-":
                yield Use("read", word)
                if writes:
                    yield Use("write", word)
            elif not re.fullmatch(r"-[lctev]|--(list|create|test|extract|verbose|filter)", word.text):
                yield Use("doubt", Word("an option that is not known"))
    elif name == "venv":
        yield from (Use("write", word) for word in args if word.text[:1] != "-")
    elif name == "json.tool":
        files = [word for word in args if word.text[:1] != "-"]
        yield from (Use("read", word) for word in files[:1])
        yield from (Use("write", word) for word in files[1:])
    elif name == "timeit":
        parsed = read_options(args, _TIMEIT, first_ends=True)
        yield from parsed.uses(_TIMEIT)
        codes = [value for option, value in parsed.options if option in ("s", "setup") and value is not None]
        for code in [*codes, *parsed.operands]:
            yield from code_uses("python", code)
    elif name in ("cProfile", "profile"):
        parsed = read_options(args, _PROFILE, first_ends=True)
        yield from parsed.uses(_PROFILE)
        yield from (Use("text", word) for word in parsed.operands[:1])
    else:
        yield from path_like(args)
        for word in args:
            if word.text[:1] != "-" and name in _READING:
                yield Use("read", word)
