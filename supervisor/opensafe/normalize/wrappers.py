"""Programs that run other programs: what a wrapper's argv starts, without the wrapper.

A wrapper is unwrapped only where all of its options are known, because an option mistaken for a flag shifts
where the inner command begins. Otherwise the guess is listed and the whole is called opaque.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from .find import find_commands
from .git import git_scripts
from .interpreters import module_of
from .options import Parsed, Table, read_options, table
from .word import FED, FED_LINES, FED_LISTED, HOLE, UNKNOWN, Word


class Peeled(NamedTuple):
    """What a wrapper starts.

    `inner` are argvs, `scripts` shell texts. `keeps` tells that the wrapper is a command of its own beside them.
    `stdin` tells that it takes its commands from standard input, `file` is a text that it runs, `writes` are files
    that it writes; `doubt` says why this may not be all. `FED` among the words of `inner` stands for what xargs takes
    from its input.
    """

    inner: tuple[Sequence[Word], ...] = ()
    scripts: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    keeps: bool = False
    stdin: bool = False
    doubt: str | None = None
    cwd: Word | None = None
    file: Word | None = None
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()


class _Wrapper(NamedTuple):
    """The options of a wrapper, and how many operands stand before the command."""

    table: Table
    skip: int = 0
    assigns: bool = False
    keeps: bool = False


def _wrapper(
    valued: str = "",
    flags: str = "",
    long_valued: str = "",
    long_flags: str = "",
    *,
    skip: int = 0,
    assigns: bool = False,
    keeps: bool = False,
) -> _Wrapper:
    """A wrapper by the letters and long names of its options with and without value."""
    short = {**dict.fromkeys(flags, ""), **dict.fromkeys(valued, ":")}
    long = {**dict.fromkeys(long_flags.split(), ""), **dict.fromkeys(long_valued.split(), ":")}
    return _Wrapper(Table(short, long), skip, assigns, keeps)


_WRAPPERS: Final[dict[str, _Wrapper]] = {
    "sudo": _wrapper(
        "ugprtCDRTUh", "AbBEHKknPSsiv", "user group prompt role type close-from chdir chroot command-timeout "
        "other-user host", "preserve-env login shell non-interactive background set-home stdin askpass", assigns=True,
    ),
    "doas": _wrapper("uC", "Lns"),
    "env": _wrapper("uCSa", "0iv", "unset chdir split-string argv0", "ignore-environment null debug", assigns=True),
    "timeout": _wrapper("ks", "vfp", "kill-after signal", "preserve-status foreground verbose", skip=1),
    "nohup": _wrapper(),
    "nice": _wrapper("n", "0123456789", "adjustment"),
    "ionice": _wrapper("cn", "t", "class classdata", "ignore"),
    "stdbuf": _wrapper("ioe", "", "input output error"),
    "setsid": _wrapper("", "cfw", "", "ctty fork wait"),
    "time": _wrapper("fo", "pavq", "format output", "portability append verbose quiet", assigns=True),
    "command": _wrapper("", "p"),
    "builtin": _wrapper(),
    "exec": _wrapper("a", "cl"),
    "coproc": _wrapper(),
    "taskset": _wrapper("", "a", skip=1),
    "chrt": _wrapper("TPD", "abdfiroR", skip=1),
    "setarch": _wrapper("", "BFILRSTXZ3v", "", "addr-no-randomize 3gb", skip=1),
    "linux32": _wrapper("", "BFILRSTXZ3v"),
    "linux64": _wrapper("", "BFILRSTXZ3v"),
    "unbuffer": _wrapper("", "p"),
    "fakeroot": _wrapper("lfsbi", "u"),
    "torsocks": _wrapper(keeps=True),
    "proxychains": _wrapper("f", "q", keeps=True),
    "proxychains4": _wrapper("f", "q", keeps=True),
    "busybox": _wrapper(keeps=True),
    "toybox": _wrapper(keeps=True),
    "chroot": _wrapper("", "", "userspec groups", "skip-chdir", skip=1, keeps=True),
    "unshare": _wrapper("SGRw", "mnpuiUCTfrc", "", "fork mount-proc map-root-user pid mount net user", keeps=True),
    "nsenter": _wrapper("tSGrw", "amuinpUCTFZ", "target", "all mount uts ipc net pid user cgroup", keeps=True),
    "setpriv": _wrapper("", "", "reuid regid groups inh-caps", "no-new-privs clear-groups init-groups", keeps=True),
    "pkexec": _wrapper("", "", "user", "disable-internal-agent", keeps=True),
    "run0": _wrapper("uDg", "", "user chdir group", keeps=True),
    "strace": _wrapper("eoOpPsSuEabI", "cCdfFhiknqrtTvVxyYzZ", keeps=True),
    "ltrace": _wrapper("aADeFlnopsuwx", "bcCfhiLrStTV", keeps=True),
    "prlimit": _wrapper(keeps=True),
    "numactl": _wrapper(keeps=True),
    "systemd-run": _wrapper("pEHMu", "Gtqdr", "property setenv unit uid gid", "user scope pty pipe wait", keeps=True),
    "bwrap": _wrapper(keeps=True),
    "firejail": _wrapper(keeps=True),
    "dbus-run-session": _wrapper(keeps=True),
    "xvfb-run": _wrapper("efnps", "al", keeps=True),
    "ssh-agent": _wrapper("aEt", "cDdks", keeps=True),
    "sshpass": _wrapper("fdpP", "ev"),
    "entr": _wrapper("", "acdnprsxz", keeps=True),
    "npx": _wrapper("pcw", "yq", "package call workspace", "yes no no-install offline quiet", keeps=True),
    "bunx": _wrapper(keeps=True),
    "pipx": _wrapper(keeps=True, skip=1),
    "bear": _wrapper("", "", "output config", "append verbose", keeps=True),
    "valgrind": _wrapper(
        "", "qv", "tool leak-check show-leak-kinds errors-for-leak-kinds track-origins error-exitcode num-callers "
        "suppressions trace-children", "quiet verbose", keeps=True,
    ),
    "watch": _wrapper("nq", "bcdegtpxwrC", "interval", "differences color no-title", keeps=True),
}  # fmt: skip

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"})
_SHELL_LETTERS: Final = re.compile(r"[-+][celuxvnhsoO]+")
_SHELL_NAMES: Final = frozenset(
    {"errexit", "nounset", "pipefail", "xtrace", "verbose", "noclobber", "extglob", "globstar", "nullglob", "failglob"}
)
_ASSIGNMENT: Final = re.compile(r"([^=]*)=(.*)", re.DOTALL)
_SSH_RUNS: Final = re.compile(
    r"(?i)-o\s*(ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|Match)|(ProxyCommand|LocalCommand|KnownHostsCommand)\b"
)
_EDITOR_RUNS: Final = re.compile(r"\A-[a-zA-Z]*c$|--cmd|-S$|\+|-s$|-es$|--eval|--batch|-l$|--load|--script|-u$")
_PAGER: Final = (re.compile(r"\A--pager"), "a pager of its own")
_UNSAFE_REQUESTS: Final = (re.compile(r"\A-[a-zA-Z]*U"), "unsafe requests")
_LATEX: Final = (re.compile(r"shell-escape|write18"), "latex with shell commands")
_NETCAT: Final = (re.compile(r"-[a-zA-Z]*[ec]$|--exec|--sh-exec|--lua-exec"), "netcat with a program")
_EDITOR: Final = (_EDITOR_RUNS, "an editor with a command")
_MENTIONS_COMMAND: Final[dict[str, tuple[re.Pattern[str], str]]] = {
    "7z": (re.compile(r"-o\0"), "7z with an unknown place"),
    "bat": _PAGER,
    "bazel": (re.compile(r"\A--run_under"), "bazel with a program of its own"),
    "ctest": (re.compile(r"\A--(?:test-command|build-and-test|build-makeprogram)"), "ctest with a command"),
    "dc": (re.compile(r"!"), "dc with a shell command"),
    "delta": _PAGER,
    "django-admin": (re.compile(r"\A(?:db)?shell\Z"), "a shell of its own"),
    "ed": (re.compile(r"!"), "ed with a shell command"),
    "emacs": _EDITOR,
    "eqn": _UNSAFE_REQUESTS,
    "ex": _EDITOR,
    "fd": (re.compile(r"-x$|-X$|--exec"), "fd with a command"),
    "flask": (re.compile(r"\Ashell\Z"), "a shell of its own"),
    "fzf": (re.compile(r"\A--(?:preview|bind|info-command)"), "fzf with a command"),
    "gdb": (re.compile(r"-ex|-x$|--eval"), "gdb with a command"),
    "ghc": (re.compile(r":!|System|Process|\A-(?:pgm|F\Z)"), "ghc with a program of its own"),
    "go": (re.compile(r"\A--?vettool"), "go with a program of its own"),
    "gnuplot": (re.compile(r"system|shell|!\s*\w|`|[\"']\s*<"), "gnuplot with a shell command"),
    "groff": _UNSAFE_REQUESTS,
    "latex": _LATEX,
    "latexmk": (re.compile(r"\A-(?:e|r)\Z|shell-escape|write18|\A-\w*latex="), "latexmk with a command"),
    "less": (re.compile(r"\A\+|\A--(?:use-lesskey|lesskey)"), "a command at the start"),
    "lualatex": _LATEX,
    "luatex": _LATEX,
    "m4": (re.compile(r"syscmd"), "a macro that runs commands"),
    "man": (re.compile(r"-P|--pager|-H|--html"), "a pager of its own"),
    "mix": (re.compile(r"\A(?:-e|--eval|eval|cmd)\Z"), "mix with code or a command"),
    "mlr": (re.compile(r"system|exec\s*\(|\|\s*\""), "mlr with a command"),
    "nc": _NETCAT,
    "ncat": _NETCAT,
    "netcat": _NETCAT,
    "nvim": _EDITOR,
    "nroff": _UNSAFE_REQUESTS,
    "opa": (re.compile(r"http\.send"), "a request"),
    "pandoc": (re.compile(r"\A(?:-F|-L|--filter|--lua-filter)"), "pandoc with a filter"),
    "pdflatex": _LATEX,
    "pdftex": _LATEX,
    "pic": _UNSAFE_REQUESTS,
    "plantuml": (re.compile(r"-graphvizdot"), "plantuml with a program"),
    "prove": (re.compile(r"\A-[a-zA-Z]*[eP]|\A--(?:exec|harness|formatter|source)"), "prove with a program of its own"),
    "pylint": (re.compile(r"\A--init-hook"), "pylint with code"),
    "rails": (re.compile(r"\A(?:runner|console|dbconsole)\Z"), "rails with code"),
    "rake": (re.compile(r"\A-[eEp]|\A--execute"), "rake with code"),
    "rg": (re.compile(r"--pre(=|$)|--hostname-bin"), "rg with a preprocessor"),
    "rsync": (re.compile(r"\A-[a-zA-Z]*e|\A--rsh|--rsync-path"), "rsync with a remote shell of its own"),
    "scp": (re.compile(r"-S|(?i:-o\s*(proxy|local)command|proxycommand)"), "scp with a command"),
    "sftp": (_SSH_RUNS, "sftp with a command"),
    "socat": (re.compile(r"(?i)(exec|system|shell):"), "socat with a program"),
    "ssh": (_SSH_RUNS, "ssh with a local command"),
    "tex": _LATEX,
    "tox": (re.compile(r"commands\w*=|\A--override"), "tox with commands of its own"),
    "troff": _UNSAFE_REQUESTS,
    "tsup": (re.compile(r"\A--onSuccess"), "tsup with a command"),
    "vi": _EDITOR,
    "vim": _EDITOR,
    "view": _EDITOR,
    "xelatex": _LATEX,
    "xetex": _LATEX,
    "zip": (re.compile(r"-[A-Za-z]*T|--unzip-command"), "zip with a test command"),
}  # fmt: skip
_STARTS_UP: Final = "a login or interactive shell runs start-up files"


def peel(program: str, words: Sequence[Word]) -> Peeled | None:
    """What `words` (argv, argv[0] being `program` by basename) starts beside or instead of itself; None if nothing."""
    special = _SPECIAL.get(program)
    if special is not None:
        return special(words)
    wrapper = _WRAPPERS.get(program)
    if wrapper is not None:
        return _peel(program, wrapper, words)
    if program in SHELLS:
        return _shell(words)
    git = git_scripts(words) if program == "git" else ()
    if git:
        return Peeled(scripts=tuple(git), keeps=True)
    module = module_of(program, words)
    if module is not None:
        return Peeled(inner=(module,), keeps=True)
    if program == "m4" and all(word.text[:1] == "-" for word in words[1:]):
        return Peeled(keeps=True, doubt="m4: a program from standard input")
    mention = _MENTIONS_COMMAND.get(program)
    if mention is not None and any(mention[0].search(word.text) for word in words[1:]):
        return Peeled(keeps=True, doubt=f"{program}: {mention[1]}")
    return None


def _peel(program: str, wrapper: _Wrapper, words: Sequence[Word]) -> Peeled:
    """The command behind a wrapper's options."""
    return _behind(program, wrapper, read_options(words[1:], wrapper.table, first_ends=True))


