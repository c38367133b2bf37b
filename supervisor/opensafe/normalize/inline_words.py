"""Code of perl, ruby, php and lua: understood where none of the words stands in it by which one does more than compute.

A word counts wherever it stands, in a text too, so nothing is gained by quoting. Names that are put together and then
called need a word or a form of their own, which is on the lists. Files have to be literals.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from .literals import names_file
from .options import Use
from .word import Word


class _Language(NamedTuple):
    """What is a doubt; calls that open a file by a literal name; modules that may be used."""

    harmful: re.Pattern[str]
    files: re.Pattern[str]
    loads: re.Pattern[str]
    modules: re.Pattern[str]


def _words(words: str, forms: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w$@%])(?:{'|'.join(words.split())})(?![\w])|{forms}", re.DOTALL)


_LITERAL: Final = r"""(?:'(?P<{0}>[^'\\\n|<>&]+)'|"(?P<{0}_>[^"\\\n$#@|<>&]+)")"""
_FILE: Final = _LITERAL.format("file")
_OWN: Final = (
    r"(?!(?:socket|open3|open-uri|pty|fiddle|drb|webrick|httparty|faraday|rest-client|mechanize|erb|shell|childprocess"
    r"|expect|readline|reline|irb|debug|etc|syslog|rinda)\b|net[/-])\.{0,2}/?\w[\w./-]*"
)

