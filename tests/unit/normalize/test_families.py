"""Ways round the parse, family by family: the act is listed or the call is opaque; a twin one step away stays plain.

What happens in each left text was seen to happen under bash and GNU tools: `mount` ran, a file beneath `.git/hooks`
was written, or `.env` was printed.
"""

import pytest

from opensafe.normalize.shell import ShellParse, parse_argv, parse_shell

ACTS = ("mount", "/workspace/.git", "/workspace/.e", "/proc/", "/etc/")


def shown(parse: ShellParse) -> bool:
    """Whether the parse says that it does not know, or names what is done."""
    named = {command.program for command in parse.commands}
    files = [path for path, _ in (*parse.reads, *parse.writes, *parse.deletes)]
    return parse.opaque or "mount" in named or any(path.startswith(ACTS) for path in files)


FAMILIES = {
    "C1-redirection-behind-a-list": (
        [
            "cd .git/hooks && echo x > pwn", "cd /etc && cat < shadow", "{ cd .git/hooks; } && echo x > pwn",
            "cd .git/hooks && cat <<E > pwn\nx\nE", "cd .git/hooks || true && echo x > pwn",
            "cd .git && cat f 2> hooks/pwn", "cd .git/hooks && true && echo x >> pwn",
            "time cd .git/hooks && echo x > pwn",
        ],
        [
            "cd src && echo x > out.txt", "cd src && cat < in.txt", "{ cd src; } && echo x > a",
        ],
    ),
    "C2-functions": (
        [
            "while :; do ls() { cd .git/hooks; }; ls; break; done; echo x > pwn",
            "ls() { cd .git/hooks; }; eval ls; echo x > pwn",
            "mount() { :; } & mount -V", "mount() { :; }; u''nset -f mount; mount -V",
            "eval() { :; }; set -o posix; eval 'mount -V'", "function time { :; }; time mount -V",
            "f() { python3 -c \"$1\"; }; f 'import os;os.system(\"mount -V\")'",
            "f() { sed \"$1\" f.txt; }; f '1e mount -V'", "f() { sed -n \"$@\"; }; f '1e mount -V' f.txt",
            "f() { tar \"$@\"; }; f cf x f.txt --checkpoint=1 --checkpoint-action=exec='mount -V'",
            "f() { cd .git/hooks; }; f; echo x > pwn", "f() { cd $1; }; f .git/hooks; echo x > pwn",
            'f() { cat "$1"; }; f .env', "f() { rm \"$1\"; sh''ift; rm \"$1\"; }; f a .git",
            'while :; do f() { :; }; done; f() { "$@"; }; f mount',
        ],
        [
            'greet() { echo "hi $1"; }; greet dev', 'f() { cat "$1"; }; f a.txt',
            'f() { find . -name "$1"; }; f app.py',
        ],
    ),
    "C3-standard-input-and-proc": (
        [
            "bash /dev//stdin <<< 'mount -V'", ". /dev/./stdin <<< 'mount -V'",
            "source /dev//stdin <<< 'mount -V'", "python3 /dev/stdin <<< 'import os'",
            "awk -f /dev/stdin <<< 'BEGIN{system(\"id\")}'", "sed -f- f.txt <<< '1e id'",
            "sed -f <(echo '1e id') f.txt", "tar -T /dev/stdin -cf - <<< .env", "cat /dev/fd/../cwd/.env",
            "cat /dev/fd/../environ", "cd /dev && bash stdin <<< 'mount -V'",
            "echo x > /dev/fd/../cwd/.git/hooks/p", "exec 3<<< 'id'; . /dev/fd/3",
        ],
        [
            "cat /dev/stdin", "echo x > /dev/stderr", "cat < /dev/null", "bash src/run.sh",
            "awk -f src/a.awk f", "cat <(ls) a.txt",
        ],
    ),
    "C4-arithmetic": (
        [
            "x='a[$(mount -V)]'; echo $((x))", "x='a[$(mount -V)]'; ((x))",
            "x='a[$(mount -V)]'; [[ x -eq 0 ]]", "x='a[$(mount -V)]'; let x",
            "declare -i n; n='a[$(mount -V)]'", "test -v 'a[$(mount -V)]'", "printf -v 'a[$(mount -V)]' x",
            "a=(1); read x; echo ${a[x]}", "read e; y=abc; echo ${y:e}", "unset 'a[$(mount -V)]'",
            "read n; echo ${!n}", "read n; declare -n r=$n; echo $r", 'set -- "$(cat f)"; echo $(($1))',
            "read x; echo $((x))", "i=$(cat f); b[i]=1", "echo $(( $(cat f) ))", "[[ $(cat f) -gt 1 ]]",
            "wait -p 'a[$(mount -V)]' -n", 'x="$(cat f)"; for ((i=x;0;)); do :; done',
            "wc() { cat f; }; echo $(( $(wc -l) ))", "[ $(cat f) ]", "x=5; re''ad x < f; echo $((x))",
            "x=5 y=$(cat f); echo $((x + y))",
        ],
        [
            "i=0; while [ $i -lt 5 ]; do i=$((i + 1)); done", "for ((i=0;i<3;i++)); do echo $i; done",
            "n=$(wc -l < f); echo $((n + 1))", "x=3; [[ $x -eq 3 ]] && echo y",
            'a=(ls -l); echo "${a[0]}" ${#a[@]} ${a[@]}', "echo $((1 + 2)) $(( $(nproc) * 2 ))",
            "i=1; echo ${a[i]}", "for i in {1..3}; do echo $((i * 2)); done", '[ "$x" = y ] || [ -z "$x" ]',
        ],
    ),
    "C5-substitutions": (
        [
            "echo `echo \\`mount -V\\``", "echo \"`echo \\`mount -V\\``\"", "x=`echo \\`cat .env\\``",
            "echo `printf '%s' \"\\$(mount -V)\"`", "x='$(mount -V)'; [[ -n ${x@P} ]]",
            "x='$(mount -V)'; echo \"${y:-${x@P}}\"", "echo ${x:-'$(mount -V)'} \"${x:-'$(mount -V)'}\"",
        ],
        [
            "n=`wc -l < a.txt`; echo $n", "echo ${x@Q} ${x^^} ${x%.py} ${x/a/b} ${x:1:2}",
            "git commit -m \"fix \\`foo\\`\"", 'echo "${a:-$(ls)} ${#a} ${a##*/}"',
        ],
    ),
    "C6-names": (
        [
            "BASH_SOURCE=ls; $BASH_SOURCE x", "BASH_CMDS[ls]=/usr/bin/mount; ls -V", "BASH_ALIASES[ls]=mount",
            "hash -p /usr/bin/mount ls; ls", 'xy=ls; q=x; while :; do $xy -V; read "${q}y" <<< mount; done',
            "xy=ls; read x''y <<< mount; $xy -V", 'xy=ls; q=x; f() { $xy -V; }; read "${q}y" <<< mount; f',
            "xy=ls; trap 'x''y=mount' EXIT; eval 'x''y=mount'; $xy",
        ],
        [
            "X=ls; $X -l", "read -r a b <<< '1 2'; echo $b", "mapfile -t rows < data.txt; echo ${#rows[@]}",
            "hash -r",
        ],
    ),
    "C7-directories": (
        [
            "CDPATH=.git; cd hooks && touch pwn",
            "shopt -s cdable_vars; d=/workspace/.git/hooks; cd d && touch pwn",
            "pushd .git/hooks && pushd /workspace && pushd +1 && touch pwn",
            "shopt -s lastpipe; : | cd .git/hooks; echo x > pwn",
            "find .git -name hooks -execdir touch pwn \\;", "set -P; cd a/..; touch b",
            "trap 'cd .git/hooks' DEBUG; echo x > pwn",
        ],
        [
            "cd src && touch a", "pushd src && ls", "find src -name '*.py' -exec wc -l {} +",
            "shopt -s nullglob globstar; ls **/*.py",
        ],
    ),
    "C8-options": (
        [
            "tar cf x --checkpoint=1 --checkpoint-act=exec='mount -V' f", "tar cf x --use-comp='sh -c id' f",
            "tar cIf 'sh -c id' x f", "tar xf x --dir=.git/hooks", "tar xf x --one-top-level=.git/hooks/q",
            "tar xf x --transform='s,^,.git/hooks/,'", "tar xf x --to-com=id",
            "tar cf /dev/null -g.git/hooks/p f", "tar --index-file=.git/hooks/p -cvf x f",
            "tar -cf - --remove-files .git", "TAR_OPTIONS=--to-command=id tar xf x", "split --filt=id f",
            "sort --compress-prog=./p f", "sort --outp=.git/hooks/p f", "cp --target-dir=.git/hooks f",
            "mv --target-dir=.git/hooks f", "ln --target-dir=.git/hooks f",
            "install --target-dir=.git/hooks f", "git rebase --exe id", "git rebase '-xid' --root",
            "git diff --outp=.git/hooks/p", "git log $(cat f)", "tar cf x $(cat f)", "sort $X f",
            "cp --backup --suffix=/x f g", "timeout --sig 9 5 mount -V",
        ],
        [
            "tar czf /tmp/a.tgz --exclude=.venv src", "tar xf a.tar -C /tmp/x --strip-components 1",
            "tar tzf a.tgz", "tar cf /tmp/a.tar --checkpoint=1000 src", "sort -k2 -n -t, data.txt",
            "sort --rev f", "cp -a src /tmp/dst", "git rebase main", "git log --oneline -5",
            "git diff --stat HEAD~1",
        ],
    ),
    "C9-program-texts": (
        [
            "sed 's|.*|mount -V|e' f", "sed '\\|a|e mount -V' f", "sed --expression='e id' f",
            "sed -ne'e id' f", "sed 'r .env' f", "sed '$r /workspace/.env' f", "sed w.git/hooks/p f",
            "sed 's|a|b|w .git/hooks/p' f", 'sed "$(cat s)" f', "sed '1!e id' f",
            "sed --in-place=/workspace/.git/hooks/* s/a/b/ f", "sed \"1{eid' '-V'\n}\" f",
            "sed 's/a/id/;T;e' f", "sed '+e id' f", "awk 'BEGIN{ARGV[1]=\".env\";ARGC=2}1'",
            "awk 'BEGIN{system \\\n (\"id\")}'", "awk 1 ./a=/../.env", "awk -v f=x '{print > f}' f",
            'awk "$(cat p)"', "awk '{print > ARGV[2]}' f g", "awk '{if (1) /\"/; system(\"id\"); x = \"/\"}'",
            "awk '{print | \"sh\"}'", "awk '{print > \".git/hooks/p\"}' f",
            "python3 -u -c\"import os;os.system('id')\"", "python3 -u -Bc \"import os;os.system('id')\"",
            "python3 -m timeit \"__import__('os').system('id')\"",
            "python3 -c \"import os;getattr(os,'sys'+'tem')('id')\"", 'python3 -c "$(cat p)"',
            "python3 -i f.py", "python3 -m zipfile -c .git/hooks/p f", "python3 -m tarfile -c .git/hooks/p f",
            "python3 -m venv .git/hooks/v", "python3 -m cProfile -o .git/hooks/p a.py",
            "python3 -c \"print(open('.env').read())\"", "python3 -c 'from os import *; system(\"id\")'",
            "python3 -c 'import string; string.Formatter().get_field(\"0\", [1], {})'",
            "python3 -c 'import os as o; o.fork()'", "python3 -c 'x=[].__class__'",
            "perl -n -le 'system \"id\"' f", 'perl -e "$(cat p)"', "perl -ne '@ARGV=q(.env);print <>'",
            "perl -pe 's/a/`id`/e' f", "perl -pe1 'id|'", "node -e 'require(\"child_process\")'",
            "node -p '[][\"constructor\"]'", "node -e 'process.binding(1)'", "ruby -e '`id`'",
            "lua -e 'os.execute(\"id\")'", "php -r 'system(\"id\");'", "python3 -m pdb a.py",
        ],
        [
            "sed -i 's/a/b/g; s/echo/x/' f", "sed -n '1,5p;$p' f", "sed -e '/^#/d' -e 's|a|b|' f",
            "sed '/x/{n;d}' f", "sed -i.bak '1d' f", "sed -e ':a' -e 'N;$!ba;s/\\n/ /g' f", "sed '1i head' f",
            "sed 'y/abc/xyz/' f", "sed '/a/,/b/!s/x/y/2g' f", "awk '{print $1}' f",
            "awk -F, '{s+=$2} END {print s/NR}' f", "awk 'BEGIN{print \"system\"}'",
            "awk '/a/{print > \"/tmp/o.txt\"}' f", "awk 'NR>1 && $3 > 5 {printf \"%s\\n\", $1}' f",
            "awk -v n=3 'NR==n' f", "python3 -c 'import sys; print(sys.version)'",
            "python3 -c 'import json,sys; print(json.load(sys.stdin)[\"a\"])'",
            "python3 -c 'import app; print(app.__version__)'",
            "python3 -c 'import pathlib; print(len(list(pathlib.Path(\"src\").rglob(\"*.py\"))))'",
            "python3 -m pytest -q", "perl -pe 's/a/b/' f", "perl -ne 'print if /x/' f",
            "node -e 'console.log(process.version)'", "node -p '1 + 1'", "ruby -e 'puts RUBY_VERSION'",
            "node -e \"const p=require('./package.json'); console.log(p.name)\"",
            "python3 -m json.tool a.json", "python3 -m venv .venv",
        ],
    ),
    "C10-xargs": (
        [
            "cat f | xargs -0I ls sh -c ls", "cat f | xargs -rI ls sh -c ls",
            "cat f | xargs --replace=ls sh -c ls", "cat f | xargs -ils ls -V", "cat f | xargs -tIls sh -c ls",
            "cat f | xargs -0 python3 -c", "cat f | xargs -I% sed % f.txt", "cat f | xargs perl -e",
            "cat f | xargs awk", "cat f | xargs cat", "cat f | xargs -I% -n1 cat %",
            "cat f | xargs --replace=a cat a", "find . -name .env | xargs cat",
            "find . -name '.e*' -print0 | xargs -0 cat",
        ],
        [
            "find src -name '*.py' | xargs wc -l", "git ls-files '*.sh' | xargs -r shellcheck",
            "seq 1 3 | xargs -n1 echo", "git grep -l TODO | xargs sed -n '1p'",
            "find build -name '*.o' | xargs rm -f", "find src -name '*.c' -print0 | xargs -0 -I{} wc -l {}",
        ],
    ),
    "C11-environment": (
        [
            "set -k; bash -c : BASH_ENV=p.sh", "set -a; read BASH_ENV <<< p.sh; bash -c :",
            "env 'BASH_FUNC_ls%%=() { mount; }' bash -c ls", "GIT_CONFIG_PARAMETERS=x git status",
            "GIT_TRACE=/workspace/.git/hooks/p git status", "GNUMAKEFLAGS=-f make", "MAKEFILES=x make",
            "PYTHONPATH=/tmp/x python3 a.py", "NODE_OPTIONS=-rx node a.js",
            "export BASH_ENV; read BASH_ENV <<< p.sh; bash -c :", "for BASH_ENV in p.sh; do bash -c :; done",
            "printf -v LD_PRELOAD x", "export $(cat vars)", "POSIXLY_CORRECT=1 ls",
            "npm_config_script_shell=./p npm test", "PAGER=./p git log", "env -S 'mount -V'",
            "env -vS 'mount -V'",
        ],
        [
            "PYTHONPATH=src python3 a.py", "NODE_ENV=test npm test", "CC=clang make",
            "GIT_AUTHOR_NAME=x git commit -m a", "DEBUG=1 ./run.sh", "RUST_BACKTRACE=1 cargo test",
            "PAGER=cat git log", "env A=1 B=2 ls", "PYTHONUNBUFFERED=1 python3 a.py", "export X=1; ls",
        ],
    ),
    "C13-written-and-run": (
        [
            "printf '%s\\n' 'mount -V' > s.sh && chmod +x s.sh && ./s.sh", "printf '%s %s' mount -V > s; sh s",
            "printf 'mount %s\\n' -V > s; sh s", "printf '%b' 'mount -V\\n' > s; sh s",
            "printf -- 'mount -V' > s; sh s",
            "echo -n 'mount -V' > s; sh s", "echo -e 'mount -V\\n' > s; . ./s",
            "echo 'mount -V' | tee s >/dev/null; . ./s", "echo 'mount -V' | cat > s; sh s",
            "cat <<X | tee s\nmount -V\nX\nsh s", "{ echo 'mount -V'; } > s; sh s", "(echo 'mount -V') > s; sh s",
            "for i in 1; do echo 'mount -V'; done > s; sh s", "f() { echo 'mount -V'; }; f > s; sh s",
            "exec > s; echo 'mount -V'; sh s", "exec 3> s; echo 'mount -V' >&3; sh s",
            "x='mount -V'; printf '%s' \"$x\" > s; sh s", "echo 'mount -V' > s.sh; sh *.sh",
            "python3 -c \"open('s', 'w').write('mount -V')\"; sh s",
            "echo 'import os; os.system(\"mount\")' > s.py; python3 -m s",
        ],
        [
            "printf '%s\\n' 'make test' > s.sh && chmod +x s.sh && ./s.sh", "echo 'make test' | tee s.sh; sh s.sh",
            "{ echo a; date; } > log; cat log", "cat <<X | tee s\nmake test\nX\nsh s",
            "python3 -c \"open('a.txt', 'w').write('x')\"; cat a.txt", "exec 3> log; echo a >&3; cat log",
        ],
    ),
    "C15-tools-that-start-others": (
        [
            "prove -e 'sh -c \"mount -V\"' x.t", "prove -Pevil x.t", "dc -e '!mount -V'", "dc <<< '!mount -V'",
            "echo '!mount -V' | dc", "gnuplot -e 'system(\"mount -V\")'", "gnuplot <<< '!mount -V'",
            "sqlite3 x.db <<< '.system mount -V'", "echo '.shell mount -V' | sqlite3 x.db", "pandoc -F mount a.md",
            "pandoc --lua-filter=x.lua a.md", "mlr -n put 'end{print system(\"mount -V\")}'",
            "fzf --preview 'mount -V'",
            "bear -- mount -V", "valgrind -q mount -V", "c8 mount -V", "nyc --all mount -V", "latexmk -e 'system(1)' a",
            "pdflatex -shell-escape '\\write18{mount -V}'", "ctest --build-and-test . . --test-command mount",
            "lualatex -shell-escape a", "latex '\\write18{mount -V}'", "xetex -shell-escape a", "eqn -U a",
            "rake -e 'sh \"mount\"'", "groff -U a.ms", "troff -U <<< '.sy mount -V'", "bat --pager 'mount -V' a",
            "pylint --init-hook='import os; os.system(\"mount\")' a.py", "tsup --onSuccess 'mount -V'",
            "django-admin shell -c 'import os'", "flask shell <<< 'import os'", "rails runner 'system(1)'",
            "mix run -e 'System.cmd(1)'", "ghc -e ':!mount -V'", "cabal exec -- mount -V", "stack exec mount",
            "dune exec -- mount -V", "lerna exec -- mount -V", "nx exec -- mount -V", "yarn exec mount",
            "bazel run --run_under=mount //a", "go vet -vettool=mount ./...", "tox -x testenv.commands='mount -V'",
        ],
        [
            "prove -lvr t", "dc -e '2 3 + p'", "gnuplot plot.gp", "sqlite3 x.db <<< 'select 1'",
            "pandoc a.md -o a.html",
            "bear -- make -j4", "valgrind --leak-check=full ./a.out", "c8 --reporter=text mocha", "nyc report",
            "lualatex a", "eqn a.ms",
            "latexmk -pdf a.tex", "groff -ms a.ms", "bat a.py", "pylint src", "rake test", "stack build", "dune build",
            "yarn test", "tox -e py311", "mix test", "go vet ./...", "echo 'select 1;' | sqlite3 x.db",
        ],
    ),
    "C16-run-before-it-is-written": (
        [
            "while :; do sh s; echo 'mount -V' > s; done", "sh s & echo 'mount -V' > s; wait",
            "mkfifo s; sh s & echo 'mount -V' > s; wait", "f() { sh s; }; f; echo 'mount -V' > s; f",
        ],
        ["sh s; echo done > log", "while read -r l; do sh s; echo \"$l\" > log; done < list"],
    ),
    "C14-copied-and-run": (
        [
            f"{write}; {copy}; sh b"
            for write in ("echo 'mount -V' > a", "cat > a <<'X'\nmount -V\nX\n:")
            for copy in (
                "cp a b", "mv a b", "cat a > b", "cat < a > b", "tee b < a", "ln a b", "ln -s a b", "install a b",
            )
        ]
        + ["mkdir d; echo 'mount -V' > d/a; cp -r d e; sh e/a", "mkdir d; echo 'mount -V' > a; cp a d/; sh d/a"],
        ["cp a.sh b.sh; sh b.sh", "echo 'make test' > a; cp a b; sh b", "cat head.sh tail.sh > b.sh; sh b.sh"],
    ),
    "C12-writes-and-reads": (
        [
            "shuf -o .git/hooks/p f", "shuf --output=.git/hooks/p f", "csplit -f.git/hooks/p f 2",
            "csplit --prefix=.git/hooks/p f 2", "mktemp .git/hooks/XXXX", "mktemp -p .git/hooks",
            "mktemp --tmpdir=.git/hooks", "install -d .git/hooks/x", "date -f .env",
            "git format-patch -o .git/hooks --root HEAD", "git bundle create .git/hooks/p HEAD",
            "git worktree add .git/hooks/w", "git config -f .git/hooks/x a.b c", "git config core.fsmonitor x",
            'git config "$(cat k)" v', "git config alias.x '!id'", "git show :.env",
            "curl -w @.env docs.example.org", "shopt -s dotglob; cat *v", "GLOBIGNORE=x; cat *nv",
            "iconv -o .git/hooks/p f", "xxd f .git/hooks/p", "wc --files0-from=l",
            "git --work-tree=/etc clean -xfd", "find . -name .env -exec cat {} +",
            "find . -iname .ENV -exec cat {} +", "\\time -o .git/hooks/p ls", "git hash-object .env",
            "sort -T .git/hooks f",
        ],
        [
            "shuf -n 3 f", "mktemp -d", 't=$(mktemp) && echo hi > "$t" && cat "$t"', "install -d build/x",
            "date -u +%F", "git format-patch -1 -o /tmp/p", "git archive -o /tmp/src.zip HEAD",
            "git config user.name x", "git config --get user.name", "git show HEAD~2:src/app.py",
            "split -l 10 f part-", "curl -w '%{http_code}' https://docs.example.org/",
            "find . -name '*.pyc' -delete", "grep -rn 'https://' src", "git status; git add -A",
        ],
    ),
}  # fmt: skip