def _behind(program: str, wrapper: _Wrapper, parsed: Parsed) -> Peeled:
    doubt = f"{program}: {parsed.doubts[0]}" if parsed.doubts else None
    cwd: Word | None = None
    for name, value in parsed.options:
        if name in ("C", "D", "chdir") and program in ("env", "sudo", "run0") and value is not None:
            cwd = value
    assignments: list[tuple[str, Word]] = []
    writes = tuple(
        value for name, value in parsed.options if program == "time" and name in ("o", "output") and value is not None
    )
    inner, skip = parsed.operands, wrapper.skip
    if program == "env" and inner[:1] == [Word("-")]:
        inner = inner[1:]
    while inner and (skip or wrapper.assigns):
        found = _ASSIGNMENT.fullmatch(inner[0].text) if wrapper.assigns else None
        if found:
            assignments.append((found[1], inner[0].part(found[2])))
        elif skip:
            skip -= 1
        else:
            break
        inner = inner[1:]
    if any(HOLE in name for name, _ in assignments):
        doubt = f"{program} sets a variable whose name is not known before the run"
    if not inner:
        return Peeled(keeps=True, assignments=tuple(assignments), doubt=doubt)
    if program == "watch":
        text = " ".join(word.text for word in inner)
        return Peeled(inner=(inner,), scripts=(Word(text),), keeps=True, doubt=doubt)
    while program == "time" and len(inner) > 1 and inner[0].text in ("!", "{", "time"):  # it times a whole pipeline
        inner = inner[1:]
        doubt = "time before a reserved word"
    if program == "coproc":
        doubt = "a coprocess"
    return Peeled(
        inner=(inner,), assignments=tuple(assignments), keeps=wrapper.keeps, doubt=doubt, cwd=cwd, writes=writes
    )


