"""Feeds, split variables, names that commands print, and what code mentions: each beside a twin that stays unknown."""

import pytest

from opensafe.normalize.shell import parse_shell


def _paths(targets):
    return {target.path.removeprefix("/workspace/") for target in targets}


@pytest.mark.parametrize(
    ("text", "role", "paths"),
    [
        ("echo a b | xargs rm", "deletes", {"a", "b"}),
        ("printf '%s\\n' a b | xargs -n1 rm -f", "deletes", {"a", "b"}),
        ("xargs rm -rf <<< /etc", "deletes", {"/etc"}),
        ("for f in $(echo a b); do rm $f; done", "deletes", {"a", "b"}),
        ("ls *.log | xargs rm", "deletes", {"*.log"}),
        ('ls *.txt | while read -r f; do rm "$f"; done', "deletes", {"*.txt"}),
        ("find . -name a 2> /dev/null | xargs rm", "deletes", {"a"}),
        ("find . -name a -o -name b | xargs rm", "deletes", {"a", "b"}),
        ("find . \\( -name a -o -name b \\) -type f -delete", "deletes", {"a", "b"}),
        ('c="rm a b"; $c', "deletes", {"a", "b"}),
        ('x=(a b); rm "${x[@]}"', "deletes", {"a", "b"}),
        ('for f in a b; do g="$f.o"; rm "$g"; done', "deletes", {"a.o", "b.o"}),
        ("t=$(mktemp -d); trap 'rm -r \"$t\"' EXIT", "deletes", {"/tmp/tmp.XXXXXXXXXX"}),
        ('cp a "b-$(date +%F)"', "writes", {"b-*", "b-*/a"}),
        ("ln -s ../lib/x src/x", "reads", {"lib/x"}),
        ("ln -s /etc/x y.txt", "reads", {"/etc/x"}),
        ("git show HEAD:.env", "reads", {".env"}),
        ("git log -p -- .env", "reads", {".env"}),
        ("git archive HEAD .env", "reads", {".env"}),
        ("cat /proc/self/root/etc/shadow", "reads", {"/proc/self/root/etc/shadow", "/etc/shadow"}),
        ("protoc --python_out=gen/x a.proto", "writes", {"gen/x"}),
        ("rsync -a --delete a/ b/", "deletes", {"b"}),
        ("jq --arg k v . a.json", "reads", {"a.json"}),
        ("python3 -c \"from pathlib import Path; print(Path('a.txt').read_text())\"", "reads", {"a.txt"}),
        ('node -p \'require("fs").readFileSync("a.json", "utf8")\'', "reads", {"a.json"}),
    ],
)
def test_what_can_be_told_is_a_fact_and_not_opaque(text, role, paths):
    parse = parse_shell(text)
    assert _paths(getattr(parse, role)) >= paths
    assert not parse.opaque, parse.reasons


@pytest.mark.parametrize(
    "text",
    [
        "echo 'rm -rf /' | xargs -I{} sh -c '{}'",
        "echo a,b | xargs -d, rm",
        "echo 'a b' | xargs -0 rm",
        'echo "a \'b c" | xargs rm',
        'echo "a b" | while read -r f; do rm "$f"; done',
        "git for-each-ref --format='-rf %(refname)' | xargs rm",
        "for c in $(git rev-list HEAD); do $c; done",
        "find . ! -name a -delete; rm -rf $X",
        'c="rm *"; IFS=x; $c',
        'x=(a b); x[0]=/etc; rm "${x[@]}"',
        'false && x=(a); rm "${x[@]}"',
        'for f in a b; do g="$f"; done; rm "$g/etc"',
        "t=/tmp/x; trap 'rm -r \"$t\"' EXIT; read t < a",
        "t=/tmp/x; sh -c 'rm -r \"$t/etc\"'",
        'date() { echo ../..; }; rm -r "b/$(date +%F)"',
        "make -f - < a",
        "make SHELL=./x all",
        'python3 -c "from pathlib import Path; print(Path(bytes.fromhex(x)).read_text())"',
        "node -p 'require(\"fs\").readFileSync(atob(x))'",
        "RUSTFLAGS='-C linker=./x' cargo build",
        "NODE_OPTIONS='--no-warnings --require ./x' node a.js",
    ],
)
def test_its_twin_that_can_not_be_told_is_opaque(text):
    assert parse_shell(text).opaque


@pytest.mark.parametrize(
    "text", ["find . -name a -o -true | xargs rm", "find . ! -name a -delete", "find . -delete -o -name a"]
)
def test_what_a_name_does_not_restrict_is_all_of_it(text):
    assert "/workspace" in {target.path for target in parse_shell(text).deletes}


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("python3 -c \"import os; os.system('sudo id')\"", {"sudo"}),
        ("python3 -c \"import subprocess as s; s.Popen(['sudo', 'id'])\"", {"sudo"}),
        ("awk 'BEGIN{system(\"sudo id\")}'", {"sudo"}),
        ("ruby -e '`sudo id`'", {"sudo"}),
        ("git -c alias.x='!sudo id' x", {"sudo"}),
        ("git bisect run sudo id", {"sudo"}),
        ("git rebase -x 'sudo id' HEAD~1", {"sudo"}),
        ("script -c 'sudo id' /dev/null", {"sudo"}),
        ("alias s=sudo; s id", {"sudo"}),
        ("cat <<X; sudo id\ntext\nX", {"sudo"}),
        ("python3 -m http.server", {"http.server"}),
        ("hyperfine 'sudo id'", {"sudo"}),
        ("parallel sudo ::: id", {"sudo"}),
    ],
)
def test_what_code_and_settings_start_is_listed(text, programs):
    commands = parse_shell(text).commands
    assert {name for command in commands for name in (command.program, *command.via)} >= programs


@pytest.mark.parametrize(
    "text",
    [
        "python3 -c 'print(1)'",
        "git -c core.pager=cat log",
        "git cherry-pick -x abc",
        "make CC=gcc -j4 all",
        "time (make a && make b)",
        "node -p '[1, 2, 3].map(x => x ** 2)'",
        "sqlite3 a.db <<'S'\nSELECT 1;\nS",
        "s=$SECONDS; make; echo $((SECONDS - s))",
        "hyperfine 'make a'",
        'declare -A m=([a]=1); k=a; echo "${m[$k]}"',
        "let 'n = 3 * 7'; echo $n",
        "GOFLAGS=-mod=vendor go test",
        'export PYTHONPATH="$PWD/src:$PYTHONPATH"; pytest',
    ],
)
def test_ordinary_twins_are_not_opaque(text):
    parse = parse_shell(text)
    assert not parse.opaque, parse.reasons


@pytest.mark.parametrize(
    ("pattern", "secret"),
    [
        ("*.json", False), ("part_*", False), ("*.key", True), ("*.pem", True), ("cred*.json", True), (".en*", True),
        ("prod.k*", True), (".env.example", False), (".env.staging", True),
    ],
)  # fmt: skip
def test_a_pattern_names_a_secret_by_more_than_an_extension(pattern, secret):
    from opensafe.model.facts import ClassTables
    from opensafe.normalize.paths import PathClassifier

    floating = ("credentials.json", "*.key", "*key*.pem", ".env", ".env.*")
    tables = ClassTables(paths={"secret": (*(f"**/{name}" for name in floating), "!**/.env.example")})
    path = f"/workspace/{pattern}"
    found = PathClassifier(tables).classify_glob(path)[0] if "*" in pattern else PathClassifier(tables).classify(path)
    assert ("secret" in found) is secret