_PERL: Final = _Language(
    _words(
        """system exec open opendir sysopen syscall fork kill socket eval require unlink rename rmdir mkdir chmod
        chown chroot chdir symlink link utime truncate dbmopen dump readlink qx setpgrp setpriority sysread
        syswrite DynaLoader Socket IO LWP Net IPC Inline Storable Safe Opcode Proc""",
        r"`|\bHTTP::|\bFile::(?:Path|Copy|Temp|Find)|&\s*[\{$]|->\s*[\{$]?\s*\$|->\s*(?:can|import)\b|\*\s*\{"
        r"|\$\s*\{\s*['\"]|@\s*\{\s*['\"]|\(\?\??\{|<(?!\$\w+>)[\$*~./\w]*[*?/.$][^>\s]*>|<<>>|\bdo\s*[^\s{]|\bdo\s+[^{]"
        r"|[^\s\w][a-df-z]*e[a-df-z]*e[a-z]*\s*(?:;|\}|\Z|\)|\bif\b|\bfor)|\$\^[IFXO]|__DATA__|(?<!&)&\w+"
        r"|@ARGV\s*=|(?:push|unshift|splice)\s*\(?\s*@ARGV|\$ARGV\s*=|\bARGV\s*,",
    ),
    re.compile(
        rf"""\bopen\s*\(?\s*(?:my\s+)?\$?\w+\s*,\s*["'](?P<mode><|>>?)(?:\s*:[\w():-]+)?["']\s*,\s*{_FILE}\s*\)?"""
    ),
    re.compile(r"""\buse\s+(?:lib\s+['"](?P<lib>[\w./-]+)['"]|(?P<module>[\w:]+)[^;]*|v?[\d.]+)\s*(?:;|\Z)"""),
    re.compile(
        r"strict|warnings|utf8|feature|integer|bigint|bignum|constant|List::Util|Scalar::Util|POSIX|Data::Dumper|JSON::PP"
        r"|JSON(?:::XS)?|Time::(?:Local|HiRes|Piece)|File::(?:Basename|Spec(?:::Functions)?)|Text::\w+|Encode|Cwd|Digest::\w+"
        r"|Getopt::Long|Math::\w+|open|version|diagnostics|Term::ANSIColor|Unicode::\w+|Test::More|YAML(?:::\w+)?"
    ),
)  # fmt: skip
_RUBY: Final = _Language(
    _words(
        """system exec spawn fork eval instance_eval class_eval module_eval instance_exec class_exec send __send__
        public_send method instance_method const_get define_method binding popen popen2 popen3 capture2
        capture2e capture3 Open3 PTY Socket TCPSocket TCPServer UDPSocket UNIXSocket Net HTTP OpenURI URI\\.open
        Process Kernel ObjectSpace Marshal ERB trap syscall autoload require require_relative open unlink rm
        rm_r rm_f rm_rf rmtree remove_dir remove_entry rmdir rename chmod chown symlink link truncate mkfifo
        mkdir mkdir_p FileUtils Fiddle DL Pathname Tempfile sysopen chroot chdir Ractor callcc sysread Gem
        Bundler Dir\\.rmdir File\\.delete IO\\.(?!readlines|read\\b|foreach)\\w+ write binwrite pack unpack""",
        r"`|%x|(?<![.\w])load\b|\$SAFE|\$LOAD_PATH|\$:",
    ),
    re.compile(
        rf"""\b(?:File|IO|CSV|YAML|JSON|Psych)\.(?P<call>read|readlines|foreach|load_file|safe_load_file|table|exist\?|size|open|binread|write)"""
        rf"""[\s(]\s*{_FILE}(?:\s*,\s*["'](?P<mode>rb?|[wa][b+]?)["'])?"""
    ),
    re.compile(r"""\brequire(?:_relative)?[\s(]\s*['"](?P<module>[\w./-]+)['"]\s*\)?|\b(?P<lib>\0)"""),
    re.compile(
        r"json|yaml|csv|set|date|time|pp|securerandom|digest(?:/\w+)?|bigdecimal(?:/util)?|prime|optparse|ostruct|benchmark"
        r"|stringio|uri|base64|zlib|psych|rexml/document|English|matrix|forwardable|singleton|observer|tsort|shellwords"
        r"|" + _OWN
    ),
)  # fmt: skip
_PHP: Final = _Language(
    _words(
        """exec shell_exec system passthru popen proc_open proc_nice pcntl_\\w+ posix_\\w+ eval assert
        create_function  call_user_func\\w* forward_static_call\\w*
        unserialize curl_\\w+ fsockopen pfsockopen stream_\\w+ socket_\\w+ mail dl putenv ini_set FFI
        Reflection\\w* SplFileObject fopen file_get_contents file_put_contents readfile file unlink rename rmdir
        mkdir copy symlink link chmod chown chgrp touch tempnam move_uploaded_file parse_ini_file show_source
        highlight_file php_strip_whitespace opendir ftp_\\w+ ssh2_\\w+ imap_\\w+ mysqli?\\w* PDO pg_\\w+
        SoapClient DOMDocument simplexml_load_file register_shutdown_function ob_start extract func_get_args
        Closure""",
        r"`|(?<![\w$'\"])(?:include|require)(?:_once)?\b|\$\$|\$\{|\$\w+\s*\(|\)\s*\(|\]\s*\(|new\s+\$|\$\w+::|::\s*\$|->\s*[\$\{]|['\"]\s*\(",
    ),
    re.compile(
        rf"""\b(?P<call>file_get_contents|file_put_contents|file|fopen|readfile|parse_ini_file|require|require_once|include)"""
        rf"""\s*\(?\s*{_FILE}(?:\s*,\s*["'](?P<mode>rb?|[wa][b+]?)["'])?"""
    ),
    re.compile(r"\b(?P<module>\0)(?P<lib>\0)"),
    re.compile(r"\0"),
)  # fmt: skip
_LUA: Final = _Language(
    _words(
        """_G _ENV load loadstring loadfile dofile require debug package getfenv setfenv setmetatable ffi jit
        socket os\\b(?!\\s*\\.\\s*(?:time|date|clock|getenv|difftime)\\b)
        io\\b(?!\\s*\\.\\s*(?:read|write|stdout|stdin|stderr)\\b)""",
        r"string\s*\.\s*dump|string\s*\.\s*char",
    ),
    re.compile(rf"""\bpackage\.path\s*=\s*["']\./[\w./?;-]+["']\s*\.\.\s*package\.path|\bio\s*\.\s*(?P<call>open|lines)\s*\(\s*{_FILE}(?:\s*,\s*["'](?P<mode>rb?|[wa][b+]?)["'])?"""),
    re.compile(r"""\brequire\s*\(?\s*['"](?P<module>[\w.-]+)['"]\s*\)?|\b(?P<lib>\0)"""),
    re.compile(r"cjson|lpeg|lfs|inspect|(?!socket|posix|ffi|luv|ssl|http|lanes|copas)[\w.-]+"),
)  # fmt: skip
_R: Final = _Language(
    _words(
        """system system2 shell shell\\.exec pipe url download\\.file socketConnection eval parse source sys\\.source
        do\\.call match\\.fun get mget unlink file\\.remove file\\.rename file\\.copy file\\.symlink dyn\\.load
        install\\.packages remotes devtools processx callr sys RCurl httr httr2 curl reticulate
        Rcpp environment globalenv""",
        r"\.Call|\.External|\.C\(|`",
    ),
    re.compile(
        r"\b(?P<call>write\.csv|write\.table|writeLines|saveRDS|save|ggsave|png|pdf|sink)"
        rf"""\((?:[^()"']*,\s*)?(?:\w+\s*=\s*)?{_FILE}"""
    ),
    re.compile(r"\b(?P<module>\0)(?P<lib>\0)"),
    re.compile(r"\0"),
)  # fmt: skip
_LANGUAGES: Final = {"perl": _PERL, "ruby": _RUBY, "php": _PHP, "lua": _LUA, "R": _R}
_PATHS: Final = re.compile(
    r"""['"](?P<path>(?:~|\.{0,2})/[^'"\s<>|;]{1,200}|\.[A-Za-z][\w.-]*|[\w-][\w./-]*\.[A-Za-z]\w{0,7}|[\w.-]+/[\w./-]+)['"]"""
)
#: `q(…)` of perl, `%q(…)` of ruby: a text between brackets.
_OTHER_QUOTES: Final = re.compile(
    r"(?<![\w$@%&>])(?:qq?\s*|%[qQ]?)(?:\(([^()'\\]*)\)|\{([^{}'\\]*)\}|\[([^\[\]'\\]*)\])"
)
_WRITING: Final = frozenset(
    {
        "file_put_contents",
        "ggsave",
        "pdf",
        "png",
        "save",
        "saveRDS",
        "sink",
        "write",
        "write.csv",
        "write.table",
        "writeLines",
    }
)
_RUNNING: Final = frozenset({"require", "require_once", "include"})


