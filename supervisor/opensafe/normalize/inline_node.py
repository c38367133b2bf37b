"""Code of `node -e` and of here-documents: the files that it names, and whether it may do more than use files.

Read token by token. Names of the modules that start programs or talk, of what runs text as code, and members by which
one reaches them are a doubt, as is a text that is put together where a member's or a module's name stands. All
literals that look like paths are read; written as well, where a file is written whose name is not a literal.
"""

import re
from collections.abc import Iterator
from typing import Final

from .literals import names_file
from .modelled import NotModelledError, require
from .name_lists import names
from .options import Use
from .word import Word

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/) | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
      | (?P<number>[0-9][\w.]*) | (?P<member>\??\.\s*\#?[A-Za-z_$][\w$]*) | (?P<name>[A-Za-z_$][\w$]*)
      | (?P<spread>\.\.\.) | (?P<index>\[) | (?P<tick>`) | (?P<slash>/)
      | (?P<other>=>|\+\+|--|[-+*%<>=!&|^~?:,;{}().\]#@])""",
    re.VERBOSE | re.DOTALL,
)  # fmt: skip
_TEMPLATE: Final = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*", re.DOTALL)
_REGEX: Final = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[dgimsuvy]*")
_ENDS_VALUE: Final = re.compile(r"[\w$)\]}'\"`]\Z|\+\+\Z|--\Z")
_BEFORE_PATTERN: Final = frozenset({"return", "typeof", "case", "in", "of", "else", "do", "void", "delete", "}"})
_WORKERS: Final = names(
    """AsyncFunction EventSource Function GeneratorFunction Proxy Reflect SharedWorker WebAssembly WebSocket Worker
    XMLHttpRequest arguments child_process cluster dgram diagnostics_channel dns eval exports fetch global
    globalThis http http2 https inspector module net repl root self tls trace_events v8 vm wasi window with
    worker_threads"""
)
_REACHES: Final = names(
    """_compile _linkedBinding _load __defineGetter__ __defineSetter__ __lookupGetter__ __proto__ binding callee
    caller child_process constructor createRequire dlopen eval execFile execFileSync execSync exec_ fork
    getBuiltinModule getPrototypeOf globalThis mainModule prototype runInContext runInNewContext runInThisContext
    setPrototypeOf spawn spawnSync symlink symlinkSync link linkSync wrapSafe"""
)
_PROCESS: Final = names(
    """arch argv argv0 config cpuUsage cwd emitWarning env execArgv execPath exit exitCode features hrtime
    memoryUsage nextTick off on once pid platform ppid release resourceUsage stderr stdin stdout title uptime
    version versions"""
)
_MODULES: Final = names(
    """assert assert/strict async_hooks buffer console constants crypto events fs fs/promises os path path/posix
    perf_hooks process punycode querystring readline stream stream/promises string_decoder test timers
    timers/promises url util zlib"""
)
_TALK: Final = names(
    """axios bent chokidar cross-spawn execa firebase follow-redirects fs-extra got grpc ioredis ky mongodb mongoose
    mysql mysql2 needle node-fetch nodemailer phin pg playwright puppeteer redis request shelljs socket.io-client
    ssh2 superagent undici vm2 ws zx"""
)
_BUILT_IN: Final = names(
    """child_process cluster dgram diagnostics_channel dns domain http http2 https inspector module net repl sys tls
    trace_events tty v8 vm wasi worker_threads"""
)
_REQUIRED: Final = re.compile(r"""\(\s*(['"`])([^'"`\\$]+)\1\s*\)""")
_IMPORTED: Final = re.compile(r"""\s*(?:[\w$*{}\s,]+?\bfrom\s*)?(['"])([^'"\\]+)\1""")
_RESOLVED: Final = re.compile(r"""\.resolve\(\s*(['"])[^'"\\]+\1""")
_LITERAL_ARGUMENT: Final = re.compile(r"""\(\s*(['"`])([^'"`\\$\n]+)\1\s*[,)]""")
_TWO_LITERALS: Final = re.compile(r"""\(\s*(['"`])([^'"`\\$\n]+)\1\s*,\s*(['"`])([^'"`\\$\n]+)\3\s*[,)]""")
_INDEX: Final = re.compile(r"""\s*(?:'[^'\\\n]*'|"[^"\\\n]*"|[^'"`\]]*?)\s*\]""")
_READS: Final = names(
    """access accessSync createReadStream exists existsSync lstat lstatSync opendirSync readFile readFileSync readdir
    readdirSync readlinkSync realpathSync stat statSync"""
)
_WRITES: Final = names(
    """appendFile appendFileSync createWriteStream mkdir mkdirSync truncateSync utimesSync writeFile writeFileSync"""
)
_DELETES: Final = names("rm rmSync rmdir rmdirSync unlink unlinkSync")
_COPIES: Final = names("copyFile copyFileSync cp cpSync rename renameSync")
_CHANGES: Final = names("""chmodSync chownSync chmod chown lchownSync mkdtempSync openSync open watch watchFile""")
#: Members of `fs` that say what they do by the place of their arguments, so that they have to be called by name.
_ACTS: Final = frozenset(
    name for name in _WRITES | _DELETES | _COPIES | _CHANGES | _REACHES if name.endswith("Sync") or name in _REACHES
) | {"unlink", "rmdir", "writeFile", "appendFile", "copyFile"}
_HIDES: Final = names("""fromCharCode fromCodePoint atob unescape decodeURIComponent decodeURI reverse""")
_ENCODED: Final = re.compile(r"""['"](?:base64(?:url)?|hex|latin1|binary)['"]|\\[xu][0-9a-fA-F{]""")


def node_uses(code: str) -> list[Use] | None:
    """The files that the code reads, writes and deletes; None where it may do more."""
    try:
        return list(dict.fromkeys(_Reader(code).uses()))
    except (NotModelledError, RecursionError):
        return None


class _Reader:
    def __init__(self, code: str) -> None:
        self._code = code
        self._literals: list[str] = []
        self._uses: list[Use] = []
        self._unknown: set[str] = set()

    def uses(self) -> Iterator[Use]:
        self._walk(0, "")
        hidden = bool(_ENCODED.search(self._code)) or any(re.search(rf"\b{name}\b", self._code) for name in _HIDES)
        require(not _ACTS.intersection(self._literals))
        require("delete" not in self._unknown and not (self._unknown and hidden))
        yield from self._uses
        for text in self._literals:
            if names_file(text):
                yield Use("read", Word(text))
                if "write" in self._unknown:
                    yield Use("write", Word(text))

    def _walk(self, at: int, until: str) -> int:
        """Token by token up to the end, or behind the brace that closes a template's expression."""
        code, before, depth = self._code, "", 0
        while at < len(code):
            token = require(_TOKEN.match(code, at))
            kind, text, start = token.lastgroup, token[0], at
            at = token.end()
            match kind:
                case "space":
                    continue
                case "string":
                    require(not (before == "+'" and text))  # a text put together of literals
                    self._literals.append(text[1:-1])
                    text = "'"
                case "tick":
                    at = self._template(at)
                    text = "'"
                case "slash":
                    value = _ENDS_VALUE.search(before) is not None and before not in _BEFORE_PATTERN
                    if not value:
                        pattern = require(_REGEX.match(code, start))
                        at, text = pattern.end(), ")"
                case "name":
                    at = self._name(text, before, at)
                case "member":
                    self._member(text.lstrip("?. \t\n#"), at)
                case "index":
                    self._index(before, at)
                case _:
                    depth += (text == "{") - (text == "}")
                    if until and depth < 0:
                        return at
            before = "+'" if text == "+" and before in ("'", "+'") else text
        require(not until)
        return at

    def _template(self, at: int) -> int:
        """Behind a template's end; the expressions in it are walked."""
        start = at
        while True:
            at = require(_TEMPLATE.match(self._code, at)).end()
            if self._code.startswith("${", at):
                at = self._walk(at + 2, "}")
            else:
                require(self._code[at : at + 1] == "`")
                self._literals.append(self._code[start:at])
                return at + 1

    def _name(self, name: str, before: str, at: int) -> int:
        code = self._code
        if re.match(r"\s*:(?!:)", code[at : at + 8]) and before in ("{", ","):
            taken = name in _ACTS | _DELETES | _COPIES and re.match(r"\s*:\s*[A-Za-z_$]+\s*[,}]", code[at : at + 64])
            require(not (taken and re.search(r"\}\s*=", code[at:])))
            return at  # the key of an object
        require(name not in _WORKERS)
        if before in ("{", ",") and re.match(r"\s+as\b", code[at : at + 8]):
            require(name not in _ACTS | _DELETES | _COPIES)
        if re.match(r"\s*\(", code[at:]) and before not in ("function", "async") and name != "constructor":
            self._member(name, at)
        elif name in _ACTS and name != "constructor" and not (before in ("{", ",") and re.match(r"\s*[,}]", code[at:])):
            raise NotModelledError
        if name == "process":
            member = require(re.match(r"\s*\??\.\s*(\w+)", code[at:]))
            require(member[1] in _PROCESS)
        elif name == "require":
            if _RESOLVED.match(code, at):
                return at
            found = require(_REQUIRED.match(code, at))
            self._module(found[2])
            return found.end()
        elif name == "import" and before != ".":
            if code.startswith(".meta", at):
                return at
            found = require(_REQUIRED.match(code, at) or _IMPORTED.match(code, at))
            imported = set(re.findall(r"[\w$]+", found[0].partition(found[1])[0]))
            require(not imported & (_REACHES | _WORKERS))
            require(not ("as" in imported and imported & (_ACTS | _DELETES | _COPIES)))
            self._module(found[2])
            return found.end()
        return at

    def _module(self, name: str) -> None:
        if name.startswith((".", "/")):
            self._uses.append(Use("text", Word(name if "." in name.rpartition("/")[2] else name + ".js")))
            return
        bare = name.removeprefix("node:")
        root = "/".join(bare.split("/")[: 2 if bare[:1] == "@" else 1])
        require(":" not in bare and root not in _TALK and root not in _BUILT_IN)
        require(not name.startswith("node:") or bare in _MODULES)

    def _member(self, name: str, at: int) -> None:
        require(name not in _REACHES and name not in _CHANGES)
        require(name not in _ACTS or re.match(r"\s*\??\.?\s*\(", self._code[at:]))
        if name in _READS:
            self._path("read", at)
        elif name in _WRITES:
            self._path("write", at)
        elif name in _DELETES and re.match(r"\s*\(", self._code[at:]):
            self._path("delete", at)
        elif name in _COPIES and re.match(r"\s*\(", self._code[at:]):
            found = _TWO_LITERALS.match(self._code, at)
            if found is None:
                self._unknown |= {"delete"} if name.startswith("rename") else {"write"}
                return
            self._uses.append(Use("delete" if name.startswith("rename") else "read", Word(found[2])))
            self._uses.append(Use("write", Word(found[4])))

    def _path(self, role: str, at: int) -> None:
        found = _LITERAL_ARGUMENT.match(self._code, at)
        if found is None:
            self._unknown.add(role)
        elif found[2] not in ("/dev/stdin", "utf8"):
            self._uses.append(Use(role, Word(found[2])))  # type: ignore[arg-type]  # the roles above

    def _index(self, before: str, at: int) -> None:
        """`x[…]` looks up a member: a literal or a name, and no text that is put together."""
        if not _ENDS_VALUE.search(before) or before in _BEFORE_PATTERN or before in ("const", "let", "var", "return"):
            return
        inside = require(_INDEX.match(self._code, at))[0].rstrip(" ]").strip()
        require(inside[1:-1] not in _REACHES | _WORKERS if inside[:1] in ("'", '"') else "`" not in inside)
