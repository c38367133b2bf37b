"""Shell builtins that change what later words mean: variables set by name, options, functions, arithmetic.

By positive list: an option of `set`, `shopt` or `declare` that is not known here is a doubt.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from .environment import changes_behaviour
from .word import HOLE, Word


class State(Protocol):
    """What a builtin may change."""

    lost: set[str]
    numeric: Callable[[str], bool]

    def doubt(self, reason: str) -> None:
        """Something is not understood."""

    def lose(self, what: str) -> None:
        """Something can't be relied on any more."""


_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[0-9]*\])?")
_SET_LETTERS: Final = re.compile(r"[-+][euxvnbhmCETo]*")
_SET_NAMES: Final = frozenset(
    {"errexit", "nounset", "xtrace", "verbose", "pipefail", "noclobber", "errtrace", "functrace", "monitor", "notify"}
)
_SHOPT_NAMES: Final = frozenset(
    {"nullglob", "failglob", "globstar", "extglob", "checkwinsize", "inherit_errexit", "histappend", "cmdhist"}
)  # fmt: skip
_DECLARE_LETTERS: Final = re.compile(r"[-+][aAgpxrfF]+")
_READ_VALUED: Final = frozenset("adinNptu")
_EVALUATES: Final = frozenset({"wait", "compgen", "complete", "compopt", "bind", "fc", "history", "enable"})
_BINARY: Final = frozenset(
    {"=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "=~"}
)
_LET: Final = re.compile(r"[A-Za-z_]\w*(?:\+\+|--|(?:\*\*|[-+*/%])?=[-+*/%()\w]+)")


def judge_builtin(program: str, words: Sequence[Word], state: State) -> None:
    """Account for what a builtin of this name changes in the shell itself; nothing for any other program."""
    judge = _JUDGES.get(program)
    if judge is not None:
        judge(program, words[1:], state)
    elif program in _EVALUATES and any(program != "wait" or word.text.startswith("-") for word in words[1:]):
        state.doubt(f"{program} with arguments that the shell evaluates")


def _sets(name: str, word: Word, state: State, value: str | None = None) -> None:
    """A variable is set by name, to `value` where that is known."""
    found = _NAME.fullmatch(word.text)
    if found is None:
        state.lose("names")
        state.doubt(f"{name} sets a variable whose name is not a plain one")
        return
    state.lose(f"${found[1]}")
    if changes_behaviour(found[1], value):
        state.doubt(f"{name} sets {found[1]}, which may change what programs do")


def _read(program: str, args: Sequence[Word], state: State) -> None:
    rest = list(args)
    while rest and rest[0].text.startswith("-") and rest[0].text != "-":
        word = rest.pop(0)
        if word.text == "--":
            break
        for at, letter in enumerate(word.text[1:], 2):
            if letter == HOLE:
                state.lose("names")
                state.doubt(f"{program} with an option that is not known")
            if letter in _READ_VALUED:
                glued = word.text[at:]
                value = word.part(glued) if glued else (rest.pop(0) if rest else Word(""))
                if letter == "a":
                    _sets(program, value, state)
                break
    for word in rest:
        _sets(program, word, state)


def _mapfile(program: str, args: Sequence[Word], state: State) -> None:
    plain = all(re.fullmatch(r"-t|-[dnOsu].*|[^-\0].*", word.text, re.DOTALL) for word in args)
    if not plain:
        state.doubt(f"{program} with an option that is not known or a callback")
    for word in args:
        if not word.text.startswith("-") and not word.text.isdigit():
            _sets(program, word, state)


def _printf(program: str, args: Sequence[Word], state: State) -> None:
    if not args:
        return
    first = args[0]
    if first.text.startswith("-v"):
        _sets(program, first.part(first.text[2:]) if len(first.text) > 2 else (*args, Word(""))[1], state)
    elif first.may_be_option:
        state.lose("names")
        if first.split:
            state.doubt("printf with an option that is not known")


def _declare(program: str, args: Sequence[Word], state: State) -> None:
    plain = not any(word.text[:1] in ("-", "+", HOLE) or HOLE in word.text.partition("=")[0] for word in args)
    for word in args:
        if word.text[:1] in ("-", "+"):
            if not _DECLARE_LETTERS.fullmatch(word.text) and not re.fullmatch(r"[-+]([ulnf]|--)", word.text):
                state.doubt(f"{program} with an attribute by which values are evaluated")
            elif "n" in word.text:
                state.doubt(f"{program} makes a name stand for another")
            continue
        name, equals, value = word.text.partition("=")
        if "(" in value[:1]:
            continue
        given = word.part(value).fixed() if equals else None
        if plain and _NAME.fullmatch(name) and not changes_behaviour(name, given):
            continue  # the text mentions the name here, and that is counted
        _sets(program, word.part(name.removesuffix("+")), state, given)
        if equals and "[$(" in value:
            state.doubt(f"{program} gives a variable a subscript that runs commands")


def _unset(_program: str, args: Sequence[Word], state: State) -> None:
    if any(word.text != "-v" for word in args) and not any(word.text == "-v" for word in args):
        state.lose("functions")
    for word in args:
        if not word.text.startswith("-"):
            _sets("unset", word, state)


def _let(_program: str, args: Sequence[Word], state: State) -> None:
    for word in args:
        text = word.text.replace(" ", "")
        plain = _LET.fullmatch(text) is not None and HOLE not in text
        if not plain or not all(state.numeric(name) for name in re.findall(r"[A-Za-z_]\w*", text)):
            state.doubt("let on what may not be a number, which may run commands")
        for name in re.findall(r"[A-Za-z_]\w*", word.text):
            state.lose(f"${name}")


def _set(_program: str, args: Sequence[Word], state: State) -> None:
    rest = list(args)
    if any(word.text in ("-", "--") for word in args) or not args:
        state.lose("arguments")
    while rest and (rest[0].text[:1] in ("-", "+") or HOLE in rest[0].text):
        word = rest.pop(0)
        if word.text in ("-", "--"):
            return
        if word.may_be_option or not _SET_LETTERS.fullmatch(word.text):
            state.doubt("set with an option that changes what words mean")
        for letter in word.text[1:]:
            if letter == "o" and rest and rest.pop(0).text not in _SET_NAMES:
                state.doubt("set with an option that changes what words mean")
    if rest:
        state.lose("arguments")


def _shopt(_program: str, args: Sequence[Word], state: State) -> None:
    for word in args:
        if word.text not in _SHOPT_NAMES and not re.fullmatch(r"-[supq]+", word.text):
            state.doubt("shopt with an option that changes what words mean")


def _shift(_program: str, _args: Sequence[Word], state: State) -> None:
    state.lose("arguments")


def _source(_program: str, _args: Sequence[Word], state: State) -> None:
    for what in ("names", "arguments", "functions"):
        state.lose(what)


def _test(program: str, args: Sequence[Word], state: State) -> None:
    for at, word in enumerate(args):
        follows = args[at + 1].text if at + 1 < len(args) else ""
        if word.text in ("-v", "-R") and not _NAME.fullmatch(follows):
            state.doubt(f"{program} -v evaluates what is no plain name")
        if HOLE not in word.text:
            continue
        operand = (
            follows in _BINARY or follows in ("", "]") or (at and args[at - 1].text[:1] in ("-", "=", "!", "<", ">"))
        )
        if word.split or (word.text[0] == HOLE and not operand):
            state.doubt(f"{program} with a word that may be an operator")


def _getopts(program: str, args: Sequence[Word], state: State) -> None:
    for word in (*args[1:2], Word("OPTARG"), Word("OPTIND")):
        _sets(program, word, state)


def _hash(_program: str, args: Sequence[Word], state: State) -> None:
    if any((word.text[:1] == "-" and word.text != "-r") or HOLE in word.text for word in args):
        state.doubt("a command's name is bound to another file")


_JUDGES: Final[dict[str, Callable[[str, Sequence[Word], State], None]]] = {
    ".": _source, "[": _test, "declare": _declare, "eval": _source, "export": _declare, "hash": _hash, "let": _let,
    "local": _declare, "mapfile": _mapfile, "printf": _printf, "read": _read, "readarray": _mapfile,
    "readonly": _declare, "set": _set, "shift": _shift, "shopt": _shopt, "source": _source, "test": _test,
    "getopts": _getopts, "typeset": _declare, "unset": _unset,
}  # fmt: skip

_OTHERS: Final = frozenset(
    [
        ":",
        "alias",
        "bg",
        "bind",
        "break",
        "builtin",
        "caller",
        "cd",
        "command",
        "compgen",
        "complete",
        "compopt",
        "continue",
        "coproc",
        "dirs",
        "disown",
        "echo",
        "enable",
        "exec",
        "exit",
        "false",
        "fc",
        "fg",
        "help",
        "history",
        "jobs",
        "kill",
        "logout",
        "popd",
        "pushd",
        "pwd",
        "return",
        "suspend",
        "time",
        "times",
        "trap",
        "true",
        "type",
        "ulimit",
        "umask",
        "unalias",
        "wait",
    ]
)


def is_builtin(name: str) -> bool:
    """Whether bash has a command of this name of its own."""
    return name in _JUDGES or name in _OTHERS
