"""What the operands of well-known programs are: files read, written or deleted, and hosts.

The tables name what is needed to tell an operand from an option's value. They widen rather than narrow: an
option they don't know is taken to have no value, so its value counts as an operand. A program they don't know
reads every operand that looks like a path.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from .file_operands import FILE_PROGRAMS
from .interpreters import interpreter_uses, is_interpreter
from .network_operands import NETWORK_PROGRAMS
from .option_tables import FULL, Full
from .options import LOOKS_LIKE_PATH, ROLES, Use, path_like, read_options, split_options
from .word import HOLE, Word


class _Spec(NamedTuple):
    """Roles (letters of r w d h) of the first, last and other operands, and of the values of options."""

    rest: str
    first: str | None
    last: str | None
    options: dict[str, str]


def _spec(rest: str, *, first: str | None = None, last: str | None = None, **options: str) -> _Spec:
    """An option is named by its letter (a digitless keyword of one letter) or by its long name with `_` for `-`."""
    return _Spec(rest, first, last, {name.replace("_", "-"): roles for name, roles in options.items()})


_READ: Final = _spec("r")
_WRITE: Final = _spec("w")
_DELETE: Final = _spec("d")
_NOTHING: Final = _spec("")
_PATTERN: Final = _spec("r", first="", e="", f="r", A="", B="", C="", m="", regexp="", file="r", g="", t="")
_EDIT: Final = _spec("rw", c="")
_FETCH_WGET: Final = _spec(
    "h", O="w", o="w", a="w", P="w", i="r", e="", t="", T="", w="", Q="", U="", l="", A="", R="", D="", I="", X="",
    B="h", output_document="w", output_file="w", append_output="w", directory_prefix="w", input_file="r", execute="",
    tries="", timeout="", wait="", header="", post_data="", post_file="r", user="", password="", user_agent="",
    level="", accept="", reject="", body_data="", body_file="r", method="", load_cookies="r", save_cookies="w",
    ca_certificate="r", base="h", referer="", quota="", limit_rate="", cut_dirs="",
)  # fmt: skip

_FAMILIES: Final[dict[str, _Spec]] = {
    "cat tac nl od hexdump strings md5sum sha1sum sha224sum sha256sum sha384sum sha512sum "
    "b2sum cksum sum less more most bat batcat zcat bzcat xzcat zstdcat zless diff3 colordiff comm "
    "paste join rev fold fmt expand unexpand column pr readlink realpath ls dir vdir exa eza source . cut "
    "gv nm objdump readelf ldd lsattr getfacl getcap namei bc": _READ,
    "sponge": _WRITE,
    "sqlite3": _spec("r", first="rw"),
    "iconv ptx tidy": _spec("r", o="w", output="w", f="", t="", last="rw"),
    "xmllint": _spec("r", o="w", output="w", xpath="", encode="", pattern="", schema="r", relaxng="r", dtdvalid="r"),
    "file stat": _spec("r", c="", format="", printf="", m="r", F="", f="r"),
    "grep egrep fgrep zgrep rg ag ack pcregrep ugrep": _PATTERN,
    "setfacl setcap chattr": _spec("w", m="", x="", first=""),
    "rm rmdir unlink srm wipe trash": _DELETE,
    "shred": _spec("wd", n="", s=""),
    "vi vim nvim view nano emacs ed ex pico micro joe": _EDIT,
    "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 compress uncompress": _spec("rwd", S="w", T="", o="w"),
    "unzip": _spec("", first="r", d="w", x=""),
    "7z 7za 7zr rar unrar": _spec("r", first=""),
    "ar": _spec("rw", first=""),
    "hostname": _spec("", F="r", file="r"),
    "gcc cc g++ c++ clang clang++ ld as": _spec("r", o="w", I="r", L="r", l="", D="", x="", std=""),
    "rustc": _spec("r", o="w", L="r", l="", out_dir="w", edition="", crate_type="", crate_name="", emit="", cfg=""),
    "javac": _spec("r", d="w", cp="r", classpath="r", sourcepath="r", s="w", h="w", source="", target="", encoding=""),
    "patch": _spec("rw", i="r", p="", d="w", o="w"),
    "mount": _spec("w", first="r", o="", t=""),
    "umount swapoff swapon mkswap mkfs mkfs.ext4 mkfs.ext3 mkfs.ext2 mkfs.xfs mkfs.btrfs mkfs.vfat fdisk sfdisk parted "
    "gdisk sgdisk wipefs blkdiscard": _WRITE,
    "crontab": _spec("r", u=""),
    "wget wget2": _FETCH_WGET,
    "aria2c axel lynx links w3m elinks xh": _spec("h", o="w", d="w", i="r", output="w", dir="w"),
    "nslookup host whois ping ping6 traceroute tracepath mtr fping hping3 arping": _spec(
        "h", c="", i="", W="", w="", s="", t="", I="", m="", p="", h="h", type="", n="", R="", q="", f=""
    ),
    "nmap masscan rustscan zmap nikto": _spec("h", p="", oN="w", oX="w", oG="w", oA="w", iL="r", script=""),
    "mysql mariadb mysqldump mysqladmin psql pg_dump pg_restore createdb redis-cli ldapsearch mongosh": _spec(
        "", h="h", host="h", H="h", f="r", file="r", o="w", e="", c="", command="", U="", u="", d="", p="", P=""
    ),
    "ssh-keygen": _spec("r", f="rw", t="", b="", N="", C=""),
    "echo printf true false : test [ cd pushd popd dirs pwd export declare typeset local readonly unset set shopt exit "
    "return break continue shift read mapfile readarray getopts let trap wait kill jobs fg bg disown umask ulimit "
    "alias unalias type hash which whereis basename dirname seq sleep whoami id uname tr expr tput "
    "nproc uptime free top pgrep pkill yes logname tty groups printenv env history times factor": _NOTHING,
}  # fmt: skip
_SPECS: Final = {name: spec for names, spec in _FAMILIES.items() for name in names.split()}

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}://[^\s'\"<>()\[\]]*(?:\[[0-9a-fA-F:.]+\][^\s'\"<>()]*)?")
_SILENT: Final = frozenset(
    {":", "[", "ack", "ag", "basename", "cd", "cut", "declare", "dirname", "echo", "egrep", "export",
     "expr", "false", "fgrep", "grep", "jq", "local", "printf", "readonly", "rg", "sed", "test", "tr", "true",
     "typeset", "zgrep"}
)  # fmt: skip
_LABELS: Final = frozenset({"bazel", "bazelisk", "buck", "buck2", "pants", "please"})  # `//a:b` is no path
_SCRIPTED: Final = frozenset(
    {
        "clojure",
        "crystal",
        "expect",
        "iex",
        "irb",
        "jshell",
        "pry",
        "elixir",
        "groovy",
        "guile",
        "julia",
        "ocaml",
        "octave",
        "racket",
        "sbcl",
        "scala",
        "tclsh",
    }
)
_WRITES_PLACE: Final = frozenset({"cp", "mv", "ln", "install"})
_WRITES_BY_OPTION: Final = frozenset(
    {"c++", "cc", "clang", "clang++", "file", "g++", "gcc", "ld", "less", "rustc", "wget", "wget2",
     "xmllint", "yq", "zstd"}
)  # fmt: skip


def uses(program: str, args: Sequence[Word]) -> Iterator[Use]:
    """What `program` does with its arguments (argv without argv[0]). Total; never raises."""
    special = _SPECIAL.get(program)
    if special is not None:
        yield from special(args)
    elif program in FULL:
        yield from _by_table(program, FULL[program], args)
    elif program in _SPECS:
        yield from _by_spec(program, _SPECS[program], args)
    elif is_interpreter(program):
        yield from interpreter_uses(program, args)
    elif program in _SCRIPTED:
        yield from _script(args)
    else:
        yield from path_like([word for word in args if program not in _LABELS or word.text[:2] != "//"])
    if program not in _SILENT and program not in ("curl", "wget", "wget2"):
        yield from _urls(program, args)


def _by_table(program: str, full: Full, args: Sequence[Word]) -> Iterator[Use]:
    parsed = read_options(args, full.table)
    yield from parsed.uses(full.table)
    operands, names = parsed.operands, {name for name, _ in parsed.options}
    first, last = full.first, full.last
    for name, value in parsed.options:
        if value is None:
            continue
        if name in ("t", "target-directory") and program in _WRITES_PLACE:
            last = None
            yield from (use for operand in operands for use in _placed(value, operand))
        if name in ("S", "suffix") and program in _WRITES_PLACE and "/" in value.text:
            yield Use("doubt", Word("a suffix that names another place"))
        if program == "curl":
            yield from _curl_file(name, value)
    if program == "install" and not names.isdisjoint({"d", "directory"}):
        yield from (Use("write", operand) for operand in operands)
        return
    if program == "mktemp":
        yield from _mktemp(parsed.options, operands)
        return
    if program == "csplit" and names.isdisjoint({"f", "prefix"}):
        yield Use("write", Word("xx00"))
    if program == "ln" and not names.isdisjoint({"s", "symbolic"}) and names.isdisjoint({"r", "relative"}):
        place = next((value for name, value in parsed.options if name in ("t", "target-directory")), None)
        yield from _symbolic(operands, place)
        return
    if program == "chmod" and not names.isdisjoint(set("rwxXstugoa")):
        first = None
    yield from _in_order(program, full.rest, first, last, operands)


def _symbolic(operands: Sequence[Word], place: Word | None) -> Iterator[Use]:
    """`ln -s`: what the links point to lies beneath the directory of the link, not the current one."""
    links = operands[-1:] if place is None and len(operands) > 1 else [place or Word(".")]
    targets = operands[:-1] if place is None and len(operands) > 1 else operands
    for link in links:
        placed = place is not None or len(operands) == 1 or len(targets) > 1 or link.text.endswith("/")
        yield Use("write", link)
        name = link.text.rstrip("/").rpartition("/")[2]
        for target in targets:
            if placed or "." not in name.strip("."):
                yield from _placed(link, target)
            for directory in dict.fromkeys([link.text if placed else link.text.rstrip("/").rpartition("/")[0]]):
                free = target.text[:1] in ("/", "~") or not directory or HOLE in directory or HOLE in target.text
                yield Use("read", target if free else target.part(f"{directory}/{target.text}"))


def _mktemp(options: Sequence[tuple[str, Word | None]], operands: Sequence[Word]) -> Iterator[Use]:
    """The directory is what counts: the rest of the name is random."""
    place = next(
        (value for name, value in options if name in ("p", "tmpdir") and value is not None and value.text), None
    )
    if place is not None:
        yield Use("write", place)
    for operand in operands:
        yield Use("write", operand if place is None else operand.part(f"{place.text}/{operand.text}"))


def _in_order(program: str, rest: str, first: str | None, last: str | None, operands: Sequence[Word]) -> Iterator[Use]:
    """Operands by their place: first, last and the others."""
    final = len(operands) - 1
    for at, operand in enumerate(operands):
        roles = rest
        if at == 0 and first is not None:
            roles = first
        elif at == final and at > 0 and last is not None:
            roles = last
        yield from _roles(roles, operand, "http" if program in ("curl", "wget", "wget2") else None)
    if program in _WRITES_PLACE and last is not None and len(operands) > 1:
        place = operands[-1]
        for operand in operands[:-1]:
            if len(operands) > 2 or place.text.endswith("/") or "." not in place.text.rpartition("/")[2].strip("."):
                yield from _placed(place, operand)
    elif program == "ln" and len(operands) == 1:
        yield from _placed(Word("."), operands[0])


def _by_spec(program: str, spec: _Spec, args: Sequence[Word]) -> Iterator[Use]:
    operands, options = split_options(args, spec.options)
    first = spec.first
    for name, value in options:
        roles = spec.options.get(name)
        yield from _roles(roles if roles is not None else "", value)
        if roles is None and LOOKS_LIKE_PATH.match(value.text):
            yield Use("read", value)
            if program in _WRITES_BY_OPTION:
                yield Use("write", value)
        if name in ("e", "f", "regexp", "file", "from-file") and spec is not _READ and first == "":
            first = None
        if program in ("wget", "wget2") and name in ("e", "execute", "use-askpass"):
            yield Use("doubt", Word("a setting that is not looked into"))
    if program in _WRITES_BY_OPTION:
        yield from (
            Use("write", word.part(word.text[2:]))
            for word in args
            if re.match(r"-[A-Za-z][^=]*/", word.text) and word.text[1] not in "ILDW"
        )
    yield from _in_order(program, spec.rest, first, spec.last, operands)


def _placed(directory: Word, source: Word) -> Iterator[Use]:
    """The file that `source` becomes if `directory` is one."""
    name = source.text.rstrip("/").rpartition("/")[2]
    if name and directory.known and HOLE not in name:
        yield Use("write", Word(f"{directory.text}/{name}", directory.glob or source.glob))


def _roles(roles: str, word: Word, scheme: str | None = None) -> Iterator[Use]:
    for letter in roles:
        yield Use(ROLES[letter], word, scheme if letter == "h" else None)


def _curl_file(name: str, value: Word) -> Iterator[Use]:
    if name in ("resolve", "connect-to"):
        yield Use("host", Word(value.text.split(":", 2)[-1].split(",")[0]))
    elif name in (
        "d",
        "data",
        "data-binary",
        "data-urlencode",
        "data-ascii",
        "json",
        "F",
        "form",
        "H",
        "header",
        "url-query",
    ):
        found = re.search(r"(?:^|=)[@<](.+)", value.text, re.DOTALL)
        if found:
            yield Use("read", value.part(found[1].split(";")[0]))
    elif name in ("w", "write-out", "variable"):
        for found in re.finditer(r"(?:^|[^@]*)@([^@%]+)", value.text[:1024]):
            yield Use("read", value.part(found[1]))
    elif name in ("b", "cookie") and "=" not in value.text:
        yield Use("read", value)


def _urls(program: str, args: Sequence[Word]) -> Iterator[Use]:
    """Every argument that is a URL, or an option with one; all of the text of an interpreter's inline code."""
    anywhere = is_interpreter(program)
    for word in args:
        text = word.text
        if "://" not in text:
            continue
        for found in _URL.finditer(text):
            before = text[: found.start()]
            if found[0].endswith("://") and program not in NETWORK_PROGRAMS:
                continue  # a scheme alone, as in a pattern of grep
            if before == "--grep=":
                continue
            if anywhere or not before or before.endswith(("=", ",", "@")):
                yield Use("host", Word(found[0] if anywhere else text[found.start() :]))