_ENV: Final = _WRAPPERS["env"]


def _env(words: Sequence[Word], depth: int = 0) -> Peeled:
    parsed = read_options(words[1:], _ENV.table, first_ends=True)
    texts = [value for name, value in parsed.options if name in ("S", "split-string") and value is not None]
    if not texts:
        return _behind("env", _ENV, parsed)
    if len(texts) > 1 or depth > 4 or re.search(r"[$\\#\0]", texts[0].text) or texts[0].glob:
        return Peeled(keeps=True, inner=(parsed.operands,), doubt="env -S with text that is not plain words")
    try:
        parts = [Word(part) for part in shlex.split(texts[0].text)]
    except ValueError:
        return Peeled(keeps=True, doubt="env -S with text that can't be split")
    own = [Word(f"-{name}{value.text}") for name, value in parsed.options if value is not None and name in ("u", "C")]
    return _env([words[0], *own, *parts, *parsed.operands], depth + 1)


def _sudo(words: Sequence[Word]) -> Peeled:
    peeled = _peel("sudo", _WRAPPERS["sudo"], words)
    if not peeled.inner:
        return peeled._replace(keeps=True, doubt=peeled.doubt or "sudo without a command")
    return peeled


def _command(words: Sequence[Word]) -> Peeled | None:
    if len(words) > 1 and re.fullmatch(r"-p?[vV]p?", words[1].text):
        return None
    return _peel("command", _WRAPPERS["command"], words)


