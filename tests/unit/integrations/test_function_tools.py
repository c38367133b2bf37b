"""OpenAI's function tools: whatever a model writes, it gets an answer, and nothing malformed reaches a sandbox."""

import json
from types import SimpleNamespace
from typing import Any

import jsonschema_rs
import pytest

from opensafe.errors import InvalidArgument
from opensafe.integrations.openai import FunctionTools, Status


class Untouched:
    """A sandbox that nothing may reach."""

    def __getattr__(self, name):
        raise AssertionError(f"the sandbox was asked for {name}")


class Echo:
    """A sandbox whose files are what was asked for."""

    class files:  # noqa: N801 - the attribute's name
        @staticmethod
        def read_bytes(path, offset=0, length=0):
            return json.dumps({"path": path, "offset": offset, "length": length}).encode()


def _call(name, arguments):
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


def _of(box: Any, **options):
    return FunctionTools(box, **options)


@pytest.fixture
def tools():
    return _of(Untouched())


def test_definitions_are_plain_json_with_valid_schemas(tools):
    definitions = json.loads(json.dumps(tools.definitions()))
    assert [one["function"]["name"] for one in definitions] == [
        "bash", "exec", "read", "write", "edit", "list", "remove", "move", "mkdir", "resume",
    ]  # fmt: skip
    for one in definitions:
        assert one["type"] == "function"
        jsonschema_rs.Draft202012Validator(one["function"]["parameters"])
        assert one["function"]["parameters"]["additionalProperties"] is False


def test_definitions_for_responses_have_no_inner_function(tools):
    flat, nested = tools.definitions("responses"), tools.definitions()
    assert [one["parameters"] for one in flat] == [one["function"]["parameters"] for one in nested]


def test_only_offers_what_is_named():
    tools = _of(Untouched(), only=["read", "bash"])
    assert [one["function"]["name"] for one in tools.definitions()] == ["read", "bash"]
    assert "no tool 'write'. There are read, bash." in tools.answer(_call("write", "{}")).text
    with pytest.raises(InvalidArgument, match="no such tool"):
        _of(Untouched(), only=["fetch"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"command": "ls"', "not JSON"),
        ("ls -la", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 100_000, "not JSON"),
        ('{"command": "\\ud800"}', "not JSON"),
        ('["ls"]', "one JSON object"),
        ("7", "one JSON object"),
        (7, "one JSON object"),
        ("{}", "`bash` takes command, [cwd], [timeout_s]"),
        ("", "`bash` takes command"),
        (None, "`bash` takes command"),
        ('{"command": 1}', "command: 1 is not of type"),
        ('{"command": ""}', "command:"),
        ('{"command": "ls", "sudo": true}', "sudo"),
        ('{"command": "ls", "timeout_s": 0}', "timeout_s"),
        ({"command": object()}, "not JSON"),
        ({"command": "\ud800"}, "not JSON"),
    ],
)
def test_malformed_arguments_are_answered_and_not_sent(tools, arguments, told):
    answer = tools.answer(_call("bash", arguments))
    assert answer.status is Status.REFUSED
    assert answer.text.startswith("The call was not sent, and nothing was executed")
    assert told in answer.text
    assert len(answer.text) < 2000


@pytest.mark.parametrize("large", [json.dumps({"command": "x" * 10_000_000}), {"command": "x" * 10_000_000}])
def test_ten_megabytes_are_answered_in_short_and_not_sent(tools, large):
    answer = tools.answer(_call("bash", large))
    assert answer.status is Status.REFUSED
    assert "4194304 are the most" in answer.text
    assert len(answer.text) < 500


def test_a_million_faults_are_answered_in_short(tools):
    answer = tools.answer(_call("exec", json.dumps({"argv": [1] * 1_000_000})))
    assert answer.status is Status.REFUSED
    assert len(answer.text) < 2000


@pytest.mark.parametrize("name", ["fetch", "", None, 7, "Bash", "x" * 10_000_000])
def test_an_unknown_tool_is_answered_with_those_that_are(tools, name):
    answer = tools.answer(_call(name, "{}"))
    assert answer.status is Status.REFUSED
    assert "There are bash, exec, read" in answer.text
    assert len(answer.text) < 500


@pytest.mark.parametrize("call", [{}, None, 7, "bash", {"function": None}, {"function": "bash"}, SimpleNamespace()])
def test_what_is_no_call_is_answered(tools, call):
    message = tools.dispatch(call)
    assert message["role"] == "tool"
    assert message["tool_call_id"] == ""
    assert "there is no tool" in message["content"]


def test_each_shape_of_a_call_gets_the_message_that_answers_it():
    tools = _of(Echo())
    chat = _call("read", '{"path": "a", "offset": 3, "length": 9}')
    told = '{"path": "a", "offset": 3, "length": 9}'
    assert tools.dispatch(chat) == {"role": "tool", "tool_call_id": "call_1", "content": told}
    function = SimpleNamespace(**chat["function"])
    assert tools.dispatch(SimpleNamespace(id="call_1", type="function", function=function))["content"] == told
    flat = {"type": "function_call", "id": "fc_1", "call_id": "call_2", **chat["function"]}
    assert tools.dispatch(flat) == {"type": "function_call_output", "call_id": "call_2", "output": told}
    assert tools.dispatch(_call("read", json.loads(chat["function"]["arguments"])))["content"] == told
