"""Shell scripts grown from the constructs that change what words mean, and what bash really executes for one.

Every leaf program is a shim that logs its argv and does nothing else; wrappers (env, xargs, find …) are real. The words
are a closed list, so no script reads or writes beside its directory, and it runs without a network.
"""

import fnmatch
import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

import msgspec

from opensafe.normalize.shell import ShellParse

from .draw import Draw

LEAVES: Final = ("id", "cat", "ls", "rm", "wc")
_REAL: Final = ("bash", "env", "xargs", "find", "timeout", "sed", "touch", "mkdir", "nice", "nohup", "setsid", "stdbuf")
_VALUES: Final = ("id", "ls", "a", "5", "b/c", "-V", "''", "cat", "1", "'a[$(id)]'", "'$(id)'", '"`id`"')
_NAMES: Final = ("x", "y", "z")
_ENDS: Final = ("; ", "\n", " && ", " || ", " & wait; ", "\\\n; ", " # c\n", " | ")
_PIECES: Final = (
    "", ";;", "fi", ")", "(",
    "'", '"', "`", "\\", "\n", "<<E\n", "\nE\n", "}", "{", "$(", "#", " ", "&", "|", "do", "done",
    "esac", "$'", "<(", "!", "]]", "((", "\t", "\\\n", "&&", "id ", "function ", "coproc ", "then",
)  # fmt: skip
_RUN_S: Final = 20
SHIM: Final = """#!/bin/bash
for argument in "${0##*/}" "$@"; do printf '%s\\0' "$argument"; done >> "$SHIM_LOG/$$"
"""


def script(draw: Draw) -> str:
    """One script. The same choices make the same."""
    return draw.pick(_ENDS).join(_statement(draw, 2) for _ in range(draw.number(1, 4)))


def damaged(draw: Draw, text: str) -> str:
    """The text with pieces of grammar put in or taken out where they do not belong."""
    for _ in range(draw.number(1, 3)):
        at = draw.number(0, len(text))
        text = text[:at] + draw.pick(_PIECES) + text[at + draw.number(0, 3) :]
    return text


def _word(draw: Draw) -> str:
    name = draw.pick(_NAMES)
    unusual = (
        f"${name}", f'"${name}"', f"${{{name}}}", f"${{{name}:-id}}", f"${{{name}@Q}}", f"${{!{name}}}", "*", "~",
        f"${{{name}@P}}", "`echo \\`id\\``", '"$@"', '"$1"', "$((x))", f"$(({name} + 1))", "${a[x]}", "{a,b}",
        f"${{{name}:x}}", f"$(echo {draw.pick(_VALUES)})", "$'\\x69d'", 'i""d', "<(id)", "[a]", "$IFS", "${x:1}",
    )  # fmt: skip
    return draw.pick((*_VALUES, *unusual))


def _simple(draw: Draw) -> str:
    others = (
        "$x", '"$y"', "f", "g", "\\id", "i''d", "command id", "builtin echo", "env A=1 id", "nice -n 1 id", "nohup id",
        "timeout 5 id", "stdbuf -oL id", "setsid id", "exec id", "time id", "! id", "env -S 'id a'", "command -p id",
    )  # fmt: skip
    return f"{draw.pick((*LEAVES, *others))} {_word(draw)}"


def _statement(draw: Draw, depth: int) -> str:
    kind = draw.number(0, 3)
    if kind == 0:
        return _simple(draw)
    if depth == 0 or kind < 3:
        return _plain(draw)
    one, two = _statement(draw, depth - 1), _statement(draw, depth - 1)
    value = draw.pick(_VALUES)
    return draw.pick((
        f"{{ {one}; {two}; }}", f"( {one}; {two} )", f"if {one}; then {two}; fi", f"{one} | {two}",
        f"for x in {value} b; do {one}; done", f"n=0; while [ $n -lt 2 ]; do {one}; {two}; n=$((n+1)); done",
        f"{{ {one}; }} > out", f"{one} && {two} > out", f'echo "$({one})"', f"f() {{ {one}; }}; {two}; f {value}",
        f"{{ {one}; }} & wait; {two}", f"case {value} in *) {one};; esac", f"bash <<E\n{one}\nE",
        f"cat <<'E'\n{one}\nE",
        f"eval '{one}'" if "'" not in one else one, f"until {one}; do {two}; break; done",
    ))  # fmt: skip


