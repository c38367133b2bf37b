"""F7: scripts made at random from the constructs that change what words mean, run by bash with recording shims.

Each script is made from its number alone, so that a failure names the script that repeats it. What bash executed was
predicted, or the script was called opaque; what it wrote was listed, or the script was called opaque.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from opensafe.normalize.shell import parse_shell
from tests.harness.shims import SHIM, covered

SCRIPTS = 120
LEAVES = ("id", "cat", "ls", "rm", "wc")
REAL = ("bash", "env", "xargs", "find", "timeout", "sed", "touch", "mkdir")
VALUES = ("id", "ls", "a", "5", "b/c", "-V", "''", "cat", "1", "'a[$(id)]'", "'$(id)'", '"`id`"')
NAMES = ("x", "y", "z")


class _Maker:
    """One script, grown from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def script(self) -> str:
        return self._pick(("; ", "\n", " && ", " || ")).join(
            self._statement(2) for _ in range(self._random.randint(2, 5))
        )

    def _pick(self, choices: tuple[str, ...]) -> str:
        return self._random.choice(choices)

    def _word(self) -> str:
        name = self._pick(NAMES)
        unusual = (
            f"${name}", f'"${name}"', f"${{{name}}}", f"${{{name}:-id}}", f"${{{name}@Q}}", f"${{!{name}}}", "*", "~",
            f"${{{name}@P}}", "`echo \\`id\\``", '"$@"', '"$1"', "$((x))", f"$(({name} + 1))", "${a[x]}", "{a,b}",
            f"${{{name}:x}}", f"$(echo {self._pick(VALUES)})",
        )  # fmt: skip
        return self._pick((*unusual, *VALUES, *VALUES))

    def _simple(self) -> str:
        others = ("$x", '"$y"', "f", "g", "\\id", "i''d", "command id", "builtin echo", "env A=1 id")
        return f"{self._pick((*LEAVES, *others))} {self._word()}"

    def _statement(self, depth: int) -> str:
        name, value, leaf = self._pick(NAMES), self._pick(VALUES), self._pick(LEAVES)
        plain = (
            *[self._simple() for _ in range(12)], *[f"{name}={value}"] * 7, f"read {name} <<< {value}", "popd",
            "pushd d",
            f"printf -v {name} %s {value}", f"cd {self._pick(('d', 'd/e', '..', '-', '$x'))}", f"let {name}", "shift",
            f"echo q > {self._pick(('out', 'd/out', '$y'))}", f"set -- {value}", f"unset {name}", "unset -f f", "g",
            f"declare -i {name}", f"export {name}={value}", f"[[ {name} -eq 0 ]]", f"(({name}))", f"[ {self._word()} ]",
            f"eval {value}", f"trap {value} EXIT", f"f() {{ {self._simple()}; }}", f"f {value}", f"ls | xargs {leaf}",
            f"g() {{ cd d; {name}={value}; }}", f"echo id | xargs -I{{}} {self._pick(('{}', 'ls {}', 'sh -c {}'))}",
            f"sed -n '1{self._pick(('e id', 'p', 'd', 'w out'))}' s", f"find d -name e -exec {leaf} {{}} \\;",
            f"bash -c {value}", f". /dev/stdin <<< {value}", f"{name}={value} bash -c 'echo $(({name}))'",
        )  # fmt: skip
        if depth == 0 or self._random.random() < 0.6:
            return self._pick(plain)
        one, two = self._statement(depth - 1), self._statement(depth - 1)
        compound = (
            f"{{ {one}; {two}; }}", f"( {one}; {two} )", f"if {one}; then {two}; fi", f"{one} | {two}",
            f"for x in {value} b; do {one}; done", f"n=0; while [ $n -lt 2 ]; do {one}; {two}; n=$((n+1)); done",
            f"{{ {one}; }} > out", f"{one} && {two} > out", f'echo "$({one})"', f"f() {{ {one}; }}; {two}; f {value}",
            f"{{ {one}; }} & wait; {two}",
        )  # fmt: skip
        return self._pick(compound)


@pytest.fixture(scope="module")
def shims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shims")
    for name in LEAVES:
        (folder / name).write_text(SHIM)
        (folder / name).chmod(0o755)
    for name in REAL:
        real = shutil.which(name)
        assert real, name
        (folder / name).symlink_to(real)
    (folder / "sh").symlink_to("/bin/bash")
    return folder


def run(script: str, shims: Path, place: Path) -> tuple[list[list[str]], set[str]]:
    """The argvs that leaf programs were started with, and the files that were made."""
    log, cwd = place / "log", place / "cwd"
    log.mkdir(parents=True)
    (cwd / "d" / "e").mkdir(parents=True)
    (cwd / "s").write_text("a\nb\n")
    before = {str(file.relative_to(cwd)) for file in cwd.rglob("*")}
    env = {"PATH": str(shims), "SHIM_LOG": str(log), "HOME": "/workspace", "LANG": "C.UTF-8"}
    argv = ["/bin/bash", "--noprofile", "--norc", "-c", f"ulimit -f 64 -t 5\n{script}"]
    subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    records = [[os.fsdecode(part) for part in record.read_bytes().split(b"\0")] for record in log.iterdir()]
    made = {str(file.relative_to(cwd)) for file in cwd.rglob("*")} - before
    return [record[:-1] for record in records], made


@pytest.mark.parametrize("first", range(0, SCRIPTS, 24))
def test_f7_generated_scripts_are_predicted_or_opaque(first: int, shims: Path, tmp_path: Path) -> None:
    for seed in range(first, first + 24):
        script = _Maker(seed).script()
        parse = parse_shell(script)
        if parse.opaque:
            continue
        executed, made = run(script, shims, tmp_path / str(seed))
        written = {path.removeprefix("/workspace/") for path, _ in parse.writes}
        assert all(covered(parse, argv) for argv in executed), (seed, script, executed)
        assert made <= written, (seed, script, made)


def test_some_generated_scripts_are_understood_and_run_something(shims: Path, tmp_path: Path) -> None:
    scripts = [_Maker(seed).script() for seed in range(60)]
    understood = [script for script in scripts if not parse_shell(script).opaque]
    assert len(understood) >= 5
    assert any(run(script, shims, tmp_path / str(at))[0] for at, script in enumerate(understood))
