"""What the MCP server's tools take, and what they become."""

import msgspec
import pytest

from opensafe import errors
from opensafe.mcp.server_calls import ACTIONS, _whole_characters, fetch_argv, replaced, search_argv
from opensafe.mcp.server_tools import NAMES, TOOLS, conform
from opensafe.normalize.tools import DEFAULT_REGISTRY


def test_each_tool_has_an_action_hints_and_a_closed_schema():
    assert set(NAMES) == set(ACTIONS)
    for tool in TOOLS:
        assert tool.input_schema["additionalProperties"] is False
        assert None not in (tool.annotations.read_only_hint, tool.annotations.open_world_hint)
        assert tool.annotations.destructive_hint is not None


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("bash", {"command": "ls", "timeout_s": 0.5, "env": {"A": "b"}, "cwd": "/workspace"}),
        ("exec", {"argv": ["ls", ""]}),
        ("list", {}),
        ("fetch", {"url": "https://example.com/?a=b"}),
    ],
)
def test_arguments_that_fit(tool, arguments):
    conform(tool, arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "place"),
    [
        ("bash", {}, "command"),
        ("bash", {"command": 3}, "/command"),
        ("bash", {"command": "ls", "user": "root"}, "user"),
        ("bash", {"command": "x" * 131_072}, "/command"),
        ("bash", {"command": "ls", "timeout_s": 0}, "/timeout_s"),
        ("exec", {"argv": []}, "/argv"),
        ("read", {"path": "a", "length": 10**9}, "/length"),
        ("search", {"pattern": "a\nb"}, "/pattern"),
        ("fetch", {"url": "file:///etc/passwd"}, "/url"),
        ("fetch", {"url": "https://a b"}, "/url"),
        ("call_status", {"call_id": "c", "wait_s": 10**6}, "/wait_s"),
        ("bash", {"command": "\ud800"}, "arguments"),
    ],
)
def test_arguments_that_do_not_fit_are_named(tool, arguments, place):
    with pytest.raises(errors.InvalidArgument) as caught:
        conform(tool, arguments)
    assert place in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "argv",
    [
        search_argv({"pattern": "-rf /", "path": "--include", "ignore_case": True, "include": "-x"}),
        fetch_argv({"url": "http://example.com/"}),
    ],
)
def test_what_is_composed_is_a_call_of_the_registry(argv):
    DEFAULT_REGISTRY.validate("c", "Exec", msgspec.json.encode({"argv": argv}), 1 << 20)


def test_nothing_of_a_search_is_taken_for_an_option():
    argv = search_argv({"pattern": "-f/etc/shadow", "path": "-R", "literal": True, "include": "*.py"})
    assert argv == ["grep", "-rnI", "--max-count=200", "-F", "--include=*.py", "-e", "-f/etc/shadow", "--", "-R"]


def test_a_fetch_ends_its_options_before_the_url():
    assert fetch_argv({"url": "http://h/", "timeout_s": 5})[-4:] == ["--max-time", "5", "--", "http://h/"]


def test_an_edit_replaces_the_only_place_or_all():
    assert replaced("a b", {"old": "b", "new": "c"}) == ("a c", 1)
    assert replaced("a a", {"old": "a", "new": "b", "all": True}) == ("b b", 2)


@pytest.mark.parametrize(("old", "new"), [("x", "y"), ("a", "b"), ("c", "c")], ids=["missing", "twice", "same"])
def test_an_edit_that_is_not_clear_is_refused(old, new):
    with pytest.raises(errors.InvalidArgument):
        replaced("a a c", {"old": old, "new": new})


def test_an_edit_that_blows_up_is_refused():
    with pytest.raises(errors.LimitExceeded):
        replaced("a" * 100, {"old": "a", "new": "b" * 1_000_000, "all": True})


@pytest.mark.parametrize("text", ["abc", "aé", "a€", "a😀", ""])
def test_a_part_ends_with_a_whole_character(text):
    data = text.encode()
    for cut in range(len(data) + 1):
        part = _whole_characters(data[:cut])
        assert text.startswith(part.decode())
        assert cut - len(part) < 4
    assert _whole_characters(data) == data