def _plain(draw: Draw) -> str:
    name, value, leaf = draw.pick(_NAMES), draw.pick(_VALUES), draw.pick(LEAVES)
    match draw.number(0, 3):
        case 0:
            return f"{name}={value}"
        case 1:
            return draw.pick((
                f"f() {{ {_simple(draw)}; }}", f"f {value}", f"g() {{ cd d; {name}={value}; }}", "g", "unset -f f",
                f"alias id={value}", f"trap {value} EXIT", f"eval {value}", f"bash -c {value}",
                f". /dev/stdin <<< {value}",
                f"{name}={value} bash -c 'echo $(({name}))'", "export -f f; bash -c f", "hash -p s id; id",
            ))  # fmt: skip
        case 2:
            return draw.pick((
                f"ls | xargs {leaf}", f"echo id | xargs -I{{}} {draw.pick(('{}', 'ls {}', 'sh -c {}'))}",
                f"sed -n '1{draw.pick(('e id', 'p', 'd', 'w out'))}' s", f"find d -name e -exec {leaf} {{}} \\;",
                f"find d -name e -execdir {leaf} a +", f"echo q > {draw.pick(('out', 'd/out', '$y'))}", f"{leaf} < s",
                f"{leaf} &> out", f"{leaf} 2>&1 >| out", f"echo {value} | sh", f"xargs -a s {leaf}",
            ))  # fmt: skip
        case _:
            return draw.pick((
                f"read {name} <<< {value}", f"printf -v {name} %s {value}",
                f"cd {draw.pick(('d', 'd/e', '..', '-', '$x'))}",
                f"let {name}", "shift", f"set -- {value}", f"unset {name}", f"declare -i {name}",
                f"export {name}={value}",
                f"[[ {name} -eq 0 ]]", f"(({name}))", f"[ {_word(draw)} ]", "popd", "pushd d", f"mapfile -t {name} < s",
                f"IFS={value}", "PATH=d:$PATH", f"readonly {name}={value}", f"declare -n {name}=y", "set -f", "set -e",
            ))  # fmt: skip


class Executed(msgspec.Struct, frozen=True):
    """argvs: with which leaf programs were started. made: files, relative to the directory. read: bash took it all."""

    argvs: tuple[tuple[str, ...], ...]
    made: frozenset[str]


class Shell:
    """Runs scripts in a directory of its own, which it fills with shims."""

    def __init__(self, place: pathlib.Path) -> None:
        self._place = place
        self._shims = place / "shims"
        self._shims.mkdir(parents=True)
        for name in LEAVES:
            (self._shims / name).write_text(SHIM)
            (self._shims / name).chmod(0o755)
        for name in _REAL:
            if real := shutil.which(name):
                (self._shims / name).symlink_to(real)
        (self._shims / "sh").symlink_to("/bin/bash")

    def run(self, text: str) -> Executed:
        """What bash executes, in a fresh directory and a network of its own with nothing in it."""
        log, cwd = self._place / "log", self._place / "cwd"
        for directory in (log, cwd):
            shutil.rmtree(directory, ignore_errors=True)
        log.mkdir()
        (cwd / "d" / "e").mkdir(parents=True)
        (cwd / "s").write_text("a\nb\n")
        before = {str(file.relative_to(cwd)) for file in cwd.rglob("*")}
        environment = {"PATH": str(self._shims), "SHIM_LOG": str(log), "HOME": "/workspace", "LANG": "C.UTF-8"}
        argv = ["/usr/bin/unshare", "--map-root-user", "--net", "/bin/bash", "--noprofile", "--norc", "-c"]
        subprocess.run(
            [*argv, f"ulimit -f 64 -t 5\n{text}"],
            cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_RUN_S, check=False,
        )  # fmt: skip
        records = [[os.fsdecode(part) for part in record.read_bytes().split(b"\0")] for record in log.iterdir()]
        made = {str(file.relative_to(cwd)) for file in cwd.rglob("*")} - before
        return Executed(tuple(tuple(record[:-1]) for record in records), frozenset(made))


def matches(predicted: Sequence[str | None], executed: Sequence[str]) -> bool:
    """Whether `executed` is an instance of `predicted`, in which None stands for any number of words."""
    if not predicted:
        return not executed
    if predicted[0] is None:
        return any(matches(predicted[1:], executed[at:]) for at in range(len(executed) + 1))
    return bool(executed) and predicted[0] == executed[0] and matches(predicted[1:], executed[1:])


def covered(parse: ShellParse, executed: Sequence[str]) -> bool:
    """Whether one of the predicted commands is the one that was executed."""
    commands = [(command.program, *command.argv[1:]) for command in parse.commands if command.argv]
    return any(matches(predicted, executed) for predicted in commands)


def written(parse: ShellParse, made: str, workspace: str = "/workspace") -> bool:
    """Whether one of the predicted writes is the file that was made, by name or by a pattern of its directory."""
    directory, _, name = f"{workspace}/{made}".rpartition("/")
    for path, glob in parse.writes:
        above, _, pattern = path.rpartition("/")
        if above == directory and (fnmatch.fnmatchcase(name, pattern) if glob else name == pattern):
            return True
    return False
