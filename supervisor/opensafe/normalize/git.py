"""git: peers and files of its verbs; settings by a positive list; options that start programs or write elsewhere.

git completes shortened options, so a shortened one counts as the dangerous option it may stand for. It has too many
verbs for a full table of each: what is held here is each option by which git runs a program, writes or reads a file.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from .network_operands import remote_of
from .options import LOOKS_LIKE_PATH, Use, path_like
from .word import HOLE, UNKNOWN, Word

_SETTINGS: Final = re.compile(
    r"user\.(?:name|email|signingkey)|author\.(?:name|email)|committer\.(?:name|email)|color\.[\w.]+|advice\.\w+"
    r"|column\.\w+|core\.(?:autocrlf|filemode|eol|quotepath|ignorecase|longpaths|safecrlf|abbrev|precomposeunicode|symlinks"
    r"|preloadindex|untrackedcache)|init\.defaultbranch|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote|followtags)"
    r"|fetch\.(?:prune|prunetags|parallel)|merge\.(?:ff|conflictstyle|log|renames)|rebase\.(?:autostash|autosquash|updaterefs)"
    r"|commit\.(?:gpgsign|verbose)|tag\.(?:sort|gpgsign)|branch\.(?:sort|autosetuprebase|autosetupmerge)|status\.\w+|log\.\w+"
    r"|diff\.(?:renames|algorithm|colormoved|mnemonicprefix|noprefix|context|renamelimit|wserrorhighlight)|rerere\.\w+"
    r"|grep\.\w+|gc\.auto|maintenance\.auto|format\.pretty|blame\.\w+|help\.autocorrect|versionsort\.suffix|feature\.\w+",
    re.IGNORECASE,
)
_GLOBAL_FLAGS: Final = frozenset(
    {"--bare", "--glob-pathspecs", "--help", "--html-path", "--icase-pathspecs", "--literal-pathspecs",
     "--man-path", "--no-advice", "--no-optional-locks", "--no-pager", "--no-replace-objects",
     "--noglob-pathspecs", "--version", "-P", "-h", "-v"}
)  # fmt: skip
_RUNS: Final = (
    "exec", "upload-pack", "receive-pack", "open-files-in-pager", "ext-diff", "textconv", "template",
    "separate-git-dir", "extcmd", "edit", "paginate", "config-env", "exec-path", "rename-section",
    "remove-section", "remote", "editor", "tool", "trailer", "sequence-editor", "upload-archive",
    "interactive-filter",
)  # fmt: skip
_WRITES: Final = ("output", "output-directory", "export-marks", "signature-file")
_READS: Final = (
    "pathspec-from-file",
    "exclude-from",
    "ignore-revs-file",
    "contents",
    "from-file",
    "import-marks",
    "file",
)
_HARMLESS: Final = frozenset(
    {"edit", "exclude", "exclude-standard", "ff", "ff-only", "files", "first-parent", "fixup", "follow",
     "force", "format", "from", "full-history", "no-edit", "oneline", "only", "onto", "ours", "out",
     "patch", "pretty", "rebase", "ref", "refs", "remote", "remotes", "reset-author", "reverse",
     "signoff", "tags", "text", "theirs", "to", "topo-order", "track"}
)  # fmt: skip
_VALUED: Final = frozenset(
    [
        "-m",
        "-am",
        "-b",
        "-B",
        "-C",
        "-c",
        "-n",
        "-S",
        "-G",
        "-L",
        "-X",
        "-s",
        "--message",
        "--author",
        "--date",
        "--format",
        "--pretty",
        "--since",
        "--until",
        "--after",
        "--before",
        "--grep",
        "--abbrev",
        "--onto",
        "--strategy",
        "--strategy-option",
        "--max-count",
        "--skip",
        "--depth",
        "--branch",
        "--origin",
        "--sort",
        "--points-at",
        "--contains",
        "--merged",
        "--no-merged",
        "--diff-filter",
        "--fixup",
        "--squash",
        "--cleanup",
        "-l",
        "--prefix",
    ]
)
_SHORT_RUNS: Final[dict[str, str]] = {
    "rebase": "x",
    "grep": "O",
    "difftool": "x",
    "clone": "uc",
    "config": "e",
}
_SHORT_WRITES: Final[dict[str, str]] = {"format-patch": "o", "archive": "o", "config": "f"}
_SHORT_READS: Final[dict[str, str]] = {
    "commit": "Ft",
    "tag": "F",
    "notes": "F",
    "merge": "F",
    "blame": "S",
    "log": "O",
    "diff": "O",
    "show": "O",
    "ls-files": "X",
    "format-patch": "O",
    "annotate": "S",
}
_REMOTE: Final = frozenset(
    {"clone", "fetch", "pull", "push", "ls-remote", "remote", "submodule", "archive", "request-pull", "bundle"}
)  # fmt: skip
_SHOWS: Final = frozenset(
    {"show", "cat-file", "diff", "checkout", "restore", "archive", "grep", "log", "blame", "ls-tree", "whatchanged",
     "stash", "annotate", "diff-tree", "diff-index", "diff-files", "format-patch", "range-diff"}
)  # fmt: skip
#: A pathspec by which something is chosen: all but those of exclusion.
_PATHSPEC: Final = re.compile(r"(?::/|:\((?![^)]*exclude)[^)]*\))?([^:].*)", re.DOTALL)
_RUN_SETTINGS: Final = re.compile(
    r"core\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy)|pager\.\w+|diff\.external|sequence\.editor|gpg\.program"
    r"|(?:alias|credential|difftool|mergetool|filter|diff|merge|interactive|browser|man)\..*"
    r"(?:helper|cmd|clean|smudge|process|textconv|command|driver|difffilter|path)|alias\..*",
    re.IGNORECASE,
)
_QUIET: Final = re.compile(
    r"(?i:core\.(?:pager|editor)|pager\.\w+|sequence\.editor)=(?:|cat|less|more|true|false|:|head|tail)"
)
#: Short options whose value follows, where that holds for some verbs only.
_VALUED_FOR: Final[dict[str, frozenset[str]]] = {
    "-C": frozenset({"commit"}),
    "-c": frozenset({"commit", "switch", "clone", "submodule"}),
    "-S": frozenset(
        {"log", "show", "diff", "whatchanged", "rev-list", "diff-tree", "diff-index", "diff-files", "format-patch"}
    ),
    "-n": frozenset({"log", "show", "rev-list", "whatchanged", "shortlog", "reflog", "format-patch", "name-rev"}),
    "-s": frozenset({"merge", "rebase", "pull", "checkout", "cherry-pick", "revert"}),
}
_READ_CONFIG: Final = frozenset(
    {"--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "get", "list", "--get-color"}
)
_RUNNING_VERBS: Final = {
    ("bisect", "run"),
    ("submodule", "foreach"),
    ("filter-branch", ""),
    ("difftool", ""),
    ("mergetool", ""),
}


#: What `git clean` deletes, by a name that may stand for any: files of the work tree that no commit holds.
_UNTRACKED: Final = Word("./untracked")


def git(args: Sequence[Word]) -> Iterator[Use]:
    """What git does with its arguments (without argv[0])."""
    place, rest, uses = _globals(args)
    yield from uses
    if not rest:
        return
    verb, rest = rest[0].text, rest[1:]
    runs = rest[0].text if rest else ""
    if (verb, runs) == ("bisect", "run") and all(word.fixed() is not None for word in rest):
        return  # what it runs is listed: see git_scripts
    if (verb, runs) in _RUNNING_VERBS or (verb, "") in _RUNNING_VERBS:
        yield Use("doubt", Word(f"git {verb} runs a command"))
    if verb == "config":
        yield from _config(rest)
        return
    operands: list[Word] = []
    for use in _options(verb, rest, operands):
        yield _placed(use, place)
    for use in _verb(verb, rest, operands):
        yield _placed(use, place)


def _globals(args: Sequence[Word]) -> tuple[str, Sequence[Word], list[Use]]:
    """The options before the verb: where git goes, the verb and what follows, and what the options do."""
    place, uses, at = "", [], 0
    while at < len(args):
        text = args[at].text
        value = args[at + 1] if at + 1 < len(args) else UNKNOWN
        if text == "-C":
            place = value.text if value.text[:1] == "/" or not place else f"{place}/{value.text}"
            uses.append(Use("read", value))
            at += 2
        elif text[:2] == "-c" and text[:3] != "-co":
            setting = args[at].part(text[2:]) if len(text) > 2 else value
            uses += _setting(setting, setting.text.partition("=")[2])
            at += 1 if len(text) > 2 else 2
        elif re.match(r"--(git-dir|work-tree|namespace)(=|$)", text):
            glued = "=" in text
            place_word = args[at].part(text.partition("=")[2]) if glued else value
            uses += [Use("read", place_word), Use("write", place_word)]
            place = place_word.text if text.startswith("--work-tree") else place
            at += 1 if glued else 2
        elif text in _GLOBAL_FLAGS:
            at += 1
        elif text[:1] == "-" or args[at].may_be_option:
            uses.append(Use("doubt", Word(f"git with the option {text[:40]!r}, which may run a program")))
            at += 1
        else:
            break
    return place, args[at:], uses


def git_scripts(words: Sequence[Word]) -> list[Word]:
    """The shell texts that settings and verbs hand to git; each is a doubt of `git` as well."""
    texts = [word.text for word in words]
    found: list[Word] = []
    for at, word in enumerate(words):
        name, equals, value = word.text.removeprefix("-c").partition("=")
        if equals and value and _RUN_SETTINGS.fullmatch(name) and (texts[at - 1] == "-c" or texts[at][:2] == "-c"):
            found.append(word.part(value.removeprefix("!")))
        elif _RUN_SETTINGS.fullmatch(word.text) and "config" in texts[:at] and at + 1 < len(words):
            found.append(words[at + 1].part(texts[at + 1].removeprefix("!")))
        elif (
            word.text in ("--exec", "-x", "--extcmd")
            and not {"difftool", "rebase"}.isdisjoint(texts[:at])
            and at + 1 < len(words)
        ):
            found.append(words[at + 1])
        elif re.match(
            r"--(?:exec|extcmd|(?:tree|index|msg|env|commit|parent)-filter)=|-O(?=.)|--open-files-in-pager=", word.text
        ):
            found.append(word.part(re.sub(r"-O|--[a-z-]+=", "", word.text, count=1)))
        elif re.fullmatch(r"--(?:tree|index|msg|env|commit|parent)-filter", word.text) and at + 1 < len(words):
            found.append(words[at + 1])
        elif word.text in ("run", "foreach") and texts[at - 1] in ("bisect", "submodule"):
            rest = [text for text in texts[at + 1 :] if text != "--recursive"]
            found.append(Word(shlex.join(rest) if HOLE not in "".join(rest) else " ".join(rest)))
    return [script for script in found if script.text and "\n" not in script.text]


def _setting(word: Word, value: str) -> list[Use]:
    name = word.text.partition("=")[0]
    if _QUIET.fullmatch(word.text):
        return []
    if HOLE in name or not _SETTINGS.fullmatch(name) or (name == "help.autocorrect" and value):
        return [Use("doubt", Word("git with a setting that may run a program"))]
    return []


def _config(rest: Sequence[Word]) -> Iterator[Use]:
    """`git config`: questions, and settings of the positive list."""
    operands: list[Word] = []
    uses = list(_options("config", rest, operands))
    if any(word.text in _READ_CONFIG for word in rest):
        yield from (use for use in uses if use.role != "write")
        return
    yield from uses
    if operands and operands[0].text in ("set", "unset"):
        operands = operands[1:]
    if any(word.may_be_option for word in rest[:1]):
        yield Use("doubt", Word("git with a setting that is not known before the run"))
    if len(operands) > 1 or any(word.text.startswith("--un") for word in rest):
        for key in operands[:1]:
            yield from _setting(key, "")


def _options(verb: str, rest: Sequence[Word], operands: list[Word]) -> Iterator[Use]:
    """What the options behind a verb do; all else goes to `operands`."""
    at, ended = 0, False
    while at < len(rest):
        word, text = rest[at], rest[at].text
        value = rest[at + 1] if at + 1 < len(rest) else UNKNOWN
        at += 1
        if ended or (text[:1] != "-" and not word.may_be_option) or text == "-":
            operands.append(word)
        elif text == "--":
            ended = True
        elif word.may_be_option:
            yield Use("doubt", Word("an option may come from what is not known before the run"))
            operands.append(word)
        elif text[:2] == "--":
            name, equals, given = text[2:].partition("=")
            target = word.part(given) if equals else value
            if HOLE in name:
                yield Use("doubt", Word("an option that is not known before the run"))
            elif name in _HARMLESS:
                at += text in _VALUED
            elif _may_be(name, _RUNS) and not (verb == "commit" and name.startswith("tem")):
                yield Use("doubt", Word(f"git {verb} --{name[:40]} may run a program"))
            elif _may_be(name, _WRITES):
                yield Use("write", target)
                at += 0 if equals else 1
                if name not in _WRITES:
                    yield Use("doubt", Word(f"git {verb} --{name[:40]} may write a file"))
            elif _may_be(name, _READS):
                yield Use("write" if verb == "config" else "read", target)
                at += 0 if equals else 1
            elif text in _VALUED:
                at += 1
        elif text in _VALUED and text[1:] not in _SHORT_RUNS.get(verb, ""):
            at += text not in _VALUED_FOR or verb in _VALUED_FOR[text]
        else:
            yield from _cluster(verb, word, value)
            if text[-1] in _SHORT_WRITES.get(verb, "") + _SHORT_READS.get(verb, ""):
                at += 1


def _cluster(verb: str, word: Word, value: Word) -> Iterator[Use]:
    for place, letter in enumerate(word.text[1:], 2):
        target = word.part(word.text[place:]) if word.text[place:] else value
        if letter == HOLE:
            yield Use("doubt", Word("an option that is not known before the run"))
            return
        if letter in _SHORT_RUNS.get(verb, ""):
            yield Use("doubt", Word(f"git {verb} -{letter} may run a program"))
            return
        if letter in _SHORT_WRITES.get(verb, ""):
            yield Use("write", target)
            return
        if letter in _SHORT_READS.get(verb, ""):
            yield Use("read", target)
            return
        if f"-{letter}" in _VALUED:
            return


def _may_be(name: str, options: Sequence[str]) -> bool:
    return any(option.startswith(name) for option in options) if len(name) > 1 else False


def _placed(use: Use, place: str) -> Use:
    text = use.word.text
    if not place or use.role in ("host", "doubt") or text[:1] == "/" or HOLE in text:
        return use
    return use._replace(word=use.word.part(f"{place}/{text}"))


def _brought(verb: str, rest: Sequence[Word], operands: Sequence[Word]) -> Iterator[Use]:
    """The files that come from another commit: what they hold is not what was reviewed here."""
    texts = [word.text for word in rest]
    if verb == "restore":
        if any(re.match(r"-s|--source", text) for text in texts):
            sources = [value.text for option, value in pairwise(rest) if option.text in ("-s", "--source")]
            yield from (Use("write", word) for word in operands if word.text not in sources)
    elif "--" in texts[1:]:
        at = texts.index("--")
        if texts[at - 1][:1] != "-" and texts[at - 1] != "HEAD":
            yield from (Use("write", word) for word in rest[at + 1 :])


def _verb(verb: str, rest: Sequence[Word], operands: Sequence[Word]) -> Iterator[Use]:
    if verb in _REMOTE:
        for word in operands:
            if "ext::" in word.text or word.text.startswith("-"):
                yield Use("doubt", Word("git with a transport that runs a program"))
            remote = remote_of(word) if "://" not in word.text else None
            if remote is not None and ("@" in word.text or "." in word.text.partition(":")[0] or verb == "clone"):
                yield remote
            elif verb == "clone" and HOLE in word.text and "://" not in word.text:
                yield Use("host", UNKNOWN)
    if verb in _SHOWS:
        named = operands[1:] if verb == "archive" else operands
        ends = next((at for at, word in enumerate(rest) if word.text == "--"), len(rest))
        for word in operands:
            path = re.sub(r"^[0-3]:", "", word.text.partition(":")[2])
            if path and "://" not in word.text and not word.text.startswith((":!", ":^", ":(")):
                yield Use("read", word.part(path))
        if verb not in ("checkout", "restore"):
            yield from path_like([word for word in named if ":" not in word.text])
            yield from (
                Use("read", word.part(found[1])) for word in rest[ends + 1 :] if (found := _PATHSPEC.match(word.text))
            )
    if verb in ("checkout", "restore"):
        yield from _brought(verb, rest, operands)
    if any(word.text[:7] == "--no-in" for word in rest):
        yield from (Use("read", word) for word in operands)
    if verb == "clone" and operands:
        if len(operands) > 1:
            yield Use("write", operands[-1])
        else:
            name = re.split(r"[/:]", operands[0].text.rstrip("/"))[-1].removesuffix(".git")
            yield Use("write", Word(name) if name and HOLE not in name else Word("."))
    elif verb == "rm" and any(word.text == "--cached" for word in rest):
        pass  # the work tree is left alone
    elif verb in ("rm", "clean"):
        yield from (Use("delete", word) for word in operands)
        if verb == "clean" and not operands:
            yield Use("delete", _UNTRACKED)
    elif verb == "mv":
        for word in operands[:-1]:
            yield Use("read", word)
            yield Use("delete", word)
        yield from (Use("write", word) for word in operands[-1:])
    elif verb in ("add", "diff", "blame", "apply", "am", "hash-object"):
        yield from path_like(operands)
        if verb in ("hash-object", "apply", "am"):
            yield from (Use("read", word) for word in operands if not LOOKS_LIKE_PATH.match(word.text))
    elif verb == "init":
        yield Use("write", operands[0] if operands else Word("."))
    elif verb in ("bundle", "worktree") and operands and operands[0].text in ("create", "add", "move"):
        yield from (Use("write", word) for word in operands[1:2])
