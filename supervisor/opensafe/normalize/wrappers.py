"""Programs that run other programs: what a wrapper's argv starts, without the wrapper.

A wrapper is unwrapped only where all of its options are known, because an option mistaken for a flag shifts
where the inner command begins. Otherwise the guess is listed and the whole is called opaque.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from .file_operands import find_roots
from .words import HOLE, UNKNOWN, Word


class Peeled(NamedTuple):
    """What a wrapper starts.

    `inner` are argvs, `scripts` shell texts. `keeps` tells that the wrapper is a command of its own beside them.
    `stdin` tells that it takes its commands from standard input; `doubt` says why this may not be all.
    """

    inner: tuple[Sequence[Word], ...] = ()
    scripts: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    keeps: bool = False
    stdin: bool = False
    doubt: str | None = None
    cwd: Word | None = None


class _Wrapper(NamedTuple):
    """The options of a wrapper: letters and long names with and without value; operands before the command."""

    valued: str = ""
    flags: str = ""
    long_valued: str = ""
    long_flags: str = ""
    skip: int = 0
    assigns: bool = False
    keeps: bool = False


_WRAPPERS: Final[dict[str, _Wrapper]] = {
    "sudo": _Wrapper(
        "ugprtCDRTUh", "AbBEHKknPSsiv", "user group prompt role type close-from chdir chroot command-timeout "
        "other-user host", "preserve-env login shell non-interactive background set-home stdin askpass", assigns=True,
    ),
    "doas": _Wrapper("uC", "Lns"),
    "env": _Wrapper("uC", "0iv", "unset chdir", "ignore-environment null debug", assigns=True),
    "timeout": _Wrapper("ks", "vfp", "kill-after signal", "preserve-status foreground verbose", skip=1),
    "nohup": _Wrapper(),
    "nice": _Wrapper("n", "", "adjustment"),
    "ionice": _Wrapper("cn", "t", "class classdata", "ignore"),
    "stdbuf": _Wrapper("ioe", "", "input output error"),
    "setsid": _Wrapper("", "cfw", "", "ctty fork wait"),
    "time": _Wrapper("fo", "pavq", "format output", "portability append verbose quiet", assigns=True),
    "command": _Wrapper("", "p"),
    "builtin": _Wrapper(),
    "exec": _Wrapper("a", "cl"),
    "coproc": _Wrapper(),
    "taskset": _Wrapper("", "a", skip=1),
    "chrt": _Wrapper("TPD", "abdfiroR", skip=1),
    "setarch": _Wrapper("", "BFILRSTXZ3v", "", "addr-no-randomize 3gb", skip=1),
    "linux32": _Wrapper("", "BFILRSTXZ3v"),
    "linux64": _Wrapper("", "BFILRSTXZ3v"),
    "unbuffer": _Wrapper("", "p"),
    "fakeroot": _Wrapper("lfsbi", "u"),
    "torsocks": _Wrapper(keeps=True),
    "proxychains": _Wrapper("f", "q", keeps=True),
    "proxychains4": _Wrapper("f", "q", keeps=True),
    "busybox": _Wrapper(keeps=True),
    "toybox": _Wrapper(keeps=True),
    "chroot": _Wrapper("", "", "userspec groups", "skip-chdir", skip=1, keeps=True),
    "unshare": _Wrapper("SGRw", "mnpuiUCTfrc", "", "fork mount-proc map-root-user pid mount net user", keeps=True),
    "nsenter": _Wrapper("tSGrw", "amuinpUCTFZ", "target", "all mount uts ipc net pid user cgroup", keeps=True),
    "setpriv": _Wrapper("", "", "reuid regid groups inh-caps", "no-new-privs clear-groups init-groups", keeps=True),
    "pkexec": _Wrapper("", "", "user", "disable-internal-agent", keeps=True),
    "run0": _Wrapper("uDg", "", "user chdir group", keeps=True),
    "strace": _Wrapper("eoOpPsSuEabI", "cCdfFhiknqrtTvVxyYzZ", keeps=True),
    "ltrace": _Wrapper("aADeFlnopsuwx", "bcCfhiLrStTV", keeps=True),
    "prlimit": _Wrapper(keeps=True),
    "numactl": _Wrapper(keeps=True),
    "systemd-run": _Wrapper("pEHMu", "Gtqdr", "property setenv unit uid gid", "user scope pty pipe wait", keeps=True),
    "bwrap": _Wrapper(keeps=True),
    "firejail": _Wrapper(keeps=True),
    "dbus-run-session": _Wrapper(keeps=True),
    "xvfb-run": _Wrapper("efnps", "al", keeps=True),
    "ssh-agent": _Wrapper("aEt", "cDdks", keeps=True),
    "sshpass": _Wrapper("fdpP", "ev"),
    "entr": _Wrapper("", "acdnprsxz", keeps=True),
    "parallel": _Wrapper("jaIN", "kmqtuvX0", "jobs", "", keeps=True),
    "npx": _Wrapper("pc", "yq", "package call", "yes no", keeps=True),
    "bunx": _Wrapper(keeps=True),
    "pipx": _Wrapper(keeps=True, skip=1),
    "poetry": _Wrapper(keeps=True, skip=1),
    "watch": _Wrapper("nq", "bcdegtpxwrC", "interval", "differences color no-title", keeps=True),
}  # fmt: skip

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"})
_SHELL_VALUED: Final = frozenset("oO")
_SHELL_LONG_VALUED: Final = frozenset({"--rcfile", "--init-file", "--startup-file"})
_ASSIGNMENT: Final = re.compile(r"([^=]*)=(.*)", re.DOTALL)
_GIT_RUNS: Final = re.compile(
    r"(?i)(alias\.|core\.(pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy)|diff\..*(external|command|textconv)"
    r"|pager\.|credential\.|filter\.|sequence\.editor|gpg\.|merge\..*driver|mergetool|difftool|include|uploadpack"
    r"|remote\..*(uploadpack|receivepack|vcs|proxy)|protocol\.|ssh\.|url\.|http\..*proxy|interactive\.difffilter)"
)
_GIT_RUN_OPTIONS: Final = re.compile(
    r"--(exec-path|upload-pack|receive-pack|exec|open-files-in-pager|extcmd|config-env|paginate|template)(=|$)|-p$|-u$|-O|-x$"
)
_AWK_RUNS: Final = re.compile(r"system\s*\(|\||getline|@load|\">|> *\"")
_SED_RUNS: Final = re.compile(
    r"(^|[;{}\n0-9$/!,])\s*[eswWrR]?e(\s|$|;)|/[gpiImM0-9]*[ew][gpiImM0-9]*(\s|$|;|})|(^|[;{\n0-9$/])\s*w\s"
)
_TAR_RUNS: Final = re.compile(
    r"--(checkpoint-action|to-command|use-compress-program|rsh-command|rmt-command|info-script|new-volume-script)\b|-[A-Za-z]*[IF]"
)
_SSH_RUNS: Final = re.compile(
    r"(?i)-o\s*(ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|Match)|(ProxyCommand|LocalCommand|KnownHostsCommand)\b"
)
_EDITOR_RUNS: Final = re.compile(r"-c$|--cmd|-S$|\+|-s$|-es$|--eval|--batch|-l$|--load|--script|-u$")
_MENTIONS_COMMAND: Final[dict[str, tuple[re.Pattern[str], str]]] = {
    "7z": (re.compile(r"-o\0"), "7z with an unknown place"),
    "awk": (_AWK_RUNS, "awk text that may run commands"),
    "bsdtar": (_TAR_RUNS, "tar with an option that runs a command"),
    "ed": (re.compile(r"!"), "ed with a shell command"),
    "emacs": (_EDITOR_RUNS, "an editor with a command"),
    "enable": (re.compile(r"-f"), "a builtin loaded from a file"),
    "ex": (_EDITOR_RUNS, "an editor with a command"),
    "fd": (re.compile(r"-x$|-X$|--exec"), "fd with a command"),
    "gawk": (_AWK_RUNS, "awk text that may run commands"),
    "gdb": (re.compile(r"-ex|-x$|--eval"), "gdb with a command"),
    "hash": (re.compile(r"-[a-z]*p"), "a command name bound to another file"),
    "man": (re.compile(r"-P|--pager|-H|--html"), "man with a pager of its own"),
    "mapfile": (re.compile(r"-[a-z]*C"), "mapfile with a callback"),
    "mawk": (_AWK_RUNS, "awk text that may run commands"),
    "nawk": (_AWK_RUNS, "awk text that may run commands"),
    "nc": (re.compile(r"-[a-zA-Z]*[ec]$|--exec|--sh-exec|--lua-exec"), "netcat with a program"),
    "ncat": (re.compile(r"-[a-zA-Z]*[ec]$|--exec|--sh-exec|--lua-exec"), "netcat with a program"),
    "netcat": (re.compile(r"-[a-zA-Z]*[ec]$|--exec|--sh-exec|--lua-exec"), "netcat with a program"),
    "nvim": (_EDITOR_RUNS, "an editor with a command"),
    "readarray": (re.compile(r"-[a-z]*C"), "mapfile with a callback"),
    "rg": (re.compile(r"--pre(=|$)|--hostname-bin"), "rg with a preprocessor"),
    "rsync": (re.compile(r"-[a-zA-Z]*e|--rsh|--rsync-path"), "rsync with a remote shell of its own"),
    "scp": (re.compile(r"-S|(?i:-o\s*(proxy|local)command|proxycommand)"), "scp with a command"),
    "script": (re.compile(r"-[a-z]*c|--command"), "script with a command"),
    "sed": (_SED_RUNS, "sed text that may run commands or write files"),
    "sftp": (_SSH_RUNS, "sftp with a command"),
    "socat": (re.compile(r"(?i)(exec|system|shell):"), "socat with a program"),
    "sort": (re.compile(r"--compress-prog"), "sort with a program"),
    "split": (re.compile(r"--filter"), "split with a program"),
    "ssh": (_SSH_RUNS, "ssh with a local command"),
    "tar": (_TAR_RUNS, "tar with an option that runs a command"),
    "vi": (_EDITOR_RUNS, "an editor with a command"),
    "vim": (_EDITOR_RUNS, "an editor with a command"),
    "view": (_EDITOR_RUNS, "an editor with a command"),
    "zip": (re.compile(r"-[A-Za-z]*T|--unzip-command"), "zip with a test command"),
}  # fmt: skip
_STARTS_UP: Final = "a login or interactive shell runs start-up files"
_MAX_ROOTS: Final = 16
_STDIN_FILES: Final = ("-", "/dev/stdin", "/dev/fd/", "/proc/self/fd/")


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
    mention = _MENTIONS_COMMAND.get(program)
    if mention is not None and any(mention[0].search(word.text) for word in words[1:]):
        return Peeled(keeps=True, doubt=mention[1])
    return None


def _peel(program: str, wrapper: _Wrapper, words: Sequence[Word]) -> Peeled:
    """The command behind a wrapper's options."""
    doubt: str | None = None
    cwd: Word | None = None
    assignments: list[tuple[str, Word]] = []
    valued, flags = set(wrapper.valued), set(wrapper.flags)
    long_valued, long_flags = wrapper.long_valued.split(), wrapper.long_flags.split()
    at, skip = 1, wrapper.skip
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            while skip and at < len(words):
                at, skip = at + 1, skip - 1
            break
        if text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            if name in long_valued:
                word = Word(value) if equals else (words[at + 1] if at + 1 < len(words) else UNKNOWN)
                cwd = word if name == "chdir" else cwd
                at += 0 if equals else 1
            elif name not in long_flags:
                doubt = f"an option of {program} that is not known"
        elif text.startswith("-") and len(text) > 1:
            for place, letter in enumerate(text[1:], 2):
                if letter in valued:
                    value = text[place:]
                    word = Word(value) if value else (words[at + 1] if at + 1 < len(words) else UNKNOWN)
                    cwd = word if letter in "CD" and program in ("env", "sudo") else cwd
                    at += 0 if value else 1
                    break
                if letter not in flags and not letter.isdigit():
                    doubt = f"an option of {program} that is not known"
        else:
            found = _ASSIGNMENT.fullmatch(text) if wrapper.assigns else None
            if found:
                assignments.append((found[1], Word(found[2], words[at].glob)))
            elif skip:
                skip -= 1
            else:
                break
        at += 1
    inner = words[at:]
    if not inner:
        return Peeled(keeps=True, assignments=tuple(assignments), doubt=doubt)
    if any(HOLE in word.text.partition("=")[0] for word in words[1 : at + 1]):
        doubt = f"{program} runs a command that is not known before the run"
    if program == "watch":
        text = " ".join(word.text for word in inner)
        return Peeled(inner=(inner,), scripts=(Word(text),), keeps=True, doubt=doubt)
    while program == "time" and len(inner) > 1 and inner[0].text in ("!", "{", "time"):  # it times a whole pipeline
        inner = inner[1:]
        doubt = "time before a reserved word"
    if program == "coproc":
        doubt = "a coprocess"
    return Peeled(inner=(inner,), assignments=tuple(assignments), keeps=wrapper.keeps, doubt=doubt, cwd=cwd)


