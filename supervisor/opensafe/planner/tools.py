"""What a model is offered: the daemon's built-in tools that an agent has use for, as OpenAI-style functions.

The daemon checks arguments by its own schemas; these are shorter, for a model to read. A test sends what they allow
through the daemon's.
"""

from collections.abc import Sequence
from typing import Any, Final

_PATH: Final = {"type": "string", "description": "Relative to /workspace, or absolute."}
_TIMEOUT: Final = {"type": "integer", "minimum": 50, "maximum": 3_600_000, "description": "Milliseconds."}
_CWD: Final = {"type": "string", "description": "Absolute; /workspace by default."}


def _function(name: str, description: str, required: Sequence[str], **properties: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON Schema
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS: Final[tuple[dict[str, Any], ...]] = (
    _function(
        "Bash",
        "Run a bash command line in the sandbox. Its directory is /workspace; nothing but files outlives the call.",
        ["command"],
        command={"type": "string", "minLength": 1},
        cwd=_CWD,
        timeout_ms=_TIMEOUT,
    ),
    _function(
        "Exec",
        "Run one program without a shell.",
        ["argv"],
        argv={"type": "array", "items": {"type": "string"}, "minItems": 1},
        cwd=_CWD,
        timeout_ms=_TIMEOUT,
    ),
    _function(
        "Read",
        "Read a file.",
        ["path"],
        path=_PATH,
        offset={"type": "integer", "minimum": 0},
        length={"type": "integer", "minimum": 1},
    ),
    _function(
        "Write",
        "Write a text file; its directories are made, and what it held is replaced.",
        ["path", "content"],
        path=_PATH,
        content={"type": "string"},
    ),
    _function("List", "List a directory.", ["path"], path=_PATH),
    _function("Remove", "Remove a file or a directory.", ["path"], path=_PATH, recursive={"type": "boolean"}),
    _function("Move", "Move or rename.", ["path", "to"], path=_PATH, to=_PATH, replace={"type": "boolean"}),
    _function("Mkdir", "Make a directory.", ["path"], path=_PATH, parents={"type": "boolean"}),
)