_YQ: Final = _spec("r", first="", f="r", from_file="r", o="", output_format="", p="", input_format="")


def _yq(args: Sequence[Word]) -> Iterator[Use]:
    """Its first operand is an expression; with `-i` it writes its files."""
    inplace = any(re.fullmatch(r"-[a-zA-Z]*i[a-zA-Z]*|--in-?place", word.text) for word in args)
    for use in _by_spec("yq", _YQ, args):
        yield use
        if inplace and use.role == "read":
            yield use._replace(role="write")


def _zip(args: Sequence[Word]) -> Iterator[Use]:
    moves = any(re.fullmatch(r"-[a-zA-Z0-9]*m[a-zA-Z]*|--move", word.text) for word in args)
    for use in _by_spec("zip", _spec("r", first="w", x="", i=""), args):
        yield use
        if moves and use.role == "read":
            yield use._replace(role="delete")


def _ps(args: Sequence[Word]) -> Iterator[Use]:
    """By BSD's `e`, and `-E` of others, it shows the environment of every process."""
    for before, word in pairwise([Word(""), *args]):
        plain = re.fullmatch(r"[a-zA-Z]*e[a-zA-Z]*", word.text) and not re.fullmatch(r"-[oCUuGgpt]|--\w+", before.text)
        if plain or word.text == "-E":
            yield Use("read", Word("/proc/*/environ", glob=True))


