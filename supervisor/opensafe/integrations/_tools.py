"""The tools that a model is offered, as JSON Schema, and what each does with a sandbox.

A tool is written once for Sandbox and AsyncSandbox, which have the same methods: it is a generator that yields what a
method gave, an answer or an awaitable, and is sent the answer. `_calling` drives it.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import jsonschema_rs
import msgspec

from opensafe.client import AsyncSandbox, CommandResult, FileInfo, Sandbox
from opensafe.errors import InvalidArgument

Box = Sandbox | AsyncSandbox
Arguments = Mapping[str, Any]
#: What a tool leaves: a command's result, or a text for the model.
Left = CommandResult | str
Steps = Generator[Any, Any, Left]

#: Most bytes of a file that a model is shown at once.
READ_MAX: Final = 256 * 1024
#: Largest file that `edit` changes, in bytes.
EDIT_MAX: Final = 4 << 20
_ENTRIES_MAX: Final = 1000


class Tool(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A tool. parameters: JSON Schema 2020-12 of its arguments, closed. steps: what it does, given such arguments."""

    name: str
    description: str
    parameters: dict[str, Any]
    steps: Callable[[Any, Arguments], Steps]

    @cached_property
    def validator(self) -> jsonschema_rs.Draft202012Validator:
        """Of the arguments."""
        return jsonschema_rs.Draft202012Validator(self.parameters)


def _bash(box: Box, given: Arguments) -> Steps:
    result: CommandResult = yield box.bash(given["command"], **_options(given))
    return result


def _exec(box: Box, given: Arguments) -> Steps:
    result: CommandResult = yield box.exec(given["argv"], **_options(given))
    return result


def _read(box: Box, given: Arguments) -> Steps:
    offset, length = given.get("offset", 0), given.get("length", READ_MAX)
    data: bytes = yield box.files.read_bytes(given["path"], offset=offset, length=length)
    text = data.decode("utf-8", "replace")
    if len(data) == length:
        text += f"\n[these are {length} bytes from {offset}; there may be more: read on with offset {offset + length}]"
    return text or "[nothing]"


def _write(box: Box, given: Arguments) -> Steps:
    content = _utf8(given["content"])
    yield box.files.write(given["path"], content)
    return f"{len(content)} bytes are written to {given['path']}."


def _edit(box: Box, given: Arguments) -> Steps:
    path, old, new = given["path"], _utf8(given["old"]), _utf8(given["new"])
    content: bytes = yield box.files.read_bytes(path, length=EDIT_MAX + 1)
    if len(content) > EDIT_MAX:
        raise InvalidArgument("the file is too large to be edited so", value=path, limit=EDIT_MAX, remedy="Use bash.")
    found = content.count(old)
    if found != 1 and not (found and given.get("all", False)):
        remedy = "Read the file, and copy the text exactly." if not found else "Give more text around it, or set `all`."
        raise InvalidArgument(f"`old` stands {found} times in {path}; nothing was changed", remedy=remedy)
    yield box.files.write(path, content.replace(old, new))
    return f"{found} {'place is' if found == 1 else 'places are'} changed in {path}."


def _list(box: Box, given: Arguments) -> Steps:
    entries: list[FileInfo] = yield box.files.list(given.get("path", "."))
    lines = [_entry(entry) for entry in entries[:_ENTRIES_MAX]]
    if len(entries) > _ENTRIES_MAX:
        lines.append(f"[{len(entries) - _ENTRIES_MAX} more]")
    return "\n".join(lines) or "[empty]"


def _remove(box: Box, given: Arguments) -> Steps:
    yield box.files.remove(given["path"], recursive=given.get("recursive", False))
    return f"{given['path']} is removed."


def _move(box: Box, given: Arguments) -> Steps:
    yield box.files.move(given["path"], given["to"], replace=given.get("replace", False))
    return f"{given['path']} is now {given['to']}."