def _env(words: Sequence[Word]) -> Peeled:
    for at, word in enumerate(words[1:], 1):
        split = re.match(r"-[0iv]*S|--split-string=?", word.text)
        if split:
            text = word.text[split.end() :] or (words[at + 1].text if at + 1 < len(words) else "")
            rest = words[at + 1 :] if word.text[split.end() :] else words[at + 2 :]
            try:
                parts = [Word(part) for part in shlex.split(text)]
            except ValueError:
                return Peeled(keeps=True, doubt="env -S with text that can't be split")
            again = _env([words[0], *parts, *rest])
            return again._replace(doubt=again.doubt or ("env -S" if "$" in text or "\\" in text else None))
        if not word.text.startswith("-"):
            break
    return _peel("env", _WRAPPERS["env"], words)


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
    """`sh -c TEXT`, `sh FILE`, or a shell that reads standard input."""
    reads_text = reads_stdin = False
    doubt: str | None = None
    at = 1
    while at < len(words):
        text = words[at].text
        if HOLE in text or text == "--":
            at += text == "--"
            break
        if text in _SHELL_LONG_VALUED:
            at += 1
        elif text.startswith("--"):
            if text in ("--version", "--help"):
                return None
            if text == "--login":
                doubt = _STARTS_UP
        elif text[:1] in ("-", "+") and len(text) > 1:
            reads_text |= text[0] == "-" and "c" in text
            reads_stdin |= text[0] == "-" and "s" in text
            if text[0] == "-" and ("l" in text or "i" in text):
                doubt = _STARTS_UP
            at += sum(letter in _SHELL_VALUED for letter in text[1:])
        else:
            break
        at += 1
    if reads_text:
        if at >= len(words):
            return Peeled(keeps=True, doubt="a shell with -c and no text")
        return Peeled(scripts=(words[at],), doubt=doubt)
    if reads_stdin or at >= len(words) or words[at].text.startswith(_STDIN_FILES):
        return Peeled(keeps=True, stdin=True)
    if HOLE in words[at].text:
        return Peeled(keeps=True, doubt="a shell runs a file that is not known before the run")
    return Peeled(keeps=True, doubt=doubt) if doubt else None


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
    if len(words) < 2 or HOLE in words[1].text or words[1].text.startswith(_STDIN_FILES):
        return Peeled(keeps=True, doubt="a shell text that is not known before the run is sourced")
    return None


