"""Which of a server's tools may be shown, and in which words.

A tool's text is read by a model as if the user had written it, so what is hidden from a human, imitates another tool
or is larger than anybody reads is dropped, with a reason. That finds crude attacks; a lie in plain words is left to the
pin and to whoever approves it. What is shown of a tool is what its digest covers, and nothing beside it.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from mcp_types import Tool, ToolAnnotations

from opensafe.client import description_digest

MAX_TOOLS: Final = 256
MAX_DESCRIPTION: Final = 4096
MAX_SCHEMA: Final = 64 * 1024
MAX_DEPTH: Final = 64
#: Longest name of a tool in the daemon's registry.
MAX_NAME: Final = 64
NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
SERVER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
#: OpenSafe's own tools; the daemon's, and those that its MCP server shows.
OWN: Final = ("bash", "exec", "read", "write", "edit", "list", "stat", "watch", "remove", "move", "mkdir", "download")
#: What tool poisoning has said so far. A list of known phrases is no proof of good will.
_PHRASES: Final = re.compile(
    r"<\s*/?\s*(important|system|instructions?|secret|hidden)\s*>"
    r"|(ignore|disregard|forget)\s+(all\s+|any\s+)?(the\s+|your\s+)?(previous|prior|above|earlier|other)\s"
    r"|(do\s+not|don't|never)\s+(tell|inform|mention|reveal|show)\b.{0,40}\buser\b"
    r"|before\s+(using|calling)\s+(any|this|another)\s+(other\s+)?tool\b.{0,60}\bread\b"
    r"|<!--",
    re.IGNORECASE | re.DOTALL,
)
_ALIKE: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "_": "", "-": "", ".": ""})


class Vetted(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as it may be shown. registered: its name in the daemon. digest: of description and schema (T15)."""

    name: str
    registered: str
    digest: str
    tool: Tool


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A server's tools by name, and why others are not among them."""

    tools: dict[str, Vetted]
    dropped: dict[str, str]


def registered(server: str, tool: str) -> str:
    """What a server's tool is called in the site's tool manifest and in the audit log."""
    return f"mcp__{server}__{tool}"


def vet(server: str, tools: Iterable[Tool]) -> Listing:
    """Look at all tools of one list. A name that reads like one before it is dropped; the first one stays."""
    kept: dict[str, Vetted] = {}
    dropped: dict[str, str] = {}
    taken = {skeleton(name): f"OpenSafe's own tool {name}" for name in OWN}
    for number, tool in enumerate(tools):
        if number == MAX_TOOLS:
            dropped["…"] = f"the server has more than {MAX_TOOLS} tools"
            break
        fault = _fault(server, tool)
        like = taken.get(skeleton(tool.name))
        if not fault and like:
            fault = f"its name reads like {like}"
        if fault:
            dropped[tool.name[:MAX_NAME]] = fault
            continue
        try:
            digest = description_digest(tool.description or "", tool.input_schema)
        except ValueError as error:
            dropped[tool.name] = f"its description can't be pinned: {error}"
            continue
        taken[skeleton(tool.name)] = f"the tool {tool.name}"
        kept[tool.name] = Vetted(
            name=tool.name, registered=registered(server, tool.name), digest=digest, tool=_bare(tool)
        )
    return Listing(tools=kept, dropped=dropped)


def skeleton(name: str) -> str:
    """What is left of an ASCII name when characters that look alike are taken for one."""
    return name.lower().translate(_ALIKE)


def _fault(server: str, tool: Tool) -> str:
    """Why it may not be shown, "" where nothing speaks against it."""
    if not NAME.fullmatch(tool.name):
        return "its name has characters beside letters, digits, `_`, `.` and `-` of ASCII"
    if len(registered(server, tool.name)) > MAX_NAME:
        return f"its name is too long: {registered(server, '')} and it have more than {MAX_NAME} characters"
    if tool.name.lower().startswith("mcp__"):
        return "its name claims the place of another server's tool"
    description = tool.description or ""
    if len(description) > MAX_DESCRIPTION:
        return f"its description has {len(description)} characters, {MAX_DESCRIPTION} are allowed"
    try:
        size = len(json.dumps(tool.input_schema))
        texts = [description, *_texts(tool.input_schema, 1)]
    except (RecursionError, ValueError):
        return f"its schema is nested deeper than {MAX_DEPTH} levels"
    if size > MAX_SCHEMA:
        return f"its schema has {size} bytes, {MAX_SCHEMA} are allowed"
    return next((fault for text in texts if (fault := _hostile(text))), "")


def _hostile(text: str) -> str:
    for character in text:
        if unicodedata.category(character) in {"Cc", "Cf", "Co", "Cs", "Cn"} and character not in "\n\r\t":
            return f"its description has the hidden character U+{ord(character):04X}"
    found = _PHRASES.search(text)
    return f"its description speaks to the model: {found[0][:60]!r}" if found else ""


def _texts(value: Any, depth: int) -> Iterator[str]:  # noqa: ANN401 - any JSON
    if depth > MAX_DEPTH:
        raise ValueError(depth)
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, depth + 1)


def _bare(tool: Tool) -> Tool:
    """Without what the digest does not cover, but for hints that are yes or no."""
    hints = tool.annotations
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=hints
        and ToolAnnotations(
            read_only_hint=hints.read_only_hint,
            destructive_hint=hints.destructive_hint,
            idempotent_hint=hints.idempotent_hint,
            open_world_hint=hints.open_world_hint,
        ),
    )
