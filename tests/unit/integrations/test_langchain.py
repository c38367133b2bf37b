"""LangChain's tools: a message with its status and its artifact, whatever the model named its arguments."""

import asyncio
import subprocess
import sys

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from opensafe.client import AsyncSandbox
from opensafe.errors import Conflict
from opensafe.integrations.langchain import Status, tools
from opensafe.integrations.openai import FunctionTools
from tests.unit.client import daemon_double


@pytest.fixture
async def box(tmp_path):
    async with (
        daemon_double.running(tmp_path / "opensafe.sock") as double,
        AsyncSandbox.create("tester", socket=double.path) as box,
    ):
        yield box


def _call(name, **arguments):
    return {"type": "tool_call", "id": "call_1", "name": name, "args": arguments}


def _named(box, name):
    return next(tool for tool in tools(box) if tool.name == name)


async def test_a_call_is_answered_by_a_message_with_an_artifact(box):
    message = await _named(box, "exec").ainvoke(_call("exec", argv=["a", "b"]))
    assert (message.tool_call_id, message.status, message.name) == ("call_1", "error", "exec")
    assert message.content.startswith("It exited with 3.\n--- stdout ---\na b\n--- stderr ---\n")
    assert message.artifact.status is Status.FAILED
    assert message.artifact.result.stderr_bytes == daemon_double.EVERY_BYTE
    assert message.artifact.result.exit_code == 3


@pytest.mark.parametrize("name", ["self", "config", "run_manager", "callbacks", "tool_input", "input", "verbose"])
async def test_no_name_of_an_argument_is_special(box, name):
    message = await _named(box, "exec").ainvoke(_call("exec", argv=["a"], **{name: 1}))
    assert message.artifact.status in (Status.REFUSED, Status.FAILED)  # LangChain itself drops two of them
    assert name in message.content or message.artifact.status is Status.FAILED


async def test_malformed_arguments_are_answered(box):
    message = await _named(box, "exec").ainvoke(_call("exec", argv="ls"))
    assert message.status == "error"
    assert message.artifact.status is Status.REFUSED
    assert "`exec` takes argv, [cwd], [timeout_s]" in message.content


async def test_without_a_call_the_content_is_given(box):
    assert (await _named(box, "exec").ainvoke({"argv": ["a"]})).startswith("It exited with 3.")


async def test_tools_of_an_asynchronous_sandbox_say_so(box):
    with pytest.raises(Conflict, match="ainvoke"):
        await asyncio.to_thread(_named(box, "exec").invoke, {"argv": ["a"]})


async def test_a_model_is_offered_the_same_as_by_function_tools(box):
    offered = [convert_to_openai_tool(tool) for tool in tools(box)]
    assert offered == FunctionTools(box).definitions()


def test_without_langchain_it_says_what_to_install():
    code = (
        "import sys; sys.modules['langchain_core'] = None\n"
        "import opensafe.integrations.openai\n"
        "try: import opensafe.integrations.langchain\n"
        "except ImportError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'opensafe[planner]'" in told.stdout
