"""The inspect_ai door without a daemon: its configuration, the forms it takes, and what is asked for where."""

import json
import subprocess
import sys
from typing import Any

import pytest
from inspect_ai.util import SandboxEnvironmentSpec, SandboxUnavailableError
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from pydantic import ValidationError

from opensafe.errors import InvalidArgument, Unavailable
from opensafe.integrations.inspect import (
    OpenSafeSandboxConfig,
    OpenSafeSandboxEnvironment,
    SessionLimits,
    _commands,
    _config,
)


def test_inspect_finds_it_by_its_entry_point():
    text = (
        "from inspect_ai.util._sandbox.registry import registry_find_sandboxenv as f; print(f('opensafe').__module__)"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert found.stdout == "opensafe.integrations.inspect._environment\n", found.stderr
    assert registry_find_sandboxenv("opensafe") is OpenSafeSandboxEnvironment


def test_a_configuration_survives_a_log():
    config = OpenSafeSandboxConfig(principal="evaluator", hosts=("a.example",), limits=SessionLimits(calls=3))
    spec = SandboxEnvironmentSpec("opensafe", config)
    again = SandboxEnvironmentSpec.model_validate(json.loads(spec.model_dump_json()))
    assert again == spec
    assert hash(again) == hash(spec)
    assert isinstance(again.config, OpenSafeSandboxConfig)


@pytest.mark.parametrize(
    "fields",
    [{"unknown": 1}, {"memory_bytes": -1}, {"limits": {"calls": -1}}, {"review_wait_s": 1e9}, {"hosts": "a.example"}],
)
def test_a_configuration_that_is_none_is_refused(fields):
    with pytest.raises(ValidationError, match=next(iter(fields))):
        OpenSafeSandboxConfig(**fields)


def test_a_configuration_is_read_from_a_file(tmp_path):
    toml, plain = tmp_path / "opensafe.toml", tmp_path / "opensafe.json"
    toml.write_text('principal = "evaluator"\n[limits]\ncalls = 3\n')
    plain.write_text('{"principal": "evaluator", "limits": {"calls": 3}}')
    expected = OpenSafeSandboxConfig(principal="evaluator", limits=SessionLimits(calls=3))
    assert _config.read(str(toml)) == _config.read(str(plain)) == expected
    assert _config.read(None) == OpenSafeSandboxConfig()


@pytest.mark.parametrize("text", ["{", "[1]", "\ud800", "x" * (1 << 20 | 1)])
def test_a_file_that_is_no_configuration_is_refused(tmp_path, text):
    path = tmp_path / "opensafe.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InvalidArgument, match="configuration"):
        _config.read(str(path))
    with pytest.raises(InvalidArgument, match="can't be read"):
        _config.read(str(tmp_path / "missing.json"))


def test_another_providers_configuration_is_refused():
    with pytest.raises(InvalidArgument, match="OpenSafeSandboxConfig"):
        _config.read(SessionLimits())


@pytest.mark.parametrize(
    ("argv", "plain"),
    [
        (["bash", "--login", "-c", "ls"], ["bash", "-c", "ls"]),
        (["/bin/bash", "-l", "-c", "ls", "x"], ["/bin/bash", "-c", "ls", "x"]),
        (["bash", "--login", "script"], ["bash", "--login", "script"]),
        (["bash", "-c", "ls"], ["bash", "-c", "ls"]),
        (["sh", "--login", "-c", "ls"], ["sh", "--login", "-c", "ls"]),
    ],
)
def test_only_bash_with_a_text_loses_its_login(argv, plain):
    assert list(_commands.without_login(argv)) == plain


@pytest.mark.parametrize(
    ("cwd", "absolute"), [(None, "/workspace"), ("a/../b", "/workspace/b"), ("/tmp/", "/tmp"), (".", "/workspace")]
)
def test_directories_are_absolute(cwd, absolute):
    assert _commands.within(cwd) == absolute


async def test_a_daemon_that_does_not_answer_is_an_unavailable_sandbox(monkeypatch):
    async def gone(*_):
        raise Unavailable("the daemon is gone")

    monkeypatch.setattr(_commands, "run", gone)
    nobody: Any = None
    box = OpenSafeSandboxEnvironment(nobody, OpenSafeSandboxConfig())
    with pytest.raises(SandboxUnavailableError, match="the daemon is gone"):
        await box.exec(["true"])


def test_without_inspect_ai_the_extra_is_named():
    text = "import sys; sys.modules['inspect_ai'] = None; import opensafe.integrations.inspect"
    failed = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert failed.returncode == 1
    assert "opensafe[inspect]" in failed.stderr


def test_another_event_loop_is_refused():
    init = OpenSafeSandboxEnvironment.task_init("a-task", None)
    with pytest.raises(InvalidArgument, match="asyncio"):
        init.send(None)
