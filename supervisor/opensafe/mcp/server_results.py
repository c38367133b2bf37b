"""From what a call came to, to the result that an MCP client gets.

Four things stay apart: a command that ended, whatever its status, is a plain result; policy's no, a command that did
not end by itself, and a sandbox that failed are errors of different `kind`. Text and structured content say the same,
since clients show their model one of the two.
"""

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from opensafe.client import CallLost, CommandFailed, CommandResult, Denied, ReviewPending
from opensafe.errors import FileError, InvalidArgument, OpenSafeError, RequestError, SandboxError, Unavailable


def done(text: str, content: Mapping[str, Any]) -> types.CallToolResult:
    """A call that did what was asked."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=dict(content))


def of_command(result: CommandResult) -> types.CallToolResult:
    """A command that ended: its output, its exit status (-N where signal N ended it), and whether that is all of it."""
    return done(_output(result), _structured(result))


def of_error(error: OpenSafeError) -> types.CallToolResult:
    """What kept a call from that. A parked call is no error: it may yet be run."""
    match error:
        case Denied():
            return _refused(error)
        case ReviewPending():
            return parked(error)
        case CommandFailed(result=result):
            told = _told("command", error) | _structured(result)
            return _failed(f"{_output(result)}\n{_text('The command did not end by itself', error)}".strip(), told)
        case CallLost(result=result):
            told = _told("sandbox", error) | _structured(result)
            return _failed(f"{_output(result)}\n{_text('The sandbox failed, not the command', error)}".strip(), told)
        case SandboxError():
            return _failed(_text("The sandbox failed, not the command", error), _told("sandbox", error))
        case FileError():
            return _failed(_text("The file operation failed", error), _told("file", error))
        case InvalidArgument():
            return _failed(_text("The arguments are wrong; nothing was executed", error), _told("arguments", error))
        case RequestError():
            return _failed(_text("The request can't be served", error), _told("request", error))
        case Unavailable(call_id=call_id) if call_id:
            told = _told("unavailable", error)
            told["remedy"] = f"Ask call_status with call_id {call_id} whether it was run before you send it again."
            return _failed(f"OpenSafe was not available: {error.message}. {told['remedy']}", told)
        case Unavailable():
            return _failed(_text("OpenSafe is not available; nothing was executed", error), _told("unavailable", error))
        case _:
            return _failed(_text("OpenSafe failed", error), _told("internal", error))


def _refused(error: Denied) -> types.CallToolResult:
    rules = [{"rule": hit.id, "reason": hit.reason, "value": hit.value, "remedy": hit.remedy} for hit in error.rules]
    told = {
        "kind": "denied",
        "denied": True,
        "rule": error.rule,
        "reason": error.message,
        "value": error.value,
        "remedy": error.remedy,
        "rules": rules,
        "outcome": error.outcome,
        "call_id": error.call_id,
    }
    executed = "It was ended" if error.outcome == "violation" else "Nothing was executed"
    return _failed(_text(f"Denied. {executed}", error), told)


def parked(error: ReviewPending, then: str = "") -> types.CallToolResult:
    """A call that waits for a reviewer. then: what is to be done after it has run."""
    remedy = "Ask call_status with this call_id once a reviewer has decided. Do not send the call again."
    told = {
        "kind": "review",
        "pending": True,
        "review_id": error.review_id,
        "call_id": error.call_id,
        "rules": [{"rule": hit.id, "reason": hit.reason} for hit in error.rules],
        "remedy": f"{remedy} {then}".strip(),
    }
    text = (
        f"Waits for a reviewer (review {error.review_id}); nothing was executed so far. {error.message}. Somebody else "
        f"has to decide: `opensafe review show {error.review_id}`. Then ask call_status with call_id {error.call_id}; "
        f"do not send the call again. {then}"
    )
    return done(text.strip(), told)


def _failed(text: str, told: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=told, is_error=True
    )


def _told(kind: str, error: OpenSafeError) -> dict[str, Any]:
    return {
        "kind": kind,
        "error": error.reason,
        "message": error.message,
        "value": error.value,
        "limit": error.limit,
        "remedy": error.remedy,
        "call_id": error.call_id,
    }


def _text(what: str, error: OpenSafeError) -> str:
    call = f" [call_id {error.call_id}]" if error.call_id else ""
    return f"{what}: {error}{call}"


def _structured(result: CommandResult) -> dict[str, Any]:
    return {
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
        "dropped_bytes": result.dropped,
        "call_id": result.call_id,
    }


def _output(result: CommandResult) -> str:
    parts = [result.stdout.removesuffix("\n")] if result.stdout else []
    if result.stderr:
        parts.append(f"[stderr]\n{result.stderr.removesuffix(chr(10))}")
    if result.truncated:
        parts.append(f"[truncated: {result.dropped} bytes of the output are not shown]")
    if result.exit_code is not None:
        ended = f"signal {-result.exit_code}" if result.exit_code < 0 else f"exit code {result.exit_code}"
        parts.append(f"[{ended}]")
    return "\n".join(parts)


def listing(entries: list[dict[str, Any]]) -> str:
    """A directory's entries as lines."""
    return "\n".join(
        f"{entry['type']:9} {entry['mode']} {entry['size']:>9} {json.dumps(entry['name'])[1:-1]}" for entry in entries
    )