def _mkdir(box: Box, given: Arguments) -> Steps:
    yield box.files.mkdir(given["path"], parents=given.get("parents", False))
    return f"{given['path']} is made."


def _resume(box: Box, given: Arguments) -> Steps:
    result: CommandResult = yield box.resume(given["call_id"])
    return result


def _options(given: Arguments) -> dict[str, Any]:
    names = {"cwd": "cwd", "timeout_s": "timeout"}
    return {names[name]: value for name, value in given.items() if name in names}


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument("the text is no Unicode: it has half a surrogate pair", value=error.start) from error


def _entry(entry: FileInfo) -> str:
    name = entry.name.decode("utf-8", "backslashreplace")
    match entry.type:
        case "directory":
            return f"{name}/"
        case "file":
            return f"{name}\t{entry.size} bytes"
        case other:
            return f"{name}\t{other}"


_PATH: Final = {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Relative to /workspace, or not."}
_FLAG: Final = {"type": "boolean"}
_COMMAND: Final = {
    "cwd": {"type": "string", "minLength": 1, "description": "Absolute; /workspace if absent."},
    "timeout_s": {"type": "number", "minimum": 0.05, "maximum": 3600, "description": "Seconds until it is killed."},
}


def _tool(
    steps: Callable[[Any, Arguments], Steps], description: str, required: Iterable[str], **properties: dict[str, Any]
) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return Tool(name=steps.__name__.lstrip("_"), description=description, parameters=schema, steps=steps)


TOOLS: Final = {
    tool.name: tool
    for tool in (
        _tool(
            _bash, "Run a bash command line in the sandbox. Files outlive it; variables and processes don't.",
            ["command"], command={"type": "string", "minLength": 1}, **_COMMAND,
        ),
        _tool(
            _exec, "Run one program in the sandbox with exactly these arguments, without a shell.", ["argv"],
            argv={"type": "array", "items": {"type": "string"}, "minItems": 1}, **_COMMAND,
        ),
        _tool(
            _read, f"Read a text file of the sandbox, at most {READ_MAX} bytes at once.", ["path"], path=_PATH,
            offset={"type": "integer", "minimum": 0, "description": "First byte."},
            length={"type": "integer", "minimum": 1, "maximum": READ_MAX, "description": "Bytes."},
        ),
        _tool(
            _write, "Write a whole text file in the sandbox; what it held is replaced.", ["path", "content"],
            path=_PATH, content={"type": "string"},
        ),
        _tool(
            _edit, "Replace a text that stands once in a file of the sandbox, or with `all` everywhere in it.",
            ["path", "old", "new"], path=_PATH, old={"type": "string", "minLength": 1}, new={"type": "string"},
            all=_FLAG,
        ),
        _tool(_list, "List a directory of the sandbox.", [], path=_PATH),
        _tool(
            _remove, "Remove a file, an empty directory, or with `recursive` all below it.", ["path"], path=_PATH,
            recursive=_FLAG,
        ),
        _tool(_move, "Rename a file or directory.", ["path", "to"], path=_PATH, to=_PATH, replace=_FLAG),
        _tool(_mkdir, "Make a directory, with `parents` those above it too.", ["path"], path=_PATH, parents=_FLAG),
        _tool(
            _resume, "Look at a call that waited for a reviewer: it tells how it ended, or that it waits still.",
            ["call_id"], call_id={"type": "string", "minLength": 1, "maxLength": 128},
        ),
    )
}  # fmt: skip


def selected(only: Iterable[str] | None) -> list[Tool]:
    """The tools of these names in that order, or all. Raises InvalidArgument for a name that is none."""
    if only is None:
        return list(TOOLS.values())
    names = [only] if isinstance(only, str) else list(only)
    for name in names:
        if name not in TOOLS:
            raise InvalidArgument("there is no such tool", value=name, limit=", ".join(TOOLS))
    return [TOOLS[name] for name in names]