def _shell(words: Sequence[Word]) -> Peeled | None:
    """`sh -c TEXT`, `sh FILE`, or a shell that reads standard input. Options by a positive list."""
    reads_text = reads_stdin = False
    doubt: str | None = None
    at = 1
    while at < len(words):
        text = words[at].text
        if words[at].may_be_option:
            doubt = "a shell with an option that is not known before the run"
            break
        if text in ("--", "-"):
            at += 1
            break
        if text[:2] == "--":
            if text in ("--version", "--help"):
                return None
            if text not in ("--norc", "--noprofile"):
                doubt = _STARTS_UP if text == "--login" else "a shell with an option that changes what it reads"
        elif text[:1] in ("-", "+") and len(text) > 1:
            reads_text |= text[0] == "-" and "c" in text
            reads_stdin |= text[0] == "-" and "s" in text
            if not _SHELL_LETTERS.fullmatch(text):
                doubt = _STARTS_UP if set("li") & set(text) else "a shell with an option that changes what it reads"
            for letter in text[1:]:
                if letter in "oO":
                    at += 1
                    if at < len(words) and words[at].text not in _SHELL_NAMES:
                        doubt = "a shell with an option that changes what words mean"
        else:
            break
        at += 1
    if reads_text:
        if at >= len(words):
            return Peeled(keeps=True, doubt="a shell with -c and no text")
        return Peeled(scripts=(words[at],), doubt=doubt)
    if reads_stdin or at >= len(words):
        return Peeled(keeps=True, stdin=True, doubt=doubt)
    return Peeled(keeps=True, doubt=doubt, file=words[at])