_DATABASES: Final = {
    "shadow": "/etc/shadow", "gshadow": "/etc/gshadow", "passwd": "/etc/passwd", "group": "/etc/group"
}  # fmt: skip


def _getent(args: Sequence[Word]) -> Iterator[Use]:
    operands = [word for word in args if word.text[:1] != "-"]
    for word in operands[:1]:
        if word.text in _DATABASES:
            yield Use("read", Word(_DATABASES[word.text]))
        elif word.text in ("hosts", "ahosts", "ahostsv4", "ahostsv6", "networks"):
            yield from (Use("host", operand) for operand in operands[1:])


def _gpg(args: Sequence[Word]) -> Iterator[Use]:
    """What it takes out of its key ring is a secret, as the ring is."""
    if any(word.text.startswith("--export-secret") for word in args):
        yield Use("read", Word("/workspace/.gnupg/private-keys-v1.d"))
    yield from path_like(args)


def _script(args: Sequence[Word]) -> Iterator[Use]:
    """An interpreter whose code is not read: it may run a file of the workspace; other code is a doubt."""
    operands = [word for word in args if word.text[:1] != "-"]
    asks = [word.text for word in args] in (["--version"], ["-v"], ["-version"], ["--help"])
    if not asks and (not operands or any(re.match(r"-\w*[eEcipl]\b|--e|--c|--i", word.text) for word in args)):
        yield Use("doubt", Word("code that is not looked into"))
    yield from (Use("text", word) for word in operands[:1])
    yield from path_like(operands[1:])


def _ls(args: Sequence[Word]) -> Iterator[Use]:
    """With -d only names and dates are shown, so a pattern reads no more than its directory."""
    names_only = any(re.fullmatch(r"-[A-Za-z1]*d[A-Za-z1]*|--directory", word.text) for word in args)
    for use in _by_spec("ls", _SPECS["ls"], args):
        place, slash, name = use.word.text.rpartition("/")
        if names_only and use.role == "read" and use.word.glob and not re.search(r"\w", name):
            yield use._replace(word=Word(place + slash or "."))
        else:
            yield use


_SPECIAL: Final = {
    **FILE_PROGRAMS, **NETWORK_PROGRAMS, "getent": _getent, "gpg": _gpg, "gpg2": _gpg, "ls": _ls, "ps": _ps, "yq": _yq,
    "zip": _zip,
}  # fmt: skip
