"""What holds for every input: totality, fidelity, idempotence."""

import shlex
from pathlib import PurePosixPath

from hypothesis import example, given, settings
from hypothesis import strategies as st

from opensafe.errors import OpenSafeError
from opensafe.model.facts import ClassTables
from opensafe.normalize.paths import contains, path_classifier, resolve
from opensafe.normalize.shell import parse_argv, parse_shell
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.normalize.urls import canonical_name, parse_host

TABLES = ClassTables(paths={"ws": ("/workspace/",), "secret": ("**/.env", "/etc/shadow", "**/*.key")})

_TOKENS = [
    "a", " ", "\n", "\t", "'", '"', "\\", "$(", "${", "`", ")", "}",
    "(", "{", "|", "&", ";", "<", ">", "<<E\n", "\nE\n",
    "#", "if ", "then ", "fi ", "for ", "in ", "do ", "done ", "case ", "esac ", "[[ ", " ]]", "((", "))", "$'", "!",
    "*", "?", "[", "]", "~", "=", "+=", "eval ", "bash -c ", "env ", "xargs ", "find ", "\x00", "\r", "é", "\u200b",
    "sudo ", "timeout ", "git -c ", "/dev/tcp/", "curl ", "://", "@", ":", "tar ", "-", "\ud800", "\U0001f600",
    "dd of=",
]  # fmt: skip
shell_texts = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(_TOKENS), max_size=14).map("".join))
arguments = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" \n\t"), min_size=0, max_size=12)
paths = st.one_of(
    st.text(st.sampled_from("ab./"), min_size=1, max_size=24),
    st.text(min_size=1, max_size=24).filter(lambda t: "\0" not in t),
)
hosts = st.one_of(
    st.text(max_size=30),
    st.text(st.sampled_from("abx0179.:[]@/\\%-#?é。f"), max_size=24),
    st.ip_addresses().map(str),
    st.integers(0, 2**33).map(str),
)


@settings(max_examples=400, deadline=None)
@given(shell_texts)
@example("(" * 20_000)
@example("a && " * 3000 + "a")
@example("{1..999999}" * 8)
@example('"' + "$(" * 3000)
@example("x" * 70_000)
def test_f7_parse_shell_is_total(text: str) -> None:
    parse = parse_shell(text)
    assert all(command.program or command.opaque or not command.argv for command in parse.commands)
    assert parse.opaque or not any(command.opaque for command in parse.commands)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=20), st.sampled_from(_TOKENS)), max_size=8))
def test_f7_parse_argv_is_total(argv: list[str]) -> None:
    parse_argv(argv)


@settings(max_examples=400, deadline=None)
@given(st.lists(arguments, max_size=6))
def test_g45_argv_fidelity_quoted_words_come_back_exactly(argv: list[str]) -> None:
    words = ["prog", *argv]
    parse = parse_shell("prog " + " ".join("'" + word.replace("'", "'\\''") + "'" for word in argv))
    assert [list(command.argv) for command in parse.commands] == [words]
    assert not [reason for reason in parse.reasons if "continuation" not in reason and "invisible" not in reason]


@settings(max_examples=400, deadline=None)
@given(st.lists(arguments, max_size=6))
@example(["=="])
def test_g45_argv_fidelity_a_joined_argv_comes_back_exactly_or_opaque(argv: list[str]) -> None:
    parse = parse_shell(shlex.join(["prog", *argv]))
    assert parse.opaque or [list(command.argv) for command in parse.commands] == [["prog", *argv]]


@settings(max_examples=300, deadline=None)
@given(paths, paths)
def test_f4_resolve_is_idempotent_and_clean(path: str, cwd: str) -> None:
    resolved = resolve(path, "/" + cwd)
    assert resolved.startswith("/")
    assert not {".", ".."} & set(resolved.split("/"))
    assert "//" not in resolved
    assert resolve(resolved, "/elsewhere") == resolved


@settings(max_examples=300, deadline=None)
@given(paths, paths)
def test_f4_g38_contains_agrees_with_pathlib(root: str, path: str) -> None:
    root, path = resolve(root, "/"), resolve(path, "/")
    assert contains(root, path) == PurePosixPath(path).is_relative_to(root)


@settings(max_examples=300, deadline=None)
@given(paths)
def test_a_glob_without_wildcards_is_classified_as_the_path_it_is(path: str) -> None:
    path = resolve(path.translate({ord(char): None for char in "*?["}) or "x", "/")
    classifier = path_classifier(TABLES)
    assert classifier.classify_glob(path) == (classifier.classify(path), True)


@settings(max_examples=500, deadline=None)
@given(hosts)
def test_f5_the_host_parser_is_total_and_idempotent(text: str) -> None:
    fact = parse_host(text)
    if fact is not None:
        assert canonical_name(fact.name) == fact.name
        assert fact.name == fact.name.lower()
        assert fact.name.isascii()
        assert not fact.name.endswith(".")
        bracketed = f"[{fact.name}]" if ":" in fact.name else fact.name
        again = parse_host(f"https://{bracketed}/")
        assert again is not None
        assert again.name == fact.name


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.binary(max_size=60), st.text(st.sampled_from('{}[]":,0129eE.-+\\u aNn'), max_size=40).map(str.encode))
)
@example(b"[" * 100_000)
@example(b'{"command":' * 70)
def test_pe_14_validation_gives_a_call_or_a_typed_error(data: bytes) -> None:
    for tool in DEFAULT_REGISTRY.names():
        try:
            call = DEFAULT_REGISTRY.validate("c", tool, data, 4096)
        except OpenSafeError:
            continue
        DEFAULT_REGISTRY.facts(call, TABLES)