def _eval(words: Sequence[Word]) -> Peeled:
    rest = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if not rest:
        return Peeled(keeps=True)
    known = all(word.fixed() is not None for word in rest)
    return Peeled(scripts=(Word(" ".join(word.text for word in rest), not known),))


def _trap(words: Sequence[Word]) -> Peeled | None:
    rest = [word for word in words[1:] if word.text != "--"]
    if not rest or rest[0].text in ("-", "", "-l", "-p"):
        return None
    return Peeled(scripts=(rest[0],), keeps=True)


def _source(words: Sequence[Word]) -> Peeled | None:
    rest = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    return Peeled(keeps=True, file=rest[0] if rest else UNKNOWN)


def _alias(words: Sequence[Word]) -> Peeled | None:
    texts = tuple(word.part(word.text.partition("=")[2]) for word in words if "=" in word.text)
    return Peeled(keeps=True, doubt="an alias", scripts=texts) if texts else None


_HYPERFINE: Final = table(
    "-iN w: m: M: r: u: L: n: P: S:! p: s: c: warmup: min-runs: max-runs: runs: setup: prepare: cleanup: conclude: "
    "ignore-failure style: sort: time-unit: shell:! export-json:w export-csv:w export-markdown:w show-output output: "
    "parameter-list:! parameter-scan:! command-name: input:r help version"
)


