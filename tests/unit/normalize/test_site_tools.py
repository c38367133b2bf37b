"""A site's tools: what a manifest may say, and what its mapping makes of a call."""

import copy
import json
from typing import Any

import pytest

from opensafe.errors import BundleRefused, InvalidArgument, NotPermitted
from opensafe.model.decision import Grant
from opensafe.model.facts import ClassTables, Facts
from opensafe.normalize.site_tools import MAX_SCHEMA, MAX_TOOLS, MAX_VALUES, read_manifest, registry_of
from opensafe.normalize.tools import DEFAULT_REGISTRY

TABLES = ClassTables(paths={"secret": ("**/.env",)}, hosts={"allowed": ("docs.python.org",)})
KINDS = ("read", "write", "delete", "host", "url", "shell")
TOOL: dict[str, Any] = {
    "name": "deploy",
    "description": "Publish a build.",
    "schema": {
        "type": "object",
        "properties": {**{kind: {} for kind in KINDS}, "argv": {}, "files": {}, "cwd": {"type": "integer"}},
        "additionalProperties": False,
    },
    "facts": [
        *({"pointer": f"/{kind}", "as": kind} for kind in (*KINDS, "argv")),
        {"pointer": "/files/*", "as": "read"},
    ],
    "risk": "medium",
}


def manifest(*tools: dict[str, Any]) -> bytes:
    return json.dumps(tools).encode()


def changed(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(TOOL), **fields}


def facts(**arguments: Any) -> Facts:
    registry = registry_of(read_manifest(manifest(TOOL)))
    return registry.facts(registry.validate("c", "deploy", json.dumps(arguments).encode(), 1 << 20), TABLES)


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def test_a_good_manifest_adds_its_tools_to_the_built_in_ones() -> None:
    registry = registry_of(read_manifest(manifest(TOOL)))
    assert registry.names() == (*DEFAULT_REGISTRY.names(), "deploy")
    assert registry.entrypoint("deploy") == "gate/tool"
    assert (registry.spec("deploy").risk, registry.spec("deploy").server) == ("medium", "")
    assert registry_of(()) is DEFAULT_REGISTRY


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        (changed(name="Bash"), "taken"),
        (changed(name="9lives"), "name"),
        (changed(name="a" * 65), "name"),
        (changed(name="rm -rf"), "name"),
        (changed(entrypoint="gate/bash"), "unknown field"),
        (changed(risk="none"), "risk"),
        (changed(server="a b"), "server"),
        (changed(description_sha256="ab"), "description_sha256"),
        (changed(description_sha256="A" * 64), "description_sha256"),
        (changed(description_sha256="a" * 64 + "\n"), "description_sha256"),
        ({key: value for key, value in TOOL.items() if key != "facts"}, "facts"),
        (changed(facts=[{"pointer": "/absent", "as": "read"}]), "no property"),
        (changed(facts=[{"pointer": "/files/0", "as": "read"}]), "pointer"),
        (changed(facts=[{"pointer": "files", "as": "read"}]), "pointer"),
        (changed(facts=[{"pointer": "/read", "as": "eval"}]), "eval"),
        (changed(facts=[{"pointer": "/read", "as": "read", "if": 1}]), "unknown field"),
        (changed(facts=[], schema={"type": "object", "properties": {}}), "open"),
        (changed(facts=[], schema={"properties": {}, "additionalProperties": False}), "type"),
        (changed(facts=[], schema=closed(a={"type": "strnig"})), "schema is none"),
        (changed(facts=[], schema=closed(a={"$ref": "http://evil.example.com/x"})), "outside itself"),
        (changed(facts=[], schema=closed(a={"$ref": "file:///etc/passwd"})), "outside itself"),
        (changed(facts=[], schema=closed(a={"$ref": "#/$defs/absent"})), "schema is none"),
        (changed(facts=[], schema={**closed(), "$id": "x:y"}), r"\$id"),
        (changed(facts=[], schema=closed(a={"description": "x" * MAX_SCHEMA})), "bytes"),
    ],
)
def test_a_bad_tool_is_refused_by_name(tool: dict[str, Any], why: str) -> None:
    with pytest.raises(BundleRefused, match=why) as refused:
        read_manifest(manifest(tool))
    assert repr(tool["name"])[:80] in str(refused.value)


