"""What each tool of the MCP server does: calls of the daemon's own tools, so that policy judges the real action.

`edit` is a Stat, a Read and a Write; `search` is an Exec of grep and `fetch` one of curl. A call's id is made before
the call is sent and is in whatever comes back, so that `call_status` can be asked of it and nothing runs twice.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

import mcp_types as types

from opensafe.client import AsyncRun, AsyncSandbox, ReviewPending, RunOptions
from opensafe.errors import InvalidArgument, LimitExceeded, OpenSafeError, WrongFileType

from .server_place import Place
from .server_results import done, listing, of_command, parked
from .server_tools import EDIT_BYTES, LIST_ENTRIES, OUTPUT_BYTES, READ_BYTES

Arguments = Mapping[str, Any]
Action = Callable[[Place, AsyncSandbox, Arguments], Awaitable[types.CallToolResult]]

_WORKSPACE: Final = "/workspace"
#: Matching lines that a search tells of each file.
_MATCHES: Final = 200
_FETCH_S: Final = 30
#: How long a cancelled request waits for its call's end.
_CANCEL_S: Final = 5


async def _bash(_place: Place, sandbox: AsyncSandbox, given: Arguments) -> types.CallToolResult:
    return await _run(sandbox, "Bash", {"command": given["command"], **_common(given)}, given)


async def _exec(_place: Place, sandbox: AsyncSandbox, given: Arguments) -> types.CallToolResult:
    return await _run(sandbox, "Exec", {"argv": given["argv"], **_common(given)}, given)


async def _search(_place: Place, sandbox: AsyncSandbox, given: Arguments) -> types.CallToolResult:
    return await _run(sandbox, "Exec", {"argv": search_argv(given)}, {})


async def _fetch(_place: Place, sandbox: AsyncSandbox, given: Arguments) -> types.CallToolResult:
    return await _run(sandbox, "Exec", {"argv": fetch_argv(given)}, {})


async def _read(_place: Place, sandbox: AsyncSandbox, given: Arguments) -> types.CallToolResult:
    path, offset = given["path"], given.get("offset", 0)
    length = given.get("length", READ_BYTES)
    data = await sandbox.files.read_bytes(path, offset=offset, length=length + 1)
    more = len(data) > length
    part = _whole_characters(data[:length]) if more else data
    text = _text(path, part)
    following = offset + len(part) if more else None
    note = f"\n[truncated: the file goes on at offset {following}]" if more else ""
    content = {"path": path, "content": text, "offset": offset, "truncated": more, "next_offset": following}
    return done(text + note, content)


async def _write(_place: Place, sandbox: AsyncSandbox, given: Arguments) -> types.CallToolResult:
    data = _encoded(given["content"])
    await sandbox.files.write(given["path"], data)
    return done(f"wrote {len(data)} bytes to {given['path']}", {"path": given["path"], "bytes": len(data)})


async def _edit(place: Place, sandbox: AsyncSandbox, given: Arguments) -> types.CallToolResult:
    path = given["path"]
    async with place.editing:
        try:
            info = await sandbox.files.stat(path)
            data = await sandbox.files.read_bytes(path, length=EDIT_BYTES + 1)
        except ReviewPending as error:
            return parked(error, "It is the look at the file alone that waits: the edit is then made with `write`.")
        if info.type != "file":
            raise WrongFileType(f"the name is a {info.type}", value=path, remedy="Name the regular file itself.")
        if len(data) > EDIT_BYTES:
            raise LimitExceeded(
                "the file is too large to edit", value=path, limit=f"{EDIT_BYTES} bytes", remedy="Use bash and sed."
            )
        text, count = replaced(_text(path, data), given)
        await sandbox.files.write(path, _encoded(text), mode=info.mode & 0o777)
    times = "1 place" if count == 1 else f"{count} places"
    return done(f"changed {times} in {path}", {"path": path, "replaced": count})


async def _list(_place: Place, sandbox: AsyncSandbox, given: Arguments) -> types.CallToolResult:
    path = given.get("path", _WORKSPACE)
    call_id = _fresh_id()
    session = sandbox.session
    files = session.client.files(session.session_id, sandbox.sandbox_id)
    try:
        page = await files.list(
            path, page_size=given.get("limit", LIST_ENTRIES), cursor=given.get("cursor", ""), call_id=call_id
        )
    except OpenSafeError as error:
        error.call_id = call_id
        raise
    entries = [
        {
            "name": entry.name.decode("utf-8", "backslashreplace"),
            "type": entry.type,
            "size": entry.size,
            "mode": f"{entry.mode & 0o7777:04o}",
        }
        for entry in page.entries
    ]
    note = f"\n[truncated: it goes on at cursor {page.next_cursor}]" if page.next_cursor else ""
    content = {"path": path, "entries": entries, "truncated": bool(page.next_cursor), "next_cursor": page.next_cursor}
    return done(listing(entries) + note, content)


async def _call_status(_place: Place, sandbox: AsyncSandbox, given: Arguments) -> types.CallToolResult:
    return await status(sandbox, given["call_id"], given.get("wait_s") or None)


ACTIONS: Final[Mapping[str, Action]] = {
    "bash": _bash,
    "exec": _exec,
    "read": _read,
    "write": _write,
    "edit": _edit,
    "list": _list,
    "search": _search,
    "fetch": _fetch,
    "call_status": _call_status,
}


async def status(sandbox: AsyncSandbox, call_id: str, wait_s: float | None) -> types.CallToolResult:
    """What became of a call. Raises ReviewPending where a reviewer has not decided after `wait_s` seconds."""
    return await _ended(sandbox.attach(call_id, wait_review=wait_s, keep=OUTPUT_BYTES))


def search_argv(given: Arguments) -> list[str]:
    """The grep that a search is."""
    options = ["-F" if given.get("literal") else "-E"]
    if given.get("ignore_case"):
        options.append("-i")
    if include := given.get("include"):
        options.append(f"--include={include}")
    path = given.get("path", _WORKSPACE)
    return ["grep", "-rnI", f"--max-count={_MATCHES}", *options, "-e", given["pattern"], "--", path]


def fetch_argv(given: Arguments) -> list[str]:
    """The curl that a fetch is: redirections are followed, and an HTTP error has an exit status."""
    seconds = str(given.get("timeout_s", _FETCH_S))
    return ["curl", "-sSL", "--fail-with-body", "--max-redirs", "5", "--max-time", seconds, "--", given["url"]]


def replaced(text: str, given: Arguments) -> tuple[str, int]:
    """The edited text and how many places changed. Raises InvalidArgument where `old` is not there or not alone."""
    old, new = given["old"], given["new"]
    if old == new:
        raise InvalidArgument("old and new are the same", value="/new")
    count = text.count(old)
    if count == 0:
        raise InvalidArgument("the file does not contain `old`", value="/old", remedy="Read the file again.")
    if count > 1 and not given.get("all"):
        raise InvalidArgument(
            f"`old` occurs {count} times", value="/old", remedy="Give more of its surroundings, or set `all`."
        )
    edited = text.replace(old, new)
    if len(edited) > 4 * EDIT_BYTES:
        raise LimitExceeded("the edited file is too large", value=f"{len(edited)} characters", limit=4 * EDIT_BYTES)
    return edited, count


async def _run(sandbox: AsyncSandbox, tool: str, arguments: Arguments, given: Arguments) -> types.CallToolResult:
    options = RunOptions(call_id=_fresh_id(), keep=OUTPUT_BYTES)
    if "timeout_s" in given:
        options["timeout"] = max(0.05, given["timeout_s"])
    run = sandbox.tool_stream(tool, arguments, **options)
    try:
        return await _ended(run)
    except asyncio.CancelledError:
        with suppress(OpenSafeError, TimeoutError):  # it may be at its end, or never have got there
            async with asyncio.timeout(_CANCEL_S):
                await sandbox.cancel(run.call_id)  # others may be attached, who would keep it alive
        raise


async def _ended(run: AsyncRun) -> types.CallToolResult:
    try:
        async with aclosing(run):
            return of_command(await run.wait())
    except OpenSafeError as error:
        error.call_id = error.call_id or run.call_id
        raise


def _common(given: Arguments) -> dict[str, Any]:
    return {name: given[name] for name in ("cwd", "env") if name in given}


def _fresh_id() -> str:
    return f"mcp-{secrets.token_hex(8)}"


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument("the text has a lone surrogate, which is in no UTF-8", value=error.start) from error


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            "the file is no UTF-8 text", value=path, remedy="Look at it with bash, such as `base64` or `od`."
        ) from error


def _whole_characters(data: bytes) -> bytes:
    """Without the beginning of a character that is cut off at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            size = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return data[:-back] if size > back else data
    return data
