"""Brace expansion beside quotes, escapes, tildes and variables, word by word as bash does it."""

import subprocess

import pytest

from opensafe.normalize.shell import parse_shell

WORDS = [
    '~/.ku"be"/conf{ig,ig.bak}',
    "a{b,c}d",
    "{a..c}x",
    "x{1..3}",
    "{a,b{c,d},e}",
    '"{a,b}"',
    'a"{b,c}"d',
    '{"a,b",c}',
    '{"a"..c}',
    "{a\\,b,c}",
    "\\{a,b}",
    "{a,b\\}",
    "$'x'{a,b}",
    "{$'a',b}",
    "{a,}",
    "{,a}",
    "x{,}",
    '{a,""}',
    "{a}",
    "{}",
    "a{}b",
    "{a,b}{c,d}",
    "{a,{b,c}",
    "{a,b}}",
    "{~,x}/y",
    "~/{a,b}",
    '"~"/{a,b}',
    "{01..03}",
    "{3..1}",
    "{a..e..2}",
    "{1..10..4}",
    "{x,'y z'}",
    ".{e,x}'n'v",
    '.e{n,m}"v"',
    "'.e'{nv,x}",
    '/e"t"c/{shadow,pass"wd"}',
    "$HOME/{a,b}",
    '"$HOME"/.s{s,x}h',
    "{$HOME,x}/a",
    "${HOME}{a,b}",
    "{a,b}$HOME",
    "a{b,c\\ d}e",
    "{{a,b},c}",
    "x{a,b,}y",
    "{-1..2}",
    "{A..C}'q'",
    "a{'b','c'}d",
    "{a..}",
    "{a,b}{1..2}'z'",
]


@pytest.mark.parametrize("word", WORDS)
def test_braces_give_the_words_that_bash_gives(word: str) -> None:
    script = f'for x in {word}; do printf "%s\\0" "$x"; done'
    bash = subprocess.run(
        ["/bin/bash", "--norc", "-c", script], env={"HOME": "/workspace"}, capture_output=True, check=True, text=True
    )
    parsed = parse_shell(f"cat {word}")
    assert [*parsed.commands[0].argv[1:]] == bash.stdout.split("\0")[:-1]
    assert not parsed.opaque


def test_a_name_of_quotes_and_braces_is_the_file_that_it_names() -> None:
    parsed = parse_shell('tail -n +1 ~/.ku"be"/conf{ig,ig.bak}')
    assert [target.path for target in parsed.reads] == ["/workspace/.kube/config", "/workspace/.kube/config.bak"]


def test_braces_beyond_what_is_followed_are_opaque() -> None:
    assert parse_shell("rm {1..100}{1..100}").opaque
