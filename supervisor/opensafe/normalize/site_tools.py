"""Tools of a site's own: a manifest says what their arguments look like and which of them are paths, hosts or commands.

They run elsewhere: the daemon judges their calls and gives permits, and never makes a program of one. What a mapping
can't read as it says makes the call opaque; a mapping never drops a value in silence.
"""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal

import jsonschema_rs
import msgspec

from opensafe.errors import BundleRefused, InvalidArgument, LimitExceeded, NotPermitted
from opensafe.model.calls import Program
from opensafe.model.decision import Grant
from opensafe.model.facts import ClassTables, Facts

from .environment import DEFAULT_CWD, GUEST_ENV
from .facts import from_parse, one_path
from .paths import resolve
from .shell import parse_argv, parse_shell
from .tool_spec import Sealed, ToolSpec
from .tools import DEFAULT_REGISTRY, MAX_ARGUMENT, Registry
from .urls import parse_host

MAX_TOOLS: Final = 256
MAX_SCHEMA: Final = 64 * 1024
MAX_SCHEMA_DEPTH: Final = 64
#: Values of one call that are read as facts; a call with more is opaque.
MAX_VALUES: Final = 256
ENTRYPOINT: Final = "gate/tool"
#: Words by which a schema would lean on something outside itself.
_FOREIGN: Final = frozenset({"$id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary"})

Kind = Literal["read", "write", "delete", "host", "url", "shell", "argv"]


class FactMapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an argument is. pointer: RFC 6901, `/field`, or `/field/*` for each element of a list.

    read, write, delete: a path, relative to the workspace. host: a name, address or URL. url: with its scheme. shell:
    a text for bash. argv: a list of texts.
    """

    pointer: Annotated[str, msgspec.Meta(pattern=r"^/[A-Za-z0-9_.-]{1,64}(/\*)?\Z")]
    kind: Kind = msgspec.field(name="as")

    @property
    def field(self) -> str:
        """The argument's name."""
        return self.pointer.split("/")[1]

    @property
    def each(self) -> bool:
        """Whether its elements are meant."""
        return self.pointer.endswith("/*")


class SiteTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool of the manifest. server: the MCP server that offers it, "" for none.

    description_sha256: pins what the client must have been shown of it (model/description.py), "" for no pin.
    untrusted: what it returns was written by others, who may have written it for the agent.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")]
    description: Annotated[str, msgspec.Meta(max_length=4096)]
    schema: dict[str, Any]
    facts: tuple[FactMapping, ...]
    risk: Literal["low", "medium", "high"]
    server: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]{0,64}\Z")] = ""
    description_sha256: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""
    untrusted: bool = False


