"""D1: the work for one call is bounded by its size, whatever the bytes: counted, never timed."""

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from opensafe.normalize import shell
from opensafe.normalize.shell import parse_argv, parse_shell

UNITS = [
    "a@", "$[", "[a]", "a@ ", "a|", "<<E\n", "\"$a\"", "${a[1]}", "{}", "((", "`a` ", "x=1 ", "f() { a; }\n",
    "$x$y ", "{a,b}", "\\`", "a[", "$((x))", "[[ x -eq y ]]\n", "for i in a b; do ", "${!a}", "'", "\n",
    "read x;", "while a; do b; done\n",
]  # fmt: skip
PROGRAMS = [
    "sed", "awk", "python3", "perl", "node", "ruby", "git", "tar", "find", "xargs", "curl", "sort", "env",
    "eval", "test",
]  # fmt: skip


def calls(run: Callable[[], object]) -> int:
    """How many Python functions are called in `run`: work that no clock and no neighbour changes."""
    count = 0

    def event(_frame: object, kind: str, _argument: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    sys.setprofile(event)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("around", ["{}", 'echo "{}"', "cat <<E\n{}\nE"])
def test_four_times_the_text_is_at_most_about_four_times_the_work(unit: str, around: str) -> None:
    few, many = (calls(partial(parse_shell, around.replace("{}", unit * (n // len(unit))))) for n in (2000, 8000))
    assert many <= 6 * few + 5000


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("unit", ["\n", "a@", "{}", "s/a/b/;", "'", "(", "print ", "a ", "-e"])
def test_an_argument_is_read_once(program: str, unit: str) -> None:
    few, many = (calls(partial(parse_argv, [program, "-e", unit * (n // len(unit))])) for n in (2000, 8000))
    assert many <= 6 * few + 5000


def test_a_long_text_is_walked_without_asking_the_grammar_for_its_bytes() -> None:
    text = 'make lint; rc=$?; echo "lint=$rc"; test ;' * 1400
    assert calls(partial(parse_shell, text)) <= 3_000_000
    assert parse_shell(text).opaque


def test_a_value_in_which_something_is_replaced_is_not_cut() -> None:
    assert parse_shell(f'a=./{"x/" * 120}{"../" * 121}.git; rm "${{a//z/y}}"').opaque
    assert parse_shell('a=./x/../.gzt; rm "${a//z/i}"').deletes == (("/workspace/.git", False),)


_CHAIN = [*"abcdefghijklmnopqrstu"]


@pytest.mark.parametrize("before", ["", "export ", "declare "])
@pytest.mark.parametrize("value", ["{}{}{}{}", "$(echo {}{}{}{})", "${{a}}{}{}{}"])
def test_values_that_hold_values_do_not_multiply(before: str, value: str) -> None:
    def text(levels: int) -> str:
        names = [f"${{{name}}}" for name in _CHAIN]
        lines = [f"{before}{_CHAIN[at + 1]}={value.format(*[names[at]] * 4)};" for at in range(levels)]
        return f"{before}a=abcdefgh;{''.join(lines)}rm {names[levels]}"

    assert parse_shell(text(20)).opaque
    assert not parse_shell(text(1)).opaque


def test_a_word_that_is_too_long_is_not_cut() -> None:
    assert parse_shell(f"a={'x' * 20_000}; echo $a$a$a$a").opaque
    twin = parse_shell(f"a={'x' * 15_000}; echo $a$a$a$a")
    assert (twin.commands[-1].argv, twin.reasons) == (("echo", "x" * 60_000), ())


@pytest.mark.parametrize("use", ["$a", "$a ", "${a//x/yyyyyyyy}"])
def test_many_uses_of_a_long_value_do_not_multiply(use: str) -> None:
    parsed = parse_shell(f"a={'x' * 20_000}; rm {use * 5_000}")
    assert parsed.opaque
    assert sum(len(word or "") for command in parsed.commands for word in command.argv) <= 8 * 64 * 1024
    assert not parse_shell(f"a=x; rm {use * 5}").opaque


@pytest.mark.parametrize("value", ["{}", "{} + 'x'", "os.path.join({})"])
def test_names_that_stand_for_names_do_not_multiply(value: str) -> None:
    def program(levels: int) -> str:
        chain = [f"{name} = {value.format(behind)}\n" * 60 for name, behind in pairwise("abcdefgh"[: levels + 1])]
        return f"python3 <<'E'\nimport os\n{''.join(chain)}{'abcdefgh'[levels]} = 'x'\nopen(a)\nE\n"

    assert calls(partial(parse_shell, program(7))) <= 2_000_000
    assert parse_shell(program(7)).opaque
    assert not parse_shell(program(1)).opaque


@pytest.mark.parametrize("unit", ["a@", "$[", "[a]", "<<E\n", '"$a"'])
def test_what_the_grammar_reads_again_and_again_is_given_up_at_a_bound(unit: str) -> None:
    source = f"cat <<X\n{unit * (16000 // len(unit))}\nX\n{unit * (16000 // len(unit))}".encode()
    tree, reads = shell._parse(source, 1000)
    assert tree is None
    assert reads <= 1010
    assert parse_shell(source.decode()).opaque


@pytest.mark.parametrize(("command", "what"), [("curl {}", "hosts"), ("cat {}", "paths"), ("rm {}", "paths")])
def test_what_no_longer_fits_the_list_is_a_doubt(command: str, what: str) -> None:
    many = [f"https://h{number}.test" if what == "hosts" else f"f{number}" for number in range(2049)]
    assert parse_shell(command.format(" ".join(many))).reasons == (f"more than 2048 {what}",)
    assert parse_shell(command.format(" ".join([*many[:-1], many[0]]))).reasons == ()


def test_benign_twin_a_long_ordinary_text_is_read() -> None:
    text = "grep -n 'x y' src/a.py | head -5 > /tmp/out.txt\n" * 200
    assert parse_shell(text).reasons == ()
    assert parse_shell("cat > f <<'E'\n" + "It's some text, $x and `y`: 100%\n" * 1500 + "E\n").reasons == ()


def test_the_same_text_is_always_judged_alike() -> None:
    text = "a|" * 700
    assert len({parse_shell(text) for _ in range(5)}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "mkdir d; echo 'make test' > d/a; " + "cp -r d d/x; " * 400,
        "echo x > a; " + "cp a b; cat b > a; " * 400,
        "".join(f"echo x > f{at}; " for at in range(500)) + "cp -r . d; " * 200,
        "printf '%" + "0" * 30000 + "' a > b",
        "printf '" + "%s" * 500 + "' " + "a " * 1000 + "> b; sh b",
    ],
)
def test_files_that_are_copied_do_not_multiply(text: str) -> None:
    assert calls(partial(parse_shell, text)) <= 3_000_000


def test_of_too_many_files_none_that_is_run_is_known() -> None:
    many = "".join(f"echo 'make test' > f{at}; " for at in range(300))
    assert not parse_shell("echo 'make test' > f; sh f").opaque
    assert parse_shell(f"{many} sh g").opaque
    assert not parse_shell(many).opaque
