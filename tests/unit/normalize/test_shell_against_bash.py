"""F7: what real bash executes is among what was predicted, or the text was called opaque.

Leaf programs are shims that log their argv and do nothing else; wrappers (env, xargs, find …) are real.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from opensafe.normalize.shell import parse_shell
from opensafe.proof.fuzzing.scripts import SHIM, covered

LEAVES = (
    "a",
    "b",
    "c",
    "d",
    "rm",
    "cat",
    "id",
    "curl",
    "git",
    "tee",
    "grep",
    "ls",
    "python3",
    "mv",
    "touch",
    "make",
    "npm",
    "head",
    "sort",
    "uniq",
    "wc",
)
REAL = ("bash", "sh", "env", "timeout", "nohup", "nice", "xargs", "find", "setsid", "stdbuf")
UNDERSTOOD = [
    "echo ok && id",
    "id; cat CANARY",
    "ls\nid",
    "id | cat | tee x",
    "a & b & wait",
    "(a; b) && { c; d; }",
    "! a || b",
    "bash -c 'cat x; id'",
    "env sh -c id",
    "env A=1 B=2 timeout 5 nice -n 3 cat f",
    "nohup setsid cat x",
    "stdbuf -oL cat x",
    r"find . -maxdepth 0 -exec id \;",
    r"find . -maxdepth 0 -exec sh -c 'id; cat y' \;",
    "r''m -rf x",
    'r"m" -rf "a b" \'c d\'',
    r"$'\x72\x6d' $'a\tb\n' $'\u00e9' $'\101'",
    r"c\at a\ b \$x",
    "A=1 B='x y' cat z",
    'X=hello; cat $X ${X}y "$X z"',
    "cat {a,b}{1,2} x{3..5} {a} {}",
    "for f in a b 'c d'; do cat \"$f\"; done",
    "if a; then b; elif c; then d; else id; fi",
    "case x in y) a;; x|z) b;; *) c;; esac",
    "while id; do break; done; until a; do b; break; done",
    "f() { cat inner; }; f",
    'cat $(id) `git x` "$(ls)"',
    "cat <(id) > >(tee o)",
    "cat <<E >o arg\nx $(id) y\nE\na",
    "cat <<'E'\n$(id)\nE\nb",
    "cat <<-E\n\tx\n\tE\nc",
    "bash <<E\nid\ncat x\nE",
    "bash <<< 'id; cat q'",
    'cat <<< "$(id)" | tee a',
    "cat > o a b 2>&1",
    "> o cat x",
    "eval 'cat a; id'",
    "eval cat 'a b'",
    "trap 'id' EXIT; a",
    "exec cat x",
    "command cat x; builtin echo; command -v ls",
    "time cat x",
    "[ -f x ] && a; [[ $(id) ]] || b",
    "echo $((1 + 2)); ((1)) && a",
    "a \\\n  --flag \\\n  b",
    "a # comment; id\nb # it's",
    "a 'x # y' #z",
    "a=(x $(id)); b",
    "export Q=$(id) R=2; readonly S=$(cat x)",
    "coproc_like=1; a ${coproc_like:-$(id)}",
    "cat a;b;c;d",
    "git log --pretty='%h %s' | head -5 | sort -u | uniq -c",
    "cd /tmp && a; cd - ; b",
    "a x=1 'y=2' --z='3 4'",
    "printf '%s\\n' x | xargs cat",
    "printf 'p\\nq\\n' | xargs -I{} cat {} z",
    "for i in 1 2; do for j in 3; do cat $i-$j; done; done",
    "{ a; b; } > out; ( c ) 2> err < /dev/null",
    "a &&\nb ||\nc",
    "a |& b",
    "cat 'it'\\''s'",
    'cat "a\\"b" "c\\\\d" "\\$HOME" "\\n"',
    "echo ${X:=$(id)}; cat ${#X}",
    "for ((i=0;i<2;i++)); do a; done",
    "function g { cat g; }; g",
    "if ! a; then b; fi",
    "cat ~/x ~",
]

# Texts that the grammar reads otherwise than bash, most of them without an error: each was once a silent miss.
MISREAD = [
    "c\\at a \\ b x",
    "rm -r$",
    "rm -rf2>&1 x",
    "cat -n<<E >o arg\nx $(id) y\nE\n",
    "git lo -<<E\nid\nE",
    "cat {a}>o {}",
    "b *while }\\$",
    "cat ab\\ \\\nb",
    "cat <<'E'trap \n$()\nE\nb",
    "cat <<E >o arg\nx\nE2>&1cat x",
    "cat > o a b\\\n 2>&1",
    "a # comment; id\n\\\nb",
    "echo ${X:=$<(id)}",
    "{a,b}; }2>&1",
    "cat > o 0 -exec ]\\;",
    "for f in a 'c d'\\$; do cat \"$f\"; done",
    "cat > o a 2>&-c01",
    "cat ~''",
    'cat a\\"b" "c\\\\d" "\\$HOM; [[ $(id) ]]',
    "cat {\\`a} {}",
    "cat {a,b}{1,2} f3..5} { {}",
    "[ -f x\nid ]",
    "[ a > o ]; [ a || id ]",
    "env A%s=1 =2 timeout 5 cat f",
    "time X=a cat x",
    "time ! a || b",
    "find . -maxdepth 0 -exec sh -c 'cat y{a,b}' \\;",
    "find . -maxdepth 0 -exec${x} sh -c 'id; cat y' \\;",
    "printf 'p\\nq\\n' | xargs -I{${x}} cat {} z",
    "exec 3<>o; cat x",
    "X='rm -rf x'; $X",
    "X=id; X=ls; $X",
    "id=ls; eval 'id=cat'; $id x",
    "X=a; read X <<< b; cat $X",
    "IFS=/; X=a/b; cat $X",
    "PWD=/x; cd /tmp; cat $PWD",
    "REPLY=a; read <<< b; cat $REPLY",
    "set +B; cat {a,b}",
    "X=a; unset X; cat $X-",
    "X=a; f() { X=b; }; f; cat $X",
    "X=a; Y=X; printf -v $Y b; cat $X",
    "declare -u X; X=a; cat $X",
    "X=a; for X in b; do :; done; cat $X",
    "false && X=a; cat x$X",
]


Run = Callable[[str], list[list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    shims, log, cwd = tmp_path / "shims", tmp_path / "log", tmp_path / "cwd"
    for folder in (shims, log, cwd):
        folder.mkdir()
    for name in LEAVES:
        (shims / name).write_text(SHIM)
        (shims / name).chmod(0o755)
    for name in REAL:
        real = shutil.which(name)
        assert real, name
        (shims / name).symlink_to(real)

    def run(script: str) -> list[list[str]]:
        env = {"PATH": str(shims), "SHIM_LOG": str(log), "HOME": "/workspace", "LANG": "C.UTF-8"}
        argv = ["/bin/bash", "--noprofile", "--norc", "-c", script]
        subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
        records = [file.read_bytes() for file in sorted(log.iterdir())]
        for file in log.iterdir():
            file.unlink()
        return [[os.fsdecode(part) for part in record.split(b"\0")[:-1]] for record in records]

    return run


@pytest.mark.parametrize("script", UNDERSTOOD)
def test_pe_01_f7_everything_bash_executes_was_predicted(run: Run, script: str) -> None:
    executed = run(script)
    parse = parse_shell(script)
    missed = [argv for argv in executed if not covered(parse, argv)]
    assert not missed, (missed, parse.commands)
    assert executed, "the script ran nothing: the comparison would be empty"


@pytest.mark.parametrize("script", UNDERSTOOD)
def test_pe_01_f7_ordinary_scripts_are_understood_but_for_unknown_operands(script: str) -> None:
    strange = [reason for reason in parse_shell(script).reasons if "not known before the run" not in reason]
    assert not strange


@pytest.mark.parametrize("script", MISREAD)
def test_f7_what_the_grammar_misreads_is_predicted_or_opaque(run: Run, script: str) -> None:
    executed = run(script)
    parse = parse_shell(script)
    assert parse.opaque or all(covered(parse, argv) for argv in executed), (executed, parse.commands)


def test_the_recording_shims_record(run: Run) -> None:
    assert run("cat 'a b' \"\"; id") in ([["cat", "a b", ""], ["id"]], [["id"], ["cat", "a b", ""]])
    assert not covered(parse_shell("cat 'a b'"), ["cat", "a", "b"])