def _each(which: int) -> list[object]:
    return [
        pytest.param(text, id=f"{name}-{at}")
        for name, texts in FAMILIES.items()
        for at, text in enumerate(texts[which])
    ]


@pytest.mark.parametrize("text", _each(0))
def test_f7_what_is_done_is_listed_or_opaque(text: str) -> None:
    parse = parse_shell(text)
    assert shown(parse), parse


@pytest.mark.parametrize("text", _each(1))
def test_f7_the_benign_twin_is_understood(text: str) -> None:
    assert parse_shell(text).reasons == ()


@pytest.mark.parametrize(
    "argv",
    [
        ["sed", "s|a|mount -V|e", "f.txt"],
        ["env", "BASH_FUNC_ls%%=() { mount -V; }", "bash", "-c", "ls"],
        ["bash", "/dev//stdin"],
        ["python3", "-u", "-cimport os;os.system('mount -V')"],
        ["cat", "/dev/fd/../cwd/.env"],
        ["tar", "cf", "x", "--checkpoint-act=exec=id"],
    ],
)
def test_f7_the_same_without_a_shell(argv: list[str]) -> None:
    assert shown(parse_argv(argv))


@pytest.mark.parametrize("name", ["CDPATH", "GIT_TRACE", "LD_PRELOAD", "TAR_OPTIONS", "BASH_ENV"])
def test_c11_a_variable_of_the_call_counts_as_one_of_the_text(name: str) -> None:
    assert parse_shell("ls", env={name: "x"}).opaque
    assert not parse_shell("ls", env={"APP_MODE": "x"}).opaque


def test_c4_a_value_of_the_call_is_evaluated_by_arithmetic() -> None:
    assert parse_shell("echo $((x))", env={"x": "a[$(id)]"}).opaque
    assert not parse_shell("echo $((x + 1))", env={"x": "41"}).opaque