def word_uses(language: str, code: str) -> list[Use] | None:
    """The files that the code names; None where it may do more than compute, or is of another language."""
    kind = _LANGUAGES.get(language)
    if kind is None:
        return None
    if language in ("perl", "ruby"):
        code = _OTHER_QUOTES.sub(lambda found: f"'{found[1] or found[2] or found[3] or ''}'", code)
    uses: list[Use] = []
    for found in kind.loads.finditer(code):
        if found["module"] and not kind.modules.fullmatch(found["module"]):
            return None
        if found["lib"] and (".." in found["lib"] or found["lib"][0] == "/"):
            return None
    rest = kind.loads.sub(" ", code)
    uses += _files(kind, rest)
    rest = kind.files.sub("(", rest)
    if kind.harmful.search(rest):
        return None
    return uses + [Use("read", Word(found["path"])) for found in _PATHS.finditer(rest) if names_file(found["path"])]


def module_allowed(language: str, name: str) -> bool:
    """Whether a module may be loaded by an option (`-MList::Util=sum`, `-rjson`)."""
    kind = _LANGUAGES[language]
    return kind.modules.fullmatch(re.split(r"[=\s]", name.lstrip("-"))[0]) is not None


def _files(kind: _Language, code: str) -> Iterator[Use]:
    for found in kind.files.finditer(code):
        groups = found.groupdict()
        word = Word(found["file"] or found["file_"] or "")
        mode = groups.get("mode") or "r"
        if groups.get("call") in _RUNNING:
            yield Use("text", word)
        else:
            writes = mode[:1] in ("w", "a", ">") or groups.get("call") in _WRITING
            yield Use("write" if writes else "read", word)