def _alias(words: Sequence[Word]) -> Peeled | None:
    return Peeled(keeps=True, doubt="an alias") if any("=" in word.text for word in words) else None


def _xargs(words: Sequence[Word]) -> Peeled:
    wrapper = _Wrapper(
        "adEILnPs", "0oprtxeil", "arg-file delimiter max-args max-procs max-chars max-lines replace",
        "null no-run-if-empty interactive verbose exit open-tty",
    )  # fmt: skip
    peeled = _peel("xargs", wrapper, words)
    if not peeled.inner:
        return Peeled(keeps=True, doubt=peeled.doubt)
    inner = list(peeled.inner[0])
    marker = "{}"
    for at, word in enumerate(words):
        if word.text.startswith("-I"):
            marker = word.text[2:] or (words[at + 1].text if at + 1 < len(words) else "{}")
    if any(re.match(r"-[Ii]|--replace", word.text) for word in words[: len(words) - len(inner)]):
        inner = [Word(word.text.replace(marker, HOLE), word.glob) for word in inner]
    else:
        inner.append(UNKNOWN)
    return peeled._replace(inner=(inner,))


def _find(words: Sequence[Word]) -> Peeled | None:
    """Every `-exec` of a find: `{}` stands for something below its roots."""
    roots = [Word(root.text, glob=True) if root.known else UNKNOWN for root in find_roots(words[1:])]
    if len(roots) > _MAX_ROOTS:
        roots = [UNKNOWN]
    found: list[Sequence[Word]] = []
    doubt = "find with arguments that are not known" if any(HOLE in word.text for word in words[1:]) else None
    at = 1
    while at < len(words):
        if words[at].text in ("-exec", "-execdir", "-ok", "-okdir"):
            inner: list[Word] = []
            at += 1
            while at < len(words) and words[at].text != ";":
                if words[at].text == "+" and inner and "{}" in inner[-1].text:
                    break
                inner.append(words[at])
                at += 1
            found.append([part for word in inner for part in _placeholder(word, roots)])
        at += 1
    if not found:
        return Peeled(keeps=True, doubt=doubt) if doubt else None
    return Peeled(inner=tuple(found), keeps=True, doubt=doubt)


