"""A call's arguments line by line: whole, or with what is left out counted."""

import json

import pytest

from opensafe.console.exact import CHARACTERS_MAX, LINES_MAX, as_json, exact


def test_lines_end_at_a_line_feed_and_nowhere_else():
    (one,) = exact({"command": "a\r\nb\u2028c\x0bd\n"})
    assert one.lines == ("a\r", "b\u2028c\x0bd", "")
    assert (one.characters, one.line_count, one.left_out, one.text) == (9, 3, 0, True)


def test_what_is_no_text_is_json():
    argv, count = exact({"argv": ["a", "\u202e"], "count": 3})
    assert json.loads("\n".join(argv.lines)) == ["a", "\u202e"]
    assert (argv.text, count.lines) == (False, ("3",))


@pytest.mark.parametrize(
    "text", ["x" * 10_000_000, "\n" * 10_000, "ab\n" * CHARACTERS_MAX], ids=["one line", "empty lines", "lines"]
)
def test_what_does_not_fit_is_counted(text):
    first, second = exact({"a": text, "b": "more"})
    shown = "\n".join(first.lines)
    assert text.startswith(shown)
    assert first.left_out == len(text) - len(shown) > 0
    assert sum(len(one.lines) for one in (first, second)) <= LINES_MAX + 1
    assert len(shown) + sum(map(len, second.lines)) <= CHARACTERS_MAX
    assert second.left_out + len("\n".join(second.lines)) == 4


def test_letters_from_elsewhere_are_named():
    (one,) = exact({"command": "аpt install 日本\u202e"})
    assert one.foreign[0] == "U+0430 CYRILLIC SMALL LETTER A"
    assert one.foreign_count == 4
    (plain,) = exact({"command": "apt install\t\x1b"})
    assert plain.foreign == ()


def test_json_is_exact_and_of_ascii_alone():
    value = {"a": "\u202e\x1b\u2028é🎉", "b": [1, None]}
    assert as_json(value).isascii()
    assert json.loads(as_json(value)) == value