def _hyperfine(words: Sequence[Word]) -> Peeled:
    """Each operand is a text for a shell."""
    parsed = read_options(words[1:], _HYPERFINE)
    around = {"p", "s", "c", "setup", "prepare", "cleanup", "conclude"}
    texts = [value for name, value in parsed.options if name in around and value is not None]
    writes = [value for name, value in parsed.options if name.startswith("export-") and value is not None]
    odd = any(name in ("S", "shell", "L", "P") or name.startswith("parameter") for name, _ in parsed.options)
    doubt = parsed.doubts[0] if parsed.doubts else "hyperfine with another shell or with parameters" if odd else None
    return Peeled(scripts=(*parsed.operands, *texts), keeps=True, writes=tuple(writes), doubt=doubt)


def _parallel(words: Sequence[Word]) -> Peeled | None:
    """GNU parallel: the words before `:::` are a text for a shell, run for each item behind it."""
    parsed = read_options(words[1:], _PARALLEL, first_ends=True)
    texts = [word.text for word in parsed.operands]
    at = next((at for at, text in enumerate(texts) if re.fullmatch(r":::{1,2}\+?", text)), len(texts))
    items = texts[at + 1 :] if at < len(texts) and texts[at] == ":::" else []
    template = " ".join(texts[:at])
    if not template:
        return Peeled(keeps=True, doubt="parallel runs what it is fed")
    if "{" not in template:
        template += " {}"
    known = 0 < len(items) <= 16 and all(re.fullmatch(r"[\w./-]+", item) for item in items) and ":::" not in items
    scripts = [template.replace("{}", item) for item in (items if known else [HOLE])]
    doubt = parsed.doubts[0] if parsed.doubts else None
    if any("{" in re.sub(r"\{\.\}|\{/\}|\{//\}|\{#\}", "", script) for script in scripts):
        doubt = "parallel with a replacement that is not known"
    return Peeled(scripts=tuple(map(Word, scripts)), keeps=True, doubt=doubt)


_PARALLEL: Final = table(
    "-kmqtuvX0 j: I: N: n: jobs: keep-order bar progress halt: tag line-buffer dry-run will-cite no-notice "
    "null max-args: group ungroup verbose timeout: retries: eta"
)


def _typescript(words: Sequence[Word]) -> Peeled | None:
    for at, word in enumerate(words):
        found = re.match(r"-[a-z]*c|--command=?", word.text)
        if found:
            glued = word.text[found.end() :]
            text = word.part(glued) if glued else (words[at + 1] if at + 1 < len(words) else UNKNOWN)
            return Peeled(scripts=(text,), keeps=True, doubt="script with a command")
    return None


_XARGS: Final = table(
    "-0oprtx a:r arg-file:r d: delimiter: E: e= eof= I: i= replace= L: l= max-lines= n: max-args: P: "
    "max-procs: s: max-chars: process-slot-var: null no-run-if-empty interactive verbose exit open-tty "
    "show-limits version help"
)  # fmt: skip


def _xargs(words: Sequence[Word]) -> Peeled:
    """The command of an xargs, with `FED` where its input goes: behind all words, or for the marker in each of them."""
    parsed = read_options(words[1:], _XARGS, first_ends=True)
    inner = list(parsed.operands)
    doubt = f"xargs: {parsed.doubts[0]}" if parsed.doubts else None
    if not inner:
        return Peeled(keeps=True, doubt=doubt)
    marker = None
    for name, value in parsed.options:
        if name in ("I", "i", "replace"):
            marker = "{}" if value is None or (name != "I" and not value.text) else value.text
    if marker is not None and HOLE in marker:
        doubt = "xargs with a marker that is not known before the run"
    counts = [value for name, value in parsed.options if name in ("L", "l", "n", "max-lines", "max-args")]
    if marker is not None and any(value is None or value.text != "1" for value in counts):
        doubt = "xargs with options of which the last one counts"
    files = tuple(value for name, value in parsed.options if name in ("a", "arg-file") and value is not None)
    fed = FED
    if any(name in ("d", "delimiter", "0", "null", "E", "e", "eof") for name, _ in parsed.options):
        fed = FED_LISTED
    elif marker is not None or any(name in ("L", "l", "max-lines") for name, _ in parsed.options):
        fed = FED_LINES
    fed = UNKNOWN if files else fed
    if marker is not None:
        inner = [_fed(word, marker, fed) for word in inner]
    else:
        inner.append(fed)
    return Peeled(inner=(inner,), doubt=doubt, reads=files)