def _placeholder(word: Word, roots: Sequence[Word]) -> Iterator[Word]:
    if word.text == "{}":
        yield from roots
    elif "{}" in word.text:
        yield Word(word.text.replace("{}", HOLE), word.glob)
    else:
        yield word


def _su(words: Sequence[Word]) -> Peeled:
    for at, word in enumerate(words):
        found = re.match(r"-[A-Za-z]*c|--command=?", word.text)
        if found:
            text = word.text[found.end() :]
            script = Word(text) if text else (words[at + 1] if at + 1 < len(words) else UNKNOWN)
            return Peeled(scripts=(script,), keeps=True)
    return Peeled(keeps=True, stdin=True)


def _flock(words: Sequence[Word]) -> Peeled:
    for at, word in enumerate(words[:-1]):
        if word.text in ("-c", "--command"):
            return Peeled(scripts=(words[at + 1],), keeps=True)
    return _peel("flock", _Wrapper("wE", "sxeonuFv", "timeout", "shared exclusive nonblock", skip=1, keeps=True), words)


def _git(words: Sequence[Word]) -> Peeled | None:
    for at, word in enumerate(words[1:], 1):
        text = word.text
        follows = words[at + 1].text if at + 1 < len(words) else ""
        configures = (text == "-c" and (_GIT_RUNS.match(follows) or HOLE in follows)) or (
            text.startswith("-c") and _GIT_RUNS.match(text[2:])
        )
        if configures or "ext::" in text or (_GIT_RUN_OPTIONS.match(text) and not _benign_git(words, text)):
            return Peeled(keeps=True, doubt="git with a setting or option that runs a command")
        if text == "config" and any(_GIT_RUNS.match(other.text) for other in words[at + 1 :]):
            return Peeled(keeps=True, doubt="git is told to run a command later")
        if text in ("bisect", "filter-branch", "submodule") and follows in ("run", "foreach"):
            return Peeled(keeps=True, doubt=f"git {text} {follows}")
    return None


