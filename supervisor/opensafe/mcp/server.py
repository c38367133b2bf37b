"""The MCP server: one sandbox for each MCP session, behind tools that models know.

Over a pipe the process is the session; over HTTP each `Mcp-Session-Id` is one. It executes nothing itself and decides
nothing: it is a client of the daemon that speaks as one principal. Who asks can't approve, so a review is told to the
person at the client, and decided elsewhere.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from opensafe import __version__
from opensafe.client import AsyncSandbox, ReviewPending, trace_context
from opensafe.errors import OpenSafeError

from .server_calls import ACTIONS, status
from .server_place import Place, Places, Wish, owned
from .server_results import of_error
from .server_tools import NAMES, TOOLS, conform

Context = ServerRequestContext[Places, Any]
#: Seconds between two notices that a call is still under way.
PROGRESS_S: Final = 1.0
_PLACE: Final = "opensafe.place"
_INSTRUCTIONS: Final = (
    "All tools work in one sandbox, which is empty at first and gone when the session ends. Policy judges every call. "
    "A denial names the rule and what to do instead: do that, or something else, and do not disguise the call. A call "
    "that waits for a reviewer has not run: go on with other work and ask call_status later."
)


def build(wish: Wish) -> Server[Places]:
    """The server, to be run over one transport."""

    @asynccontextmanager
    async def places(_server: Server[Places]) -> AsyncIterator[Places]:
        opened = Places(wish)
        try:
            yield opened
        finally:
            await opened.aclose()

    return Server(
        "opensafe",
        version=__version__,
        title="OpenSafe",
        instructions=_INSTRUCTIONS,
        lifespan=places,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


async def _list_tools(_context: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=list(TOOLS))


async def _call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    name, arguments = params.name, params.arguments or {}
    if name not in ACTIONS:
        raise MCPError(
            code=types.INVALID_PARAMS, message=f"there is no tool {name[:80]!r}; there are {', '.join(NAMES)}"
        )
    with trace_context(_carrier(context)):
        ticker = asyncio.create_task(_tick(context), name="opensafe-mcp-progress")
        try:
            conform(name, arguments)
            return await owned(_act(context, name, arguments))
        except OpenSafeError as error:
            return of_error(error)
        finally:
            ticker.cancel()


async def _act(context: Context, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    place = _place(context)
    async with place.call() as sandbox:
        try:
            return await ACTIONS[name](place, sandbox, arguments)
        except ReviewPending as parked:
            if not (parked.call_id and name != "call_status" and _asks(context)):
                raise
            return await _reviewed(context, name, sandbox, parked)


async def _reviewed(context: Context, name: str, sandbox: AsyncSandbox, parked: ReviewPending) -> types.CallToolResult:
    """The parked call's result, unless the person at the client does not want to wait: then `parked` is raised."""
    waiting = asyncio.create_task(status(sandbox, parked.call_id, math.inf), name="opensafe-mcp-review")
    telling = asyncio.create_task(_tell(context, name, parked), name="opensafe-mcp-elicitation")
    try:
        await asyncio.wait({waiting, telling}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done() and not telling.result():
            raise parked
        await asyncio.wait({waiting})
        return waiting.result()
    finally:
        waiting.cancel()
        telling.cancel()
        await asyncio.gather(waiting, telling, return_exceptions=True)


async def _tell(context: Context, name: str, parked: ReviewPending) -> bool:
    """Tell the person at the client of a parked call; whether to wait for the reviewer. No answer approves anything."""
    why = "; ".join(f"{hit.id}: {hit.reason}" for hit in parked.rules[:3])
    message = (
        f"OpenSafe: this call of `{name}` waits for a reviewer and has not run ({why}). It can't be approved here: "
        f"a reviewer decides with `opensafe review show {parked.review_id}`. Accept to wait for that; decline to go on "
        "without its result."
    )
    try:
        answer = await context.session.elicit_form(
            message, {"type": "object", "properties": {}}, related_request_id=context.request_id
        )
    except (MCPError, ValidationError):  # it said it could ask, and can't
        return False
    return answer.action == "accept"


def _asks(context: Context) -> bool:
    """Whether the client can put something before a person."""
    capabilities = context.session.client_capabilities
    asks = capabilities.elicitation if capabilities is not None else None
    forms = asks is not None and (asks.form is not None or asks.url is None)
    return forms and context.session.can_send_request


async def _tick(context: Context) -> None:
    """Progress, for a client that asked for it."""
    if "progress_token" not in (context.meta or {}):
        return
    begun = time.monotonic()
    while True:
        await asyncio.sleep(PROGRESS_S)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client left; the call will be told
            await context.session.report_progress(round(time.monotonic() - begun, 1), message="under way")


def _carrier(context: Context) -> dict[str, str]:
    """The caller's trace, as SEP-414 has it in `_meta`."""
    meta: dict[str, Any] = dict(context.meta or {})
    return {name: value for name in ("traceparent", "tracestate") if isinstance(value := meta.get(name), str)}


def _place(context: Context) -> Place:
    """This MCP session's. Without a session id the process is the session: there is one connection, or in the protocol
    of 2026 one for each request.
    """
    connection = context.session._connection  # noqa: SLF001 - the SDK gives handlers no other way to what outlives them
    places = context.lifespan_context
    if connection.session_id is None:
        return places.only()
    place = connection.state.get(_PLACE)
    if place is None:
        place = connection.state[_PLACE] = places.open()
        connection.exit_stack.callback(places.retire, place)
    return place
