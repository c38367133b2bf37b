"""What the client gets for a call through the proxy: the server's result with our ids, or why there is none."""

from typing import Any

import mcp_types as types

from opensafe.client import ReviewPending, Unavailable
from opensafe.errors import OpenSafeError

from .proxy_gate import Answered
from .proxy_upstream import ServerGone
from .server_results import of_error


def answered(done: Answered) -> types.CallToolResult:
    """The server's own result. Its `_meta` gives way to ours: no server can pass a result off as of our making."""
    meta: dict[str, Any] = {
        "opensafe/kind": "answered",
        "opensafe/call_id": done.call_id,
        "opensafe/decision_id": done.verdict.decision_id,
        "opensafe/trace_id": done.verdict.trace_id,
        **done.carrier,
    }
    return done.result.model_copy(update={"meta": meta})


def failed(error: OpenSafeError, why: str = "") -> types.CallToolResult:
    """Why there is no result. A parked call is no error, as with our own server. why: of a server that is gone."""
    result = _failed(error, why)
    return result.model_copy(update={"meta": {"opensafe/kind": result.structured_content["kind"]}})


def _failed(error: OpenSafeError, why: str) -> types.CallToolResult:
    match error:
        case ReviewPending():
            return _parked(error)
        case ServerGone():
            error.value = error.value or why
            return _told("server", "The MCP server failed", error)
        case Unavailable():
            error.remedy = "Send the call again."
            return _told("unavailable", "OpenSafe is not available; nothing was executed", error)
        case _:
            return of_error(error)


def _told(kind: str, what: str, error: OpenSafeError) -> types.CallToolResult:
    told = {
        "kind": kind,
        "error": error.reason,
        "message": error.message,
        "value": error.value,
        "remedy": error.remedy,
        "call_id": error.call_id,
    }
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=f"{what}: {error}")]
    return types.CallToolResult(content=content, structured_content=told, is_error=True)


def _parked(error: ReviewPending) -> types.CallToolResult:
    told = {
        "kind": "review",
        "pending": True,
        "review_id": error.review_id,
        "call_id": error.call_id,
        "rules": [{"rule": hit.id, "reason": hit.reason, "value": hit.value} for hit in error.rules],
        "remedy": error.remedy,
    }
    text = (
        f"Waits for a reviewer (review {error.review_id}); nothing was executed so far. {error.message}. Somebody else "
        f"has to decide: `opensafe review show {error.review_id}`. {error.remedy}"
    )
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=told)