def _fed(word: Word, marker: str, fed: Word) -> Word:
    if not marker or marker not in word.text:
        return word
    return fed if word.text == marker else word.part(word.text.replace(marker, HOLE))


def _find(words: Sequence[Word]) -> Peeled | None:
    found, elsewhere = find_commands(words)
    if not found:
        return None
    return Peeled(inner=tuple(found), keeps=True, cwd=UNKNOWN if elsewhere else None)


def _su(words: Sequence[Word]) -> Peeled:
    for at, word in enumerate(words):
        found = re.match(r"-[A-Za-z]*c|--command=?", word.text)
        if found:
            text = word.text[found.end() :]
            script = Word(text) if text else (words[at + 1] if at + 1 < len(words) else UNKNOWN)
            return Peeled(scripts=(script,), keeps=True)
    return Peeled(keeps=True, stdin=True)


_FLOCK: Final = _wrapper("wE", "sxeonuFv", "timeout", "shared exclusive nonblock", skip=1, keeps=True)


def _flock(words: Sequence[Word]) -> Peeled:
    for at, word in enumerate(words[:-1]):
        if word.text in ("-c", "--command"):
            return Peeled(scripts=(words[at + 1],), keeps=True)
    return _peel("flock", _FLOCK, words)


def _sqlite(words: Sequence[Word]) -> Peeled | None:
    """`.shell TEXT` and `.system TEXT` of its own command line."""
    texts = [found[1] for word in words[1:] if (found := re.match(r"\s*\.(?:shell|system)\s+(.+)", word.text))]
    return Peeled(scripts=tuple(map(Word, texts)), keeps=True, doubt="sqlite3: a shell command") if texts else None


_COVERAGE: Final = _wrapper(
    "nxr", "", "reporter reports-dir report-dir include exclude temp-directory temp-dir extension lines functions "
    "branches statements src cwd", "all check-coverage clean silent skip-full", keeps=True,
)  # fmt: skip


def _coverage(words: Sequence[Word]) -> Peeled | None:
    """`c8 mocha`, `nyc mocha`, but for what they do by themselves."""
    peeled = _peel(words[0].text.rpartition("/")[2], _COVERAGE, words)
    own = peeled.inner and peeled.inner[0][0].text in ("check-coverage", "instrument", "merge", "report")
    return None if own else peeled


def _exec(words: Sequence[Word]) -> Peeled | None:
    """`stack exec -- PROGRAM`."""
    return _uv(words, ("exec",))


def _uv(words: Sequence[Word], verbs: Sequence[str] = ("run", "exec")) -> Peeled | None:
    for at, word in enumerate(words[:-1]):
        if word.text in verbs:
            rest = words[at + 1 :]
            while rest and rest[0].text == "--":
                rest = rest[1:]
            doubt = "a runner's options" if rest and rest[0].text.startswith("-") else None
            return Peeled(inner=(rest,), keeps=True, doubt=doubt) if rest else None
    return None


_SPECIAL: Final[dict[str, Callable[[Sequence[Word]], Peeled | None]]] = {
    ".": _source, "alias": _alias, "command": _command, "env": _env, "eval": _eval, "find": _find, "flock": _flock,
    "c8": _coverage, "cabal": _exec, "dune": _exec, "hyperfine": _hyperfine, "lerna": _exec, "nx": _exec,
    "nyc": _coverage, "stack": _exec, "yarn": _exec,
    "parallel": _parallel, "hatch": _uv, "pdm": _uv, "pipenv": _uv,
    "poetry": _uv, "runuser": _su, "script": _typescript, "source": _source, "su": _su,
    "sqlite3": _sqlite, "sudo": _sudo, "trap": _trap,
    "uv": _uv, "xargs": _xargs,
}  # fmt: skip
