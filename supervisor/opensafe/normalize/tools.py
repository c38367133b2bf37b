"""The tool registry: what a tool's arguments must look like, what they mean, and the program they become.

Facts and program are made from the *sealed* arguments alone, so that a recorded call can be judged and its
program derived again, without the content that was sealed away. Nothing of a caller's text reaches a program
but as one whole argv or env element.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import jsonschema_rs
import msgspec

from opensafe.errors import InvalidArgument, LimitExceeded, UnknownTool
from opensafe.model.calls import Program, ToolCall
from opensafe.model.canonical import MAX_SAFE_INTEGER, digest
from opensafe.model.decision import Grant
from opensafe.model.facts import ClassTables, Facts
from opensafe.model.sandbox import User
from opensafe.model.written import NOTHING, NOTHING_LEFT, Left, Written

from .arguments import parse_object, pointer
from .environment import DEFAULT_CWD, GUEST_ENV
from .facts import from_parse
from .file_tools import FILE_TOOLS
from .paths import MAX_PATH, resolve
from .secrets import NAMES, shapes
from .shell import read_argv, read_shell
from .tool_spec import TIMEOUT, USER, Sealed, ToolSpec, object_schema, program_of

MAX_ARGUMENT: Final = 128 * 1024 - 1  # MAX_ARG_STRLEN less the final NUL
MAX_ARGV_ENV: Final = 256 * 1024
MAX_ENV: Final = 128
MAX_ARGV: Final = 4096


class Registry:
    """The tools there are. Immutable; schemas are compiled when it is made."""

    __slots__ = ("_open", "_sealed", "_specs")

    def __init__(self, specs: tuple[ToolSpec, ...]) -> None:
        self._specs: Mapping[str, ToolSpec] = MappingProxyType({spec.name: spec for spec in specs})
        self._open = {spec.name: jsonschema_rs.Draft202012Validator(spec.schema) for spec in specs}
        self._sealed = {spec.name: jsonschema_rs.Draft202012Validator(_sealed_schema(spec)) for spec in specs}

    def with_tools(self, specs: tuple[ToolSpec, ...]) -> "Registry":
        """These tools and `specs`, whose names must be new."""
        return Registry((*self._specs.values(), *specs)) if specs else self

    def names(self) -> tuple[str, ...]:
        """The tools' names, in order of registration."""
        return tuple(self._specs)

    def spec(self, tool: str) -> ToolSpec:
        """A tool by its exact name: no case folding, no alias. Raises UnknownTool."""
        spec = self._specs.get(tool)
        if spec is None:
            raise UnknownTool(
                "no tool of that name is registered",
                value=repr(tool)[:80],
                remedy=f"Use one of {', '.join(self._specs)}.",
            )
        return spec

    def entrypoint(self, tool: str) -> str:
        """The policy entry point that judges `tool`. Raises UnknownTool."""
        return self.spec(tool).entrypoint

    def validate(self, call_id: str, tool: str, arguments_json: bytes, max_bytes: int) -> ToolCall:
        """Bytes to a call. Raises UnknownTool, InvalidArgument and LimitExceeded; never anything else."""
        spec = self.spec(tool)
        arguments = parse_object(arguments_json, max_bytes)
        _conform(self._open[tool], arguments, tool)
        sealed = _seal(spec, arguments)
        if not spec.elsewhere:
            _check_meaning(sealed)
        return ToolCall(call_id=call_id, tool=tool, arguments=arguments, sealed=sealed, digest=_digest(tool, sealed))

    def reopen(self, call_id: str, tool: str, sealed: dict[str, Any]) -> ToolCall:
        """A recorded call, to be judged again; it has no content, so it can't be executed. Raises as `validate`."""
        spec = self.spec(tool)
        _conform(self._sealed[tool], sealed, tool)
        if not spec.elsewhere:
            _check_meaning(sealed)
        return ToolCall(call_id=call_id, tool=tool, arguments=sealed, sealed=sealed, digest=_digest(tool, sealed))

    def user(self, call: ToolCall) -> str:
        """The name or number of the user that a call asks to run as; "" for none."""
        return str(call.sealed.get(self.spec(call.tool).identity, ""))

    def facts(self, call: ToolCall, tables: ClassTables, user: User | None = None) -> Facts:
        """What policy may know of a call; `user` is whom it asked to run as."""
        if user is None:
            return self.facts_of(call.tool, call.sealed, tables)
        facts = self.facts_of(call.tool, _as(call.sealed, user), tables)
        return msgspec.structs.replace(facts, env=call.sealed.get("env", {}))

    def read(self, call: ToolCall, tables: ClassTables, user: User | None, before: Written) -> tuple[Facts, Left]:
        """The facts, where the session's calls before wrote files; and what this one leaves, once it is allowed."""
        spec = self.spec(call.tool)
        if spec.reads is None:
            left = spec.leaves(call.arguments, before) if spec.leaves is not None else NOTHING_LEFT
            return self.facts(call, tables, user), left
        facts, left = spec.reads(_as(call.sealed, user), tables, before)
        return (facts if user is None else msgspec.structs.replace(facts, env=call.sealed.get("env", {}))), left

    def facts_of(self, tool: str, sealed: Sealed, tables: ClassTables) -> Facts:
        """The same from what a record holds."""
        return self.spec(tool).facts(sealed, tables)

    def program(self, call: ToolCall, grant: Grant, user: User | None = None) -> Program:
        """The program a call becomes under a grant. Raises NotPermitted where no granted root holds the path."""
        return self.spec(call.tool).program(_as(call.sealed, user), grant)

    def stdin(self, call: ToolCall) -> bytes | None:
        """What the program reads: the content of a Write, else None. Raises InvalidArgument for a reopened call."""
        for field in self.spec(call.tool).bulk:
            if field in call.arguments:
                return _content(field, call.arguments[field])
        return None


