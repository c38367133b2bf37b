"""A tool call as it arrives, and the program it becomes.

`ToolCall.sealed` is what policy sees, what the digest covers and what the record holds: the arguments with
every bulk field (a file's content) replaced by its size and SHA-256. The content itself travels beside it.
"""

from typing import Any

import msgspec


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls: known from the socket used, never from a request field."""

    name: str
    roles: tuple[str, ...] = ()


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One validated call. `digest` is canonical SHA-256 over tool and sealed arguments."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    sealed: dict[str, Any]
    digest: str


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is started in the guest: argv and env are text without NUL, cwd is absolute."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
