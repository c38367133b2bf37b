"""A sandbox's tools as models call them, in real sandboxes: what they do, and what the model is told."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from opensafe.client import AsyncSandbox, Client, Sandbox
from opensafe.errors import Denied
from opensafe.integrations.langchain import tools
from opensafe.integrations.openai import AsyncFunctionTools, FunctionTools, Status

pytestmark = [pytest.mark.root, pytest.mark.runsc]

GUIDE = (Path(__file__).resolve().parents[3] / "docs/guides/tools.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def box(daemon):
    with Sandbox.create("tester", socket=daemon.socket_of("agent")) as box:
        yield box


@pytest.fixture(scope="module")
def ask(box):
    made = FunctionTools(box, shown=4000)

    def ask(name, /, **arguments):
        return made.answer({"function": {"name": name, "arguments": json.dumps(arguments)}})

    return ask


def test_files_are_written_read_edited_listed_moved_and_removed(ask):
    assert ask("mkdir", path="a/b", parents=True).ok
    assert ask("write", path="a/b/c.txt", content="one two two\n").text == "12 bytes are written to a/b/c.txt."
    assert ask("read", path="a/b/c.txt").text == "one two two\n"
    assert ask("edit", path="a/b/c.txt", old="one", new="1").text == "1 place is changed in a/b/c.txt."
    twice = ask("edit", path="a/b/c.txt", old="two", new="2")
    assert (twice.status, "stands 2 times" in twice.text) == (Status.REFUSED, True)
    assert ask("edit", path="a/b/c.txt", old="two", new="2", all=True).ok
    assert ask("read", path="a/b/c.txt", offset=2, length=1).text.startswith("2\n[these are 1 bytes from 2")
    assert ask("list", path="a/b").text == "c.txt\t6 bytes"
    assert ask("list", path="a").text == "b/"
    assert ask("move", path="a/b/c.txt", to="a/d.txt").ok
    assert ask("list", path="a/b").text == "[empty]"
    assert ask("remove", path="a", recursive=True).ok
    missing = ask("read", path="a/d.txt")
    assert missing.status is Status.FAILED
    assert "a/d.txt" in missing.text


def test_a_large_file_goes_into_the_sandbox(ask):
    content = "x" * 3_000_000
    assert ask("write", path="large", content=content).ok
    assert ask("exec", argv=["wc", "-c", "large"]).text == "3000000 large\n"


def test_commands_tell_status_and_output(ask):
    assert ask("bash", command="echo hello").text == "hello\n"
    assert ask("bash", command="true").text == "[no output]"
    failed = ask("bash", command="echo out; echo err >&2; exit 3")
    assert failed.status is Status.FAILED
    assert failed.text == "It exited with 3.\n--- stdout ---\nout\n\n--- stderr ---\nerr\n"
    assert ask("bash", command="kill -9 $$").text.startswith("It was ended by signal 9.")
    assert ask("exec", argv=["pwd"], cwd="/tmp").text == "/tmp\n"
    late = ask("bash", command="echo begun; sleep 60", timeout_s=2)
    assert late.status is Status.FAILED
    assert late.text.startswith("The command ran too long")
    assert "begun" in late.text
    absent = ask("exec", argv=["ls"], cwd="/workspace/missing")
    assert (absent.status, "nothing was executed" in absent.text) == (Status.FAILED, True)


def test_output_is_shown_from_both_ends(ask):
    answer = ask("bash", command="seq 100000")
    assert answer.text.startswith("1\n2\n")
    assert answer.text.endswith("100000\n")
    assert "characters are left out" in answer.text
    assert len(answer.text) < 4200


def test_a_denial_teaches(ask):
    answer = ask("bash", command="curl https://evil.example.com")
    assert answer.status is Status.DENIED
    assert isinstance(answer.error, Denied)
    for part in ("Nothing was executed", "rule egress.domain.allowlist: ", "value: evil.example.com", "remedy: "):
        assert part in answer.text


def test_what_the_daemon_refuses_is_told(ask):
    answer = ask("bash", command="echo \0")
    assert answer.status is Status.REFUSED
    assert answer.text.startswith("The call was not taken, and nothing was executed")


def test_ten_megabytes_reach_no_daemon(ask, daemon):
    before = daemon.starts()
    assert ask("write", path="large", content="x" * 10_000_000).status is Status.REFUSED
    assert daemon.starts() == before


async def test_a_parked_call_is_pending_and_then_resumed(daemon):
    async with (
        AsyncSandbox.create("tester", socket=daemon.socket_of("agent")) as box,
        Client.connect(daemon.socket_of("reviewer")) as reviewer,
    ):
        made = AsyncFunctionTools(box)
        parked = await made.answer({"function": {"name": "bash", "arguments": {"command": "npm install"}}})
        assert parked.status is Status.PENDING
        assert parked.error.call_id in parked.text
        resume = {"function": {"name": "resume", "arguments": {"call_id": parked.error.call_id}}}
        assert (await made.answer(resume)).status is Status.PENDING
        await reviewer.reject_review(parked.error.review_id, "not today")
        rejected = await made.answer(resume)
        assert rejected.status is Status.DENIED
        assert "not today" in rejected.text


def test_a_sandbox_that_is_gone_is_no_fault_of_the_command(daemon):
    with Sandbox.create("tester", socket=daemon.socket_of("agent")) as box:
        daemon_side = daemon.process_of(box.sandbox_id, "runsc-sandbox")
        running = FunctionTools(box)
        os.kill(daemon_side, 9)
        answer = running.answer({"function": {"name": "bash", "arguments": {"command": "true"}}})
        assert answer.status in (Status.UNAVAILABLE, Status.REFUSED)
        assert "your command" in answer.text or "nothing was executed" in answer.text


def test_langchain_tools_of_a_sandbox_are_invoked(box):
    named = {tool.name: tool for tool in tools(box)}
    message = named["bash"].invoke({"type": "tool_call", "id": "c", "name": "bash", "args": {"command": "echo hello"}})
    assert (message.status, message.content) == ("success", "hello\n")
    assert message.artifact.result.exit_code == 0
    denied = {"type": "tool_call", "id": "c", "name": "bash", "args": {"command": "curl https://evil.example.com"}}
    message = named["bash"].invoke(denied)
    assert message.status == "error"
    assert message.artifact.error.rule == "egress.domain.allowlist"


async def test_langchain_tools_of_either_sandbox_are_awaited(daemon, box):
    async with AsyncSandbox.create("tester", socket=daemon.socket_of("agent")) as other:
        for one in (box, other):
            named = {tool.name: tool for tool in tools(one)}
            assert await named["exec"].ainvoke({"argv": ["echo", "hello"]}) == "hello\n"


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_the_guides_programs_run(daemon, program):
    environment = {"OPENSAFE_SOCKET": str(daemon.socket_of("agent")), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