# Arguments


def _conform(validator: jsonschema_rs.Draft202012Validator, arguments: dict[str, Any], tool: str) -> None:
    if validator.is_valid(arguments):
        return
    error = next(iter(validator.iter_errors(arguments)))
    place = pointer(list(error.instance_path))
    raise InvalidArgument(
        f"{tool}{place and ' ' + place}: {error.message[:300]}",
        value=place or "/",
        remedy=f"See the schema of {tool}.",
    )


def _seal(spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    sealed = dict(arguments)
    for field in spec.bulk:
        if field in sealed:
            content = _content(field, sealed[field])
            sealed[field] = {
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "shapes": shapes(content),
            }
    return sealed


def _content(field: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise InvalidArgument("the call was read from a record, which holds no content", value=field)
    if field != "content_base64":
        return value.encode("utf-8")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(
            f"/{field} is no base64: {error}", value=field, remedy="Encode it by RFC 4648."
        ) from error


def _check_meaning(sealed: Sealed) -> None:
    """What a JSON schema can't say: sizes in bytes, clean directories, resolvable paths."""
    cwd = sealed.get("cwd", DEFAULT_CWD)
    if resolve(cwd, "/") != cwd:
        raise InvalidArgument("/cwd is not clean", value=cwd, remedy=f"Use {resolve(cwd, '/')}.")
    for name in ("path", "to"):
        if name in sealed:
            resolve(sealed[name], DEFAULT_CWD)
    argv = sealed["argv"] if "argv" in sealed else [sealed["command"]] if "command" in sealed else []
    total = 0
    for text in (*argv, *(f"{name}={value}" for name, value in sealed.get("env", {}).items())):
        size = len(text) if text.isascii() else len(text.encode("utf-8"))
        total += size + 1
        if size > MAX_ARGUMENT:
            raise LimitExceeded(
                "an argument is too long", value=f"{size} bytes", limit=f"{MAX_ARGUMENT} bytes",
                remedy="Write it to a file and name the file.",
            )  # fmt: skip
    if total > MAX_ARGV_ENV:
        raise LimitExceeded(
            "arguments and environment are too long together", value=f"{total} bytes", limit=f"{MAX_ARGV_ENV} bytes",
            remedy="Write them to a file and name the file.",
        )  # fmt: skip


def _digest(tool: str, sealed: dict[str, Any]) -> str:
    return digest({"tool": tool, "arguments": sealed})


def _sealed_schema(spec: ToolSpec) -> dict[str, Any]:
    seal = {
        "type": "object",
        "properties": {
            "bytes": {"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER},
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "shapes": {
                "type": "object",
                "properties": {name: {"const": True} for name in NAMES},
                "additionalProperties": False,
            },
        },
        "required": ["bytes", "sha256", "shapes"],
        "additionalProperties": False,
    }
    return {**spec.schema, "properties": {**spec.schema["properties"], **dict.fromkeys(spec.bulk, seal)}}


# Users


def _as(sealed: Sealed, user: User | None) -> Sealed:
    """The arguments with the user's own variables; those that the call sets come first."""
    return sealed if user is None else {**sealed, "env": {**user.variables(), **sealed.get("env", {})}}


# Facts


def _bash_reads(sealed: Sealed, tables: ClassTables, before: Written = NOTHING) -> tuple[Facts, Left]:
    command, env = sealed["command"], sealed.get("env", {})
    parse, left = read_shell(command, sealed.get("cwd", DEFAULT_CWD), {**GUEST_ENV, **env}, before)
    return from_parse(parse, tables, env=env, size=len(command.encode("utf-8"))), left


def _exec_reads(sealed: Sealed, tables: ClassTables, before: Written = NOTHING) -> tuple[Facts, Left]:
    argv, env = sealed["argv"], sealed.get("env", {})
    parse, left = read_argv(argv, sealed.get("cwd", DEFAULT_CWD), {**GUEST_ENV, **env}, before)
    return from_parse(parse, tables, env=env, size=sum(len(text.encode("utf-8")) for text in argv)), left


def _bash_facts(sealed: Sealed, tables: ClassTables) -> Facts:
    return _bash_reads(sealed, tables)[0]


def _exec_facts(sealed: Sealed, tables: ClassTables) -> Facts:
    return _exec_reads(sealed, tables)[0]


# Programs


def _bash_program(sealed: Sealed, _grant: Grant) -> Program:
    return program_of(("/bin/bash", "--noprofile", "--norc", "-c", sealed["command"]), sealed)


def _exec_program(sealed: Sealed, _grant: Grant) -> Program:
    return program_of(tuple(sealed["argv"]), sealed)


# The tools

_CWD: Final = {"type": "string", "minLength": 1, "maxLength": MAX_PATH, "pattern": "^/"}
_ENV: Final = {
    "type": "object",
    "maxProperties": MAX_ENV,
    "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 256},
    "additionalProperties": {"type": "string"},
}
_RUN: Final = {"cwd": _CWD, "env": _ENV, "user": USER, "timeout_ms": TIMEOUT}


DEFAULT_REGISTRY: Final = Registry(
    (
        ToolSpec(
            name="Bash",
            description="Run a shell text with bash in the sandbox.",
            schema=object_schema(["command"], {"command": {"type": "string", "minLength": 1}, **_RUN}),
            entrypoint="gate/bash",
            facts=_bash_facts,
            reads=_bash_reads,
            program=_bash_program,
            identity="user",
        ),
        ToolSpec(
            name="Exec",
            description="Run one program with exactly these arguments, without a shell.",
            schema=object_schema(
                ["argv"],
                {
                    "argv": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": MAX_ARGV,
                        "prefixItems": [{"type": "string", "minLength": 1}],
                        "items": {"type": "string"},
                    },
                    **_RUN,
                },
            ),
            entrypoint="gate/exec",
            facts=_exec_facts,
            reads=_exec_reads,
            program=_exec_program,
            identity="user",
        ),
        *FILE_TOOLS,
    )
)
