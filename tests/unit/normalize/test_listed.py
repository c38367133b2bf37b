"""Files that a command lists and another one takes, and names cut from names: known only as far as bash keeps to it."""

import pytest

from opensafe.normalize.shell import parse_shell


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("wc -l $(find src -name '*.py')", {"/workspace/src", "/workspace/src/*.py"}),
        ("for f in $(git ls-files); do wc -c \"$f\"; done", {"/workspace"}),
        ("find src | sort | head -n 3 | xargs cat", {"/workspace/src"}),
        ('F=docs/a.b.md; cat "${F##*/}" "${F%.md}"', {"/workspace/a.b.md", "/workspace/docs/a.b"}),
        ('for f in src/*.c; do cat "${f##*/}"; done', {"/workspace/*.c"}),
        ('echo "$(<notes.txt)"', {"/workspace/notes.txt"}),
    ],
)  # fmt: skip
def test_what_is_listed_lies_beneath_what_was_searched(text: str, reads: set[str]) -> None:
    parse = parse_shell(text)
    assert parse.reasons == ()
    assert {target.path for target in parse.reads} == reads


@pytest.mark.parametrize(
    "text",
    [
        'for f in $(git ls-files); do cat "/root/$f"; done',
        'git ls-files | while read -r f; do cat "/root/$f"; done',
        'for f in $(find . -name id); do cat "/root/$f"; done',
        'for f in $(git ls-files); do cat "$f.bak"; done',
        'for f in $(find src -type f); do cat "${f##*/}"; done',
        "find src | head 5 | xargs cat",
        "find src | sort names.txt | xargs cat",
        "env -C /etc find . | xargs cat",
        "IFS=/; cat $(find src)",
        "cat $(find src | while read -r x; do find docs; done)",
        'F=a.x.x.x; cat "${F%*.*.}"',
    ],
)
def test_a_listed_name_that_may_lie_elsewhere_is_not_known(text: str) -> None:
    assert parse_shell(text).opaque


@pytest.mark.parametrize("text", ["./timeout 5 ls", "/tmp/env ls", "tools/bash -c 'ls'", "./xargs ls"])
def test_a_wrapper_from_elsewhere_is_a_program_of_its_own(text: str) -> None:
    assert parse_shell(text).commands[0].argv[0] == text.split()[0]


def test_a_wrapper_of_the_system_is_looked_through() -> None:
    assert [command.program for command in parse_shell("/usr/bin/timeout 5 ls").commands] == ["ls"]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("PATH=/workspace/.venv/bin:$PATH ls", True),
        ("export PATH=$PATH:/opt; ls", True),
        ('PATH=/tmp; PATH="$PATH:/bin" ls', False),
        ("PATH=.env bash -c 'cat $PATH'", False),
        ("f() { cat $PATH; }; PATH=.env f", False),
    ],
)
def test_the_search_path_is_known_where_it_is_first_set(text: str, known: bool) -> None:
    values = [command.assignments["PATH"] for command in parse_shell(text).commands if "PATH" in command.assignments]
    assert values
    assert ("/usr/bin" in (values[-1] or "")) is known