def test_two_tools_of_one_name_and_too_many_tools_are_refused() -> None:
    many = [changed(name=f"t{number}") for number in range(MAX_TOOLS)]
    assert len(read_manifest(manifest(*many))) == MAX_TOOLS
    with pytest.raises(BundleRefused, match="too many"):
        read_manifest(manifest(*many, TOOL))
    with pytest.raises(BundleRefused, match="taken"):
        read_manifest(manifest(TOOL, TOOL))


@pytest.mark.parametrize("content", [b"{}", b"[1]", b"[", b"[" * 100_000])
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(BundleRefused, match="tools"):
        read_manifest(content)


@pytest.mark.parametrize(("kind", "fact"), [("read", "reads"), ("write", "writes"), ("delete", "deletes")])
def test_a_path_is_resolved_and_classified(kind: str, fact: str) -> None:
    (secret,) = getattr(facts(**{kind: "a/../.env"}), fact)
    (twin,) = getattr(facts(**{kind: "a/../env"}), fact)
    assert (secret.path, secret.classes) == ("/workspace/.env", {"secret": True})
    assert (twin.path, twin.classes) == ("/workspace/env", {})


@pytest.mark.parametrize("kind", ["host", "url"])
def test_a_host_is_read_and_classified(kind: str) -> None:
    (good,) = facts(**{kind: "https://docs.python.org/3/"}).hosts
    (other,) = facts(**{kind: "https://evil.example.com/3/"}).hosts
    assert (good.name, good.classes) == ("docs.python.org", {"allowed": True})
    assert (other.name, other.classes) == ("evil.example.com", {})


def test_commands_are_read_as_bash_and_exec_read_them() -> None:
    assert [one.program for one in facts(shell="cd x && cat a").commands][-1] == "cat"
    assert [one.path for one in facts(shell="cat .env").reads] == ["/workspace/.env"]
    assert [one.path for one in facts(argv=["cat", ".env"]).reads] == ["/workspace/.env"]
    assert facts(shell="$(cat x)").opaque
    assert not facts(shell="cat x").opaque


def test_each_element_of_a_list_is_a_fact() -> None:
    assert [one.path for one in facts(files=["a", ".env"]).reads] == ["/workspace/a", "/workspace/.env"]
    assert not facts(files=["a"] * MAX_VALUES).opaque
    assert facts(files=["a"] * (MAX_VALUES + 1)).opaque


@pytest.mark.parametrize(
    "arguments",
    [
        {"read": ["a"]}, {"read": 1}, {"read": ""}, {"read": "a" * 5000}, {"host": "two hosts"}, {"host": None},
        {"url": "docs.python.org"}, {"shell": ["ls"]}, {"shell": "x" * 200_000}, {"argv": "ls"}, {"argv": []},
        {"argv": ["ls", 1]}, {"files": "a"}, {"files": {"a": "b"}}, {"files": ["a", 1]},
    ],
)  # fmt: skip
def test_what_is_not_what_the_mapping_says_is_opaque(arguments: dict[str, Any]) -> None:
    found = facts(**arguments)
    assert found.opaque
    assert found.opaque_reasons


def test_arguments_have_no_meaning_but_that_of_the_mapping() -> None:
    assert facts(cwd=7) == Facts()
    with pytest.raises(InvalidArgument):
        facts(cwd="/")
    with pytest.raises(InvalidArgument):
        facts(unknown=1)


def test_a_recorded_call_has_the_same_digest_and_another_one_has_not() -> None:
    registry = registry_of(read_manifest(manifest(TOOL)))
    call = registry.validate("c", "deploy", b'{"read": "a"}', 1 << 20)
    assert registry.reopen("c", "deploy", call.sealed).digest == call.digest
    assert registry.validate("c", "deploy", b'{"read": "b"}', 1 << 20).digest != call.digest


def test_it_never_becomes_a_program() -> None:
    registry = registry_of(read_manifest(manifest(TOOL)))
    call = registry.validate("c", "deploy", b'{"read": "a"}', 1 << 20)
    with pytest.raises(NotPermitted, match="Begin and Finish"):
        registry.program(call, Grant())