def _benign_git(words: Sequence[Word], option: str) -> bool:
    """Options whose letters mean something harmless behind these verbs."""
    verb = next((word.text for word in words[1:] if not word.text.startswith("-")), "")
    if option == "-p":
        return words[1].text != "-p" and verb in ("add", "log", "diff", "show", "checkout", "stash", "reset", "commit")
    return (option, verb) in {("-u", "push"), ("-u", "add"), ("-u", "commit"), ("-u", "stash"), ("-x", "clean"),
                              ("-x", "cherry-pick"), ("-u", "diff"), ("-u", "branch")}  # fmt: skip


def _uv(words: Sequence[Word]) -> Peeled | None:
    for at, word in enumerate(words[:-1]):
        if word.text in ("run", "exec"):
            rest = words[at + 1 :]
            while rest and rest[0].text == "--":
                rest = rest[1:]
            doubt = "a runner's options" if rest and rest[0].text.startswith("-") else None
            return Peeled(inner=(rest,), keeps=True, doubt=doubt) if rest else None
    return None


_SPECIAL: Final[dict[str, Callable[[Sequence[Word]], Peeled | None]]] = {
    ".": _source, "alias": _alias, "command": _command, "env": _env, "eval": _eval, "find": _find, "flock": _flock,
    "git": _git, "poetry": _uv, "runuser": _su, "source": _source, "su": _su, "sudo": _sudo, "trap": _trap,
    "uv": _uv, "xargs": _xargs,
}  # fmt: skip
