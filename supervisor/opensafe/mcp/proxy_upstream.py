"""The server behind the proxy, started when it is needed and again when it has died; never while a call is under way.

One that floods is not started again. What it asks for by itself (a model's answer, a user's) is refused unless the
proxy's user said otherwise, and its log messages go nowhere.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.client.client import Client as McpClient
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import ProgressFnT

from opensafe import __version__
from opensafe.errors import OpenSafeError

from .proxy_framing import Bounds, Ending
from .proxy_places import Place
from .proxy_vetting import MAX_TOOLS

Asked = TypeVar("Asked", types.CreateMessageResult, types.ElicitResult)

#: Pages of one list that are asked for.
_PAGES: Final = 32


class ServerGone(OpenSafeError):  # noqa: N818 - as in opensafe.errors, the name says what happened
    """The server can't be reached, or not any more; `value` says why."""

    reason = "SERVER_GONE"


class Running:
    """One life of the server."""

    def __init__(self, client: McpClient, ending: Ending) -> None:
        self.client = client
        self.ending = ending
        self.stale = True

    @property
    def session(self) -> ClientSession:
        """The protocol's session with it."""
        return self.client.session

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        timeout: float,
        meta: dict[str, Any],
        progress: ProgressFnT | None,
    ) -> types.CallToolResult:
        """One call, sent once. Raises MCPError; ValidationError for an answer that is no result."""
        params = types.CallToolRequestParams(name=name, arguments=arguments, _meta=meta or None)  # type: ignore[arg-type] # a typed dict with more keys
        request = types.CallToolRequest(params=params)
        return await self.session.send_request(request, types.CallToolResult, timeout, progress_callback=progress)

    async def tools(self, timeout: float) -> list[types.Tool]:
        """All that it lists. Raises MCPError, ValidationError, TimeoutError."""
        found: list[types.Tool] = []
        cursor: str | None = None
        async with asyncio.timeout(timeout):
            for _ in range(_PAGES):
                self.stale = False
                page = await self.client.list_tools(cursor=cursor)
                found += page.tools
                cursor = page.next_cursor
                if not cursor or len(found) > MAX_TOOLS:
                    break
        return found


class Upstream:
    """Starts and ends the server. on_change: called when it says that its tools have changed."""

    def __init__(
        self,
        place: Place,
        bounds: Bounds,
        on_change: Callable[[], Awaitable[None]],
        *,
        sampling: bool = False,
        elicitation: bool = False,
    ) -> None:
        self._place, self._bounds, self._on_change = place, bounds, on_change
        self._sampling, self._elicitation = sampling, elicitation
        self._starting = asyncio.Lock()
        self._running: Running | None = None
        self._life: asyncio.Task[None] | None = None
        #: The client's side, for what a flag lets through.
        self.downstream: ServerSession | None = None

    async def running(self) -> Running:
        """It, started if need be. Raises ServerGone, and what its place raises."""
        async with self._starting:
            if self._running is not None:
                ending = self._running.ending
                if not ending.over.is_set():
                    return self._running
                if ending.hostile:
                    raise ServerGone(
                        "the server was ended and is not started again",
                        value=ending.why,
                        remedy="Look at what it does; then start the proxy anew.",
                    )
            await self._end()
            ready: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
            self._life = asyncio.create_task(self._live(ready), name="mcp-server")
            try:
                async with asyncio.timeout(self._bounds.start_s):
                    self._running = await ready
            except TimeoutError:
                await self._end()
                raise ServerGone(
                    "the server did not answer to its start", value=f"{self._bounds.start_s:g} s"
                ) from None
            except BaseException:
                await self._end()
                raise
            return self._running

    @property
    def why(self) -> str:
        """Why the server is gone, "" where it is not."""
        return self._running.ending.why if self._running is not None else ""

    async def close(self) -> None:
        """End it."""
        async with self._starting:
            await self._end()

    async def _end(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            life.cancel()
            await asyncio.wait((life,))
            if not life.cancelled():
                life.exception()  # read: whoever waited for it has it already

    async def _live(self, ready: asyncio.Future[Running]) -> None:
        ending = Ending()
        try:
            client = McpClient(
                self._place.connect(self._bounds, ending),
                mode="auto",
                cache=None,
                message_handler=self._heard,
                client_info=types.Implementation(name="opensafe-proxy", version=__version__),
                sampling_callback=self._sample if self._sampling else None,
                elicitation_callback=self._elicit if self._elicitation else None,
            )
            async with client:
                if not ready.done():
                    ready.set_result(Running(client, ending))
                    await ending.over.wait()
        except (MCPError, OpenSafeError, ValueError, RuntimeError, OSError, ExceptionGroup) as error:
            if not ready.done():
                ready.set_exception(_cause(error, ending))
        finally:
            ending.set("it was ended")
            if not ready.done():
                ready.cancel()

    async def _heard(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification) and self._running is not None:
            self._running.stale = True
            with contextlib.suppress(MCPError):
                await self._on_change()

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        del context
        return await self._pass_on(types.CreateMessageRequest(params=params), types.CreateMessageResult)

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        del context
        return await self._pass_on(types.ElicitRequest(params=params), types.ElicitResult)

    async def _pass_on(self, request: types.ServerRequest, kind: type[Asked]) -> Asked | types.ErrorData:
        if self.downstream is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="no client is there to ask")
        try:
            return await self.downstream.send_request(request, kind, self._bounds.call_s)
        except MCPError as error:
            return error.error


def _cause(error: BaseException, ending: Ending) -> Exception:
    """What to tell of a start that failed."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OpenSafeError):
        return error
    closed = isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED
    why = ending.why if closed and ending.why else f"{type(error).__name__}: {error}"
    return ServerGone("the server could not be started", value=why)
