"""What the operands of well-known programs are: files read, written or deleted, and hosts.

The tables name what is needed to tell an operand from an option's value. They widen rather than narrow: an
option they don't know is taken to have no value, so its value counts as an operand. A program they don't know
reads every operand that looks like a path.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from .file_operands import FILE_PROGRAMS
from .network_operands import NETWORK_PROGRAMS
from .options import LOOKS_LIKE_PATH, Role, Use, path_like, split_options
from .words import HOLE, Word

_ROLES: Final[dict[str, Role]] = {"r": "read", "w": "write", "d": "delete", "h": "host"}


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
_FETCH_CURL: Final = _spec(
    "h", o="w", O_="", H="", d="", F="", u="", A="", b="", c="w", e="", m="", T="r", x="h", X="", w="", K="r", E="r",
    r="", t="", U="", y="", Y="", z="", C="", D="w", P="", Q="", output="w", header="", data="", form="", user="",
    user_agent="", cookie="", cookie_jar="w", referer="", max_time="", upload_file="r", proxy="h", request="",
    write_out="", config="r", cert="r", key="r", cacert="r", capath="r", range="", dump_header="w", url="h",
    connect_timeout="", retry="", retry_delay="", retry_max_time="", data_raw="", data_binary="", data_urlencode="",
    json="", resolve="", connect_to="", output_dir="w", max_redirs="", limit_rate="", interface="", noproxy="",
    unix_socket="r", trace="w", trace_ascii="w", stderr="w", proto="", proto_redir="", ciphers="", doh_url="h",
    socks5="h", socks5_hostname="h", socks4="h", socks4a="h", preproxy="h", netrc_file="r", oauth2_bearer="",
    max_filesize="", aws_sigv4="", form_string="", url_query="", tls_max="", cert_type="", key_type="", pass_="",
)  # fmt: skip
_FETCH_WGET: Final = _spec(
    "h", O="w", o="w", a="w", P="w", i="r", e="", t="", T="", w="", Q="", U="", l="", A="", R="", D="", I="", X="",
    B="h", output_document="w", output_file="w", append_output="w", directory_prefix="w", input_file="r", execute="",
    tries="", timeout="", wait="", header="", post_data="", post_file="r", user="", password="", user_agent="",
    level="", accept="", reject="", body_data="", body_file="r", method="", load_cookies="r", save_cookies="w",
    ca_certificate="r", base="h", referer="", quota="", limit_rate="", cut_dirs="",
)  # fmt: skip

_FAMILIES: Final[dict[str, _Spec]] = {
    "cat tac nl wc od xxd hexdump strings base64 base32 basenc md5sum sha1sum sha224sum sha256sum sha384sum sha512sum "
    "b2sum cksum sum less more most bat batcat zcat bzcat xzcat zstdcat zless cmp diff diff3 sdiff colordiff comm "
    "paste join rev fold fmt expand unexpand column pr readlink realpath du ls dir vdir tree exa eza source . cut "
    "shuf iconv ptx gv nm objdump readelf ldd lsattr getfacl getcap namei sqlite3 xmllint tidy": _READ,
    "head tail": _spec("r", n="", c="", lines="", bytes="", s="", pid=""),
    "file stat": _spec("r", c="", format="", printf="", m="r", F="", f="r"),
    "sort": _spec("r", k="", t="", S="", T="w", o="w", output="w", key="", files0_from="r"),
    "uniq": _spec("r", last="rw", f="", s="", w=""),
    "grep egrep fgrep zgrep rg ag ack pcregrep ugrep": _PATTERN,
    "jq yq gojq": _spec("r", first="", f="r", from_file="r"),
    "tee touch truncate mkdir mkfifo mknod setfacl setcap chattr": _spec(
        "w", s="", r="r", d="", t="", m="", size="", reference="r", date="", mode=""
    ),
    "chmod chown chgrp": _spec("w", first="", reference="r"),
    "cp ln install": _spec("r", last="w", t="w", target_directory="w", S="", suffix="", m="", o="", g=""),
    "mv": _spec("rd", last="w", t="w", target_directory="w", S="", suffix=""),
    "rm rmdir unlink srm wipe trash": _DELETE,
    "shred": _spec("wd", n="", s=""),
    "vi vim nvim view nano emacs ed ex pico micro joe": _EDIT,
    "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 compress uncompress": _spec("rwd", S="", T="", o="w"),
    "zip": _spec("r", first="w", x="", i=""),
    "unzip": _spec("", first="r", d="w", x=""),
    "7z 7za 7zr rar unrar ar": _spec("r", first=""),
    "gcc cc g++ c++ clang clang++ ld as rustc": _spec("r", o="w", I="r", L="r", l="", D="", x="", std=""),
    "patch": _spec("w", i="r", p="", d="w", o="w"),
    "split csplit": _spec("r", last="rw", b="", l="", n="", a="", C=""),
    "mount": _spec("w", first="r", o="", t=""),
    "umount swapoff swapon mkswap mkfs mkfs.ext4 mkfs.ext3 mkfs.ext2 mkfs.xfs mkfs.btrfs mkfs.vfat fdisk sfdisk parted "
    "gdisk sgdisk wipefs blkdiscard": _WRITE,
    "crontab": _spec("r", u=""),
    "curl": _FETCH_CURL,
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
    "alias unalias type hash which whereis basename dirname seq sleep date whoami id uname hostname tr expr tput "
    "nproc uptime free ps top pgrep pkill yes logname tty groups printenv env history times bc factor": _NOTHING,
}  # fmt: skip
_SPECS: Final = {name: spec for names, spec in _FAMILIES.items() for name in names.split()}

_INTERPRETERS: Final[dict[str, str]] = {
    "python": "cm", "python2": "cm", "python3": "cm", "pypy3": "cm", "perl": "eE", "ruby": "e", "node": "ep",
    "nodejs": "ep", "deno": "", "bun": "e", "php": "r", "lua": "e", "Rscript": "e", "osascript": "e", "tclsh": "",
}  # fmt: skip
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}://[^\s'\"<>()\[\]]*(?:\[[0-9a-fA-F:.]+\][^\s'\"<>()]*)?")
_SILENT: Final = frozenset(
    {"echo", "printf", "true", "false", ":", "test", "[", "cd", "export", "declare", "typeset", "local",
     "readonly"}
)  # fmt: skip
_WRITES_PLACE: Final = frozenset({"cp", "mv", "ln", "install"})


def uses(program: str, args: Sequence[Word]) -> Iterator[Use]:
    """What `program` does with its arguments (argv without argv[0]). Total; never raises."""
    special = _SPECIAL.get(program)
    if special is not None:
        yield from special(args)
    elif program in _SPECS:
        yield from _by_spec(program, _SPECS[program], args)
    elif program in _INTERPRETERS:
        yield from _interpreter(_INTERPRETERS[program], args)
    else:
        yield from path_like(args)
    if program not in _SILENT and program not in ("curl", "wget", "wget2"):
        yield from _urls(program, args)


def _by_spec(program: str, spec: _Spec, args: Sequence[Word]) -> Iterator[Use]:
    operands, options = split_options(args, spec.options)
    first, last = spec.first, spec.last
    for name, value in options:
        roles = spec.options.get(name)
        yield from _roles(roles if roles is not None else "", value)
        if roles is None and LOOKS_LIKE_PATH.match(value.text):
            yield Use("read", value)
        if name in ("t", "target-directory") and program in _WRITES_PLACE:
            last = None
            for operand in operands:
                yield from _placed(value, operand)
        if name in ("e", "f", "regexp", "file", "from-file") and spec is not _READ and first == "":
            first = None
        if program == "curl":
            yield from _curl_file(name, value)
    final = len(operands) - 1
    for at, operand in enumerate(operands):
        roles = spec.rest
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


def _placed(directory: Word, source: Word) -> Iterator[Use]:
    """The file that `source` becomes if `directory` is one."""
    name = source.text.rstrip("/").rpartition("/")[2]
    if name and directory.known and HOLE not in name:
        yield Use("write", Word(f"{directory.text}/{name}", directory.glob or source.glob))


def _roles(roles: str, word: Word, scheme: str | None = None) -> Iterator[Use]:
    for letter in roles:
        yield Use(_ROLES[letter], word, scheme if letter == "h" else None)


def _curl_file(name: str, value: Word) -> Iterator[Use]:
    if name in ("resolve", "connect-to"):
        yield Use("host", Word(value.text.split(":", 2)[-1].split(",")[0]))
    elif name in ("d", "data", "data-binary", "data-urlencode", "json", "F", "form", "H", "header"):
        found = re.search(r"(?:^|=)[@<](.+)", value.text, re.DOTALL)
        if found:
            yield Use("read", Word(found[1].split(";")[0], value.glob))
    elif name in ("b", "cookie") and "=" not in value.text:
        yield Use("read", value)


def _urls(program: str, args: Sequence[Word]) -> Iterator[Use]:
    """Every argument that is a URL, or an option with one; all of the text of an interpreter's inline code."""
    anywhere = program in _INTERPRETERS
    for word in args:
        text = word.text
        if "://" not in text:
            continue
        for found in _URL.finditer(text):
            before = text[: found.start()]
            if anywhere or not before or before.endswith(("=", ",", "@")):
                yield Use("host", Word(found[0] if anywhere else text[found.start() :]))


def _interpreter(inline: str, args: Sequence[Word]) -> Iterator[Use]:
    """The script and what looks like a path behind it; inline code takes the script's place."""
    rest = list(args)
    while rest and rest[0].text.startswith("-") and rest[0].text != "-":
        option = rest.pop(0).text
        if not option.startswith("--") and option[-1:] in inline:
            if rest:
                rest.pop(0)
            break
        if option in ("-W", "-X", "-r", "--require", "-I", "--eval", "--print") and rest:
            value = rest.pop(0)
            if option in ("--eval", "--print"):
                break
            if option in ("-r", "--require"):
                yield Use("read", value)
    else:
        if rest and rest[0].text != "-":
            yield Use("read", rest.pop(0))
    yield from path_like(rest)


_SPECIAL: Final = {**FILE_PROGRAMS, **NETWORK_PROGRAMS}
