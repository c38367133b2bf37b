"""The tools of the MCP server: what a client is shown of them, and which arguments they take.

The names are those that models know. Each stands for tools of the daemon's registry; what those may do is policy's
affair, and the annotations are hints to people that no verdict depends on.
"""

from collections.abc import Mapping
from typing import Any, Final

import jsonschema_rs
import mcp_types as types
import msgspec

from opensafe.errors import InvalidArgument

#: Bytes of output that a result carries of each stream.
OUTPUT_BYTES: Final = 64 * 1024
#: Bytes of a file that one `read` gives at most, and those that `edit` takes on.
READ_BYTES: Final = 256 * 1024
EDIT_BYTES: Final = 1024 * 1024
WRITE_CHARACTERS: Final = 4 * 1024 * 1024
LIST_ENTRIES: Final = 1000
#: Seconds that `call_status` waits for a reviewer at most.
STATUS_WAIT_S: Final = 60

_PATH: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "description": "Absolute, or relative to /workspace.",
}
_COMMAND: Final[dict[str, Any]] = {
    "cwd": {"type": "string", "pattern": "^/", "maxLength": 4096, "description": "Directory. Default: /workspace."},
    "env": {
        "type": "object",
        "maxProperties": 128,
        "additionalProperties": {"type": "string"},
        "description": "Variables beside the sandbox's own.",
    },
    "timeout_s": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 3600,
        "description": "Seconds it may run; policy may allow less.",
    },
}
_ANYTHING: Final = types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)
_LOOKS: Final = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)


def _tool(
    name: str,
    title: str,
    description: str,
    annotations: types.ToolAnnotations,
    required: str,
    **properties: dict[str, Any],
) -> types.Tool:
    return types.Tool(
        name=name,
        title=title,
        description=description,
        annotations=annotations,
        input_schema={
            "type": "object",
            "properties": properties,
            "required": required.split(),
            "additionalProperties": False,
        },
    )


TOOLS: Final = (
    _tool(
        "bash",
        "Run a shell command",
        "Run a shell text with bash in the sandbox. Files stay between calls; variables and directory do not.",
        _ANYTHING,
        "command",
        command={"type": "string", "minLength": 1, "maxLength": 131_071},
        **_COMMAND,
    ),
    _tool(
        "exec",
        "Run a program",
        "Run one program in the sandbox with exactly these arguments, without a shell.",
        _ANYTHING,
        "argv",
        argv={"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 4096},
        **_COMMAND,
    ),
    _tool(
        "read",
        "Read a file",
        f"Read a text file of the sandbox, at most {READ_BYTES} bytes at once; go on at `next_offset`.",
        _LOOKS,
        "path",
        path=_PATH,
        offset={"type": "integer", "minimum": 0, "maximum": 2**53 - 1, "description": "First byte. Default: 0."},
        length={"type": "integer", "minimum": 1, "maximum": READ_BYTES, "description": "Bytes."},
    ),
    _tool(
        "write",
        "Write a file",
        "Make or replace a whole text file in the sandbox, and the directories above it.",
        types.ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False),
        "path content",
        path=_PATH,
        content={"type": "string", "maxLength": WRITE_CHARACTERS},
    ),
    _tool(
        "edit",
        "Edit a file",
        "Replace `old` with `new` in a text file of the sandbox. `old` must occur exactly once, unless `all`.",
        types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False),
        "path old new",
        path=_PATH,
        old={"type": "string", "minLength": 1, "maxLength": EDIT_BYTES},
        new={"type": "string", "maxLength": EDIT_BYTES},
        all={"type": "boolean", "description": "Replace every occurrence."},
    ),
    _tool(
        "list",
        "List a directory",
        f"List a directory of the sandbox in order of the names, at most {LIST_ENTRIES} at once.",
        _LOOKS,
        "",
        path=_PATH | {"description": "Default: /workspace."},
        limit={"type": "integer", "minimum": 1, "maximum": LIST_ENTRIES},
        cursor={"type": "string", "maxLength": 1024, "description": "`next_cursor` of the page before."},
    ),
    _tool(
        "search",
        "Search in files",
        "Search the text files below a path for a pattern. Lines are told as FILE:NUMBER:TEXT; status 1 is no match.",
        _LOOKS,
        "pattern",
        pattern={"type": "string", "minLength": 1, "maxLength": 4096, "pattern": "^[^\\n]*$"},
        path=_PATH | {"description": "File or directory. Default: /workspace."},
        literal={"type": "boolean", "description": "The pattern is plain text. Default: an extended regex."},
        ignore_case={"type": "boolean"},
        include={"type": "string", "minLength": 1, "maxLength": 256, "description": "Only names like *.py."},
    ),
    _tool(
        "fetch",
        "Fetch a URL",
        "Get a web page from inside the sandbox, which reaches only what policy allows.",
        types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=True),
        "url",
        url={"type": "string", "pattern": "^https?://[^\\s]+$", "maxLength": 8192},
        timeout_s={"type": "integer", "minimum": 1, "maximum": 300, "description": "Default: 30."},
    ),
    _tool(
        "call_status",
        "Ask what became of a call",
        "The result of an earlier call of this conversation by its call_id, such as one that a reviewer has to decide. "
        "It never runs anything a second time.",
        _LOOKS,
        "call_id",
        call_id={"type": "string", "minLength": 1, "maxLength": 128},
        wait_s={
            "type": "integer",
            "minimum": 0,
            "maximum": STATUS_WAIT_S,
            "description": "Seconds to wait for the reviewer. Default: 0.",
        },
    ),
)
NAMES: Final = tuple(tool.name for tool in TOOLS)
_VALIDATORS: Final = {tool.name: jsonschema_rs.Draft202012Validator(tool.input_schema) for tool in TOOLS}


def conform(tool: str, arguments: Mapping[str, Any]) -> None:
    """Raises InvalidArgument for arguments that a tool does not take; the message names the place and the rule."""
    try:
        msgspec.json.encode(arguments)
    except (ValueError, RecursionError) as unfit:  # such as a lone surrogate
        raise InvalidArgument(f"the arguments of {tool} are no JSON: {unfit}") from unfit
    error = next(iter(_VALIDATORS[tool].iter_errors(arguments)), None)
    if error is not None:
        place = "/" + "/".join(str(part) for part in error.instance_path)
        raise InvalidArgument(
            f"{tool} {place}: {error.message[:300]}",
            value=repr(error.instance),
            remedy=f"See the input schema of {tool}.",
        )