def read_manifest(content: bytes) -> tuple[SiteTool, ...]:
    """The tools of a manifest, checked. Raises BundleRefused naming the tool."""
    try:
        entries = msgspec.json.decode(content, type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleRefused(f"tools: {error}") from error
    if len(entries) > MAX_TOOLS:
        raise BundleRefused("tools: too many", value=len(entries), limit=MAX_TOOLS)
    taken = set(DEFAULT_REGISTRY.names())
    tools = []
    for number, entry in enumerate(entries):
        name = repr(entry.get("name", f"number {number}"))[:80]
        try:
            tool = msgspec.convert(entry, SiteTool)
        except msgspec.ValidationError as error:
            raise BundleRefused(f"tools: {name}: {error}", value=name) from error
        fault = "the name is taken" if tool.name in taken else _fault(tool)
        if fault:
            raise BundleRefused(f"tools: {name}: {fault}", value=name)
        taken.add(tool.name)
        tools.append(tool)
    return tuple(tools)


def registry_of(tools: tuple[SiteTool, ...]) -> Registry:
    """The built-in tools and those of a checked manifest."""
    return DEFAULT_REGISTRY.with_tools(tuple(_spec(tool) for tool in tools))


# Manifest


def _fault(tool: SiteTool) -> str:
    """What is wrong with a schema or a mapping, "" if nothing is."""
    schema = tool.schema
    try:
        size = len(msgspec.json.encode(schema))
    except RecursionError:
        return "the schema is nested too deep"
    if size > MAX_SCHEMA:
        return f"the schema has {size} bytes, {MAX_SCHEMA} are allowed"
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return 'the schema must have the type "object" and properties'
    if schema.get("additionalProperties") is not False:
        return 'the schema is open: "additionalProperties" must be false'
    foreign = _foreign(schema, 1)
    if foreign:
        return foreign
    try:
        jsonschema_rs.Draft202012Validator(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return f"the schema is none: {str(error).partition(chr(10))[0]}"
    for mapping in tool.facts:
        if mapping.field not in properties:
            return f"{mapping.pointer} points at no property of the schema"
    return ""


def _foreign(value: object, depth: int) -> str:
    if depth > MAX_SCHEMA_DEPTH:
        return f"the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels"
    if not isinstance(value, dict | list):
        return ""
    if isinstance(value, dict):
        for word in sorted(_FOREIGN & value.keys()):
            return f"the schema has {word}, which is not taken"
        target = value.get("$ref", "#")
        if isinstance(target, str) and not target.startswith("#"):
            return f"the schema refers to {target[:80]}, outside itself"
    items = value.values() if isinstance(value, dict) else value
    return next((fault for item in items if (fault := _foreign(item, depth + 1))), "")


def _spec(tool: SiteTool) -> ToolSpec:
    def facts(sealed: Sealed, tables: ClassTables) -> Facts:
        return _facts(tool, sealed, tables)

    def program(_sealed: Sealed, _grant: Grant) -> Program:
        raise elsewhere(tool.name)

    return ToolSpec(
        name=tool.name,
        description=tool.description,
        schema=tool.schema,
        entrypoint=ENTRYPOINT,
        facts=facts,
        program=program,
        risk=tool.risk,
        server=tool.server,
        pinned=tool.description_sha256,
        untrusted=tool.untrusted,
        elsewhere=True,
    )


def elsewhere(name: str) -> NotPermitted:
    """The refusal to run a site's tool here."""
    return NotPermitted(
        "the tool runs elsewhere: use Begin and Finish", value=name, remedy="Ask for a permit by Begin."
    )


# Facts


def _facts(tool: SiteTool, sealed: Sealed, tables: ClassTables) -> Facts:
    found: list[Facts] = []
    size = 0
    for mapping, value in _values(tool, sealed):
        if len(found) == MAX_VALUES:
            found.append(_opaque(f"more than {MAX_VALUES} values are paths, hosts or commands"))
            break
        size += _command_size(mapping, value)
        if size > MAX_ARGUMENT:
            found.append(_opaque(f"commands of more than {MAX_ARGUMENT} bytes"))
            break
        try:
            found.append(_READERS[mapping.kind](value, tables))
        except (InvalidArgument, LimitExceeded, _Unreadable) as error:
            found.append(_opaque(f"{mapping.pointer} is not read as {mapping.kind}: {error}"))
    return Facts(
        commands=tuple(command for one in found for command in one.commands),
        reads=tuple(path for one in found for path in one.reads),
        writes=tuple(path for one in found for path in one.writes),
        deletes=tuple(path for one in found for path in one.deletes),
        hosts=tuple(host for one in found for host in one.hosts),
        opaque=any(one.opaque for one in found),
        opaque_reasons=tuple(dict.fromkeys(reason for one in found for reason in one.opaque_reasons)),
    )


def _values(tool: SiteTool, sealed: Sealed) -> Iterator[tuple[FactMapping, object]]:
    for mapping in tool.facts:
        if mapping.field not in sealed:
            continue
        value = sealed[mapping.field]
        if mapping.each and isinstance(value, list):
            yield from ((mapping, item) for item in value)
        else:
            yield mapping, _NO_LIST if mapping.each else value


class _Unreadable(Exception):  # noqa: N818 - no error of the call: it ends as a fact
    """A value that is not what its mapping says."""


_NO_LIST: Final = object()


def _opaque(reason: str) -> Facts:
    return Facts(opaque=True, opaque_reasons=(reason[:300],))


def _command_size(mapping: FactMapping, value: object) -> int:
    if mapping.kind == "shell" and isinstance(value, str):
        return len(value.encode("utf-8"))
    if mapping.kind == "argv" and isinstance(value, list):
        return sum(len(item.encode("utf-8")) + 1 for item in value if isinstance(item, str))
    return 0


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _Unreadable("no text")
    return value


def _read(value: object, tables: ClassTables) -> Facts:
    return Facts(reads=(one_path(resolve(_text(value), DEFAULT_CWD), tables),))


def _write(value: object, tables: ClassTables) -> Facts:
    return Facts(writes=(one_path(resolve(_text(value), DEFAULT_CWD), tables),))


def _delete(value: object, tables: ClassTables) -> Facts:
    return Facts(deletes=(one_path(resolve(_text(value), DEFAULT_CWD), tables),))


def _host(value: object, tables: ClassTables) -> Facts:
    fact = parse_host(_text(value), tables=tables)
    if fact is None:
        raise _Unreadable("it names no host")
    return Facts(hosts=(fact,))


def _url(value: object, tables: ClassTables) -> Facts:
    if not _SCHEME.match(_text(value)):
        raise _Unreadable("it has no scheme")
    return _host(value, tables)


def _shell(value: object, tables: ClassTables) -> Facts:
    return from_parse(parse_shell(_text(value), DEFAULT_CWD, GUEST_ENV), tables)


def _argv(value: object, tables: ClassTables) -> Facts:
    if not isinstance(value, list) or not value:
        raise _Unreadable("no list of texts")
    return from_parse(parse_argv([_text(item) for item in value], DEFAULT_CWD, GUEST_ENV), tables)


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_READERS: Final[dict[Kind, Callable[[object, ClassTables], Facts]]] = {
    "read": _read,
    "write": _write,
    "delete": _delete,
    "host": _host,
    "url": _url,
    "shell": _shell,
    "argv": _argv,
}
